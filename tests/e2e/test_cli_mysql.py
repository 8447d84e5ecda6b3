"""The command line over MariaDB, where the operator makes the schema and there is no demo."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.test_cli import SECRET, Pepper


@pytest.fixture
def pepper(tmp_path: Path, mysql_url: str) -> Pepper:
    return Pepper(tmp_path, PEPPER_DATABASE_URL=mysql_url, PEPPER_SECRET=SECRET)


def test_before_migrate_every_command_says_so(pepper: Pepper) -> None:
    for words in (
        ("project", "list"),
        ("project", "add", "negozio"),
        ("key", "list", "demo"),
        ("price", "list"),
    ):
        assert "pepper migrate" in pepper.refused(*words)


def test_migrate_installs_without_a_demo_also_twice_at_once(pepper: Pepper) -> None:
    with ThreadPoolExecutor(3) as pool:
        ran = list(pool.map(lambda _: pepper.spawn("migrate", "--json"), range(3)))
    assert [(one.status, one.json, one.err) for one in ran] == [(0, {"ok": True}, "")] * 3
    assert [one["progetto"] for one in pepper.told("project", "list")] == ["dilem"]
    assert [one["nome"] for one in pepper.told("model", "list")] == [
        "Pepper 6",
        "Pepper 6 · OpenAI",
        "Pepper 7",
    ]


def test_the_life_of_a_project(pepper: Pepper) -> None:
    pepper.done("migrate")
    key = pepper.told(
        "project", "add", "negozio", "--daily-budget", "999999999.999999", "--domains", "perché.it"
    )
    assert key["chiave"].startswith("pk_")
    told = pepper.project("negozio")
    assert (told["tetto_usd"], told["domini"]) == (999_999_999.999999, ["xn--perch-fsa.it"])
    pepper.done("project", "set", "negozio", "--allow", "internet", "--model", "Pepper 6 · OpenAI")
    assert pepper.project("negozio")["modello"] == "Pepper 6 · OpenAI"
    assert "exists already" in pepper.refused("project", "add", "negozio")
    added = pepper.told("key", "add", "negozio", "--label", "più 🗝 " + "x" * 120)
    assert pepper.told("key", "list", "negozio")[1]["id"] == added["id"]
    pepper.done("key", "revoke", "negozio", str(added["id"]))
    assert pepper.told("key", "list", "negozio")[1]["revocata_il"]
    pepper.done(
        "recipe", "variant", "riassumi", "--project", "negozio", "--file", "-", given="Fai così 🗝.".encode()
    )
    pepper.done("project", "remove", "negozio", "--yes")
    assert [one["progetto"] for one in pepper.told("project", "list")] == ["dilem"]


def test_names_differ_as_they_are_written(pepper: Pepper) -> None:
    pepper.done("migrate")
    parts = ["--provider", "claude", "--main", "claude-opus-5", "--economy", "claude-haiku-4-5"]
    pepper.done("model", "add", "pepper 6", *parts)
    pepper.done("model", "add", "Pepper é", *parts, "--fallback", "pepper:pepper 6")
    assert [one["nome"] for one in pepper.told("model", "list")][3:] == ["pepper 6", "Pepper é"]
    assert "no model" in pepper.refused("model", "default", "Pepper e")


def test_switches_and_prices(pepper: Pepper) -> None:
    pepper.done("migrate")
    pepper.done("recipe", "set", "libero", "--internet", "on", "--level", "economico")
    told = pepper.told("recipe", "list")[4]
    assert (told["nome"], told["livello"], told["internet"]) == ("libero", "economico", True)
    pepper.done("price", "set", "claude-opus-5", "--input", "0.000001", "--output", "1000000")
    told = pepper.told("price", "list")[0]
    assert (told["input_usd"], told["output_usd"], told["origine"]) == (0.000001, 1_000_000, "operatore")


def test_another_secret_is_refused(pepper: Pepper) -> None:
    pepper.done("migrate")
    for words in (("project", "list"), ("migrate",)):
        assert "PEPPER_SECRET" in pepper.under(PEPPER_SECRET=SECRET + "!").refused(*words)
