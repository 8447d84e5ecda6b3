"""`pepper doctor` finds what is wrong, and says what mends it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.contract.test_gate_stores import RedisClusterServer
from tests.e2e.test_cli import ROOT, SECRET, Pepper
from tests.services import LOOPBACK, Postgres, Redis, find_free_port


@pytest.fixture
def pepper(tmp_path: Path) -> Pepper:
    """A healthy installation."""
    pepper = Pepper(tmp_path, ANTHROPIC_API_KEY="a-key")
    pepper.done("migrate")
    return pepper


def problems(pepper: Pepper, **changed: str) -> dict[str, str]:
    """What is wrong, with its remedy; the exit status and the human text say the same."""
    ran = pepper.under(**changed).run("doctor", "--json")
    assert list(ran.json) == ["ok", "problemi"]
    assert all(list(problem) == ["cosa", "rimedio"] for problem in ran.json["problemi"])
    assert ran.json["ok"] is not bool(ran.json["problemi"])
    assert ran.status == int(not ran.json["ok"])
    return {problem["cosa"]: problem["rimedio"] for problem in ran.json["problemi"]}


def only(pepper: Pepper, **changed: str) -> tuple[str, str]:
    """The one thing that is wrong."""
    [found] = problems(pepper, **changed).items()
    return found


def test_a_healthy_installation_is_well(pepper: Pepper) -> None:
    assert problems(pepper) == {}
    ran = pepper.run("doctor")
    assert (ran.status, ran.out, ran.err) == (0, "tutto a posto\n", "")


def test_on_an_empty_store_it_makes_the_first_start_and_shows_the_key(tmp_path: Path) -> None:
    ran = Pepper(tmp_path, ANTHROPIC_API_KEY="a-key").run("doctor", "--json")
    assert (ran.status, ran.json["ok"]) == (0, True)
    assert "pk_" in ran.err


def test_people_read_the_same(pepper: Pepper) -> None:
    pepper.done("project", "add", "negozio")
    what, remedy = only(pepper, ANTHROPIC_API_KEY="")
    ran = pepper.under(ANTHROPIC_API_KEY="").run("doctor")
    assert ran.status == 1
    assert ran.out.split() == [*what.split(), "rimedio:", *remedy.split()]


def test_a_missing_provider_key(pepper: Pepper) -> None:
    assert problems(pepper, ANTHROPIC_API_KEY="") == {}, "nobody calls the gateway's own project yet"
    pepper.done("project", "add", "bottega")
    what, remedy = only(pepper, ANTHROPIC_API_KEY="")
    assert "bottega" in what
    assert "ANTHROPIC_API_KEY" in remedy
    pepper.done("project", "set", "bottega", "--sandbox")
    assert problems(pepper, ANTHROPIC_API_KEY="") == {}
    pepper.done("project", "add", "negozio", "--model", "Pepper 6 · OpenAI")
    what, remedy = only(pepper, ANTHROPIC_API_KEY="")
    assert "openai" in what
    assert "negozio" in what
    assert "OPENAI_API_KEY" in remedy
    assert problems(pepper, OPENAI_API_KEY="a-key") == {}
    pepper.done("project", "disable", "negozio")
    assert problems(pepper) == {}


def test_the_provider_of_a_fallback_counts(pepper: Pepper) -> None:
    pepper.done("project", "add", "negozio")
    pepper.done("model", "set", "Pepper 6", "--fallback", "pepper:Pepper 6 · OpenAI")
    assert "OPENAI_API_KEY" in only(pepper)[1]


def test_a_wrong_variable(pepper: Pepper) -> None:
    what, remedy = only(pepper, PEPPER_TIMEZONE="nowhere")
    assert "PEPPER_TIMEZONE" in what
    assert "Europe/Rome" in remedy


def test_another_secret(pepper: Pepper) -> None:
    assert "PEPPER_SECRET" in only(pepper, PEPPER_SECRET=SECRET)[0]


def test_a_data_folder_that_cannot_be(pepper: Pepper) -> None:
    assert "PEPPER_DATA" in only(pepper, PEPPER_DATA="/proc/nowhere")[0]


def test_a_secret_that_others_can_read(pepper: Pepper) -> None:
    (pepper.data / "secret").chmod(0o640)
    assert only(pepper)[1].startswith("chmod 600 ")
    assert "PEPPER_SECRET" in only(pepper, PEPPER_SECRET=SECRET)[0]


def test_a_model_without_a_price(pepper: Pepper) -> None:
    pepper.done("model", "set", "Pepper 7", "--economy", "claude-mistero")
    what, remedy = only(pepper)
    assert "Pepper 7" in what
    assert "pepper price set claude-mistero" in remedy
    pepper.done("price", "set", "claude-mistero", "--input", "1", "--output", "2")
    assert problems(pepper) == {}


def test_recipes_that_are_wrong_gone_or_do_not_fit(pepper: Pepper) -> None:
    folder = pepper.folder / "recipes"
    shutil.copytree(ROOT / "recipes", folder)
    pepper.environment["PEPPER_RECIPES"] = str(folder)
    pepper.done("project", "add", "negozio")
    assert problems(pepper) == {}
    pepper.done("recipe", "set", "libero", "--internet", "on")
    pepper.done("recipe", "variant", "libero", "--project", "demo", "--file", "-", given=b"Fai altro.")
    (folder / "pepper" / "libero.md").rename(folder / "pepper" / "libero.off")
    found = problems(pepper)
    assert len(found) == 2
    assert all("libero" in what for what in found)
    (folder / "pepper" / "rotta.md").write_text("nothing")
    found = problems(pepper, ANTHROPIC_API_KEY="")
    assert any("rotta.md" in what for what in found)
    assert any("ANTHROPIC_API_KEY" in remedy for remedy in found.values())


def test_a_clock_file_without_an_instant(pepper: Pepper) -> None:
    clock = pepper.folder / "clock"
    assert "PEPPER_CLOCK_FILE" in only(pepper, PEPPER_CLOCK_FILE=str(clock))[0]
    clock.write_text("yesterday")
    assert "PEPPER_CLOCK_FILE" in only(pepper, PEPPER_CLOCK_FILE=str(clock))[0]
    clock.write_text("2026-07-01T00:00:00Z\n")
    assert problems(pepper, PEPPER_CLOCK_FILE=str(clock)) == {}


def test_ledger_rows_that_wait(pepper: Pepper) -> None:
    (pepper.data / "spool.jsonl").write_text("{}\n")
    assert "pepper serve" in only(pepper)[1]
    (pepper.data / "spool.jsonl").unlink()
    (pepper.data / "spool-unreadable.jsonl").write_text("{\n")
    assert "spool-unreadable.jsonl" in only(pepper)[0]


def test_a_database_that_is_away(pepper: Pepper) -> None:
    url = f"mysql://u:topsecret@{LOOPBACK}:{find_free_port()}/x"
    what, remedy = only(pepper, PEPPER_DATABASE_URL=url)
    assert "topsecret" not in what
    assert "PEPPER_DATABASE_URL" in remedy


def test_a_database_without_tables(pepper: Pepper, mysql_url: str) -> None:
    pepper.environment["PEPPER_DATABASE_URL"] = mysql_url
    assert only(pepper)[1] == "pepper migrate"
    pepper.done("migrate")
    assert problems(pepper) == {}


def test_redis_as_it_must_be(pepper: Pepper, redis_url: str) -> None:
    assert problems(pepper, PEPPER_REDIS_URL=redis_url) == {}


def test_redis_that_forgets(pepper: Pepper, redis_server: Redis) -> None:
    with closing(redis.Redis.from_url(redis_server.url)) as client:
        client.config_set("appendonly", "no")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            remedies = list(problems(pepper, PEPPER_REDIS_URL=redis_server.url).values())
        finally:
            client.config_set("appendonly", "yes")
            client.config_set("maxmemory-policy", "noeviction")
    assert "appendonly yes" in remedies[0]
    assert "maxmemory-policy noeviction" in remedies[1]
    assert len(remedies) == 2


@pytest.mark.redis
def test_a_cluster_is_asked_too(pepper: Pepper) -> None:
    server = RedisClusterServer()
    try:
        server.start()
        assert problems(pepper, PEPPER_REDIS_URL=server.url) == {}
        with closing(redis.Redis(host=LOOPBACK, port=server.port)) as client:
            client.config_set("appendonly", "no")
        assert "appendonly yes" in only(pepper, PEPPER_REDIS_URL=server.url)[1]
    finally:
        server.remove()


def test_redis_that_is_away_or_shut(pepper: Pepper, redis_server: Redis) -> None:
    away = f"redis://:topsecret@{LOOPBACK}:{find_free_port()}/0"
    what, remedy = only(pepper, PEPPER_REDIS_URL=away)
    assert "topsecret" not in what
    assert "PEPPER_REDIS_URL" in remedy
    wrong = redis_server.url.replace("redis://", "redis://:topsecret@")
    what, _ = only(pepper, PEPPER_REDIS_URL=wrong)
    assert "topsecret" not in what


def test_an_index_that_is_well(pepper: Pepper, vector_url: str) -> None:
    assert problems(pepper, PEPPER_VECTOR_URL=vector_url) == {}


def test_an_index_that_is_away_or_without_pgvector(pepper: Pepper, postgres: Postgres) -> None:
    away = f"postgresql://pepper:topsecret@{LOOPBACK}:{find_free_port()}/db"
    what, remedy = only(pepper, PEPPER_VECTOR_URL=away)
    assert "topsecret" not in what
    assert "PEPPER_VECTOR_URL" in remedy
    bare = postgres.create_database(extension=False)
    try:
        what, _ = only(pepper, PEPPER_VECTOR_URL=bare)
    finally:
        postgres.drop_database(bare)
    assert "CREATE EXTENSION vector" in what


def test_an_index_file_that_is_damaged(pepper: Pepper) -> None:
    file = pepper.data / "knowledge.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER CHECK (n > 0))")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("INSERT INTO t VALUES (-1)")
        connection.commit()
    what, remedy = only(pepper)
    assert "rovinato" in what
    assert "pepper knowledge reindex" in remedy
    file.write_bytes(b"no database at all" * 1000)
    assert "non risponde" in only(pepper)[0]
