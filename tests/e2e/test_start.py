"""Starting: what stops it says so in one line; what need not stop it does not."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import told
from tests.e2e.desk import Tenant, prepare
from tests.e2e.harness import REPOSITORY, Gateway
from tests.e2e.surroundings import Fakes, Stores
from tests.services import LOOPBACK


@pytest.fixture(scope="module")
def backend() -> str:
    return "embedded"


Make = Callable[..., Gateway]

WRONG = {
    "PEPPER_DATABASE_URL": ["postgres://x/y", "mysql://", "mysql://h:port/db", "sqlite://relative.db"],
    "PEPPER_REDIS_URL": ["http://x", "redis://", "redis://h/name"],
    "PEPPER_VECTOR_URL": ["mysql://h/db", "postgresql://", "postgresql://h", "postgresql://h:port/db"],
    "PEPPER_SECRET": ["short"],
    "PEPPER_TIMEZONE": ["Europe/Roma", "../etc/passwd"],
    "PEPPER_RECIPES": ["/does/not/exist"],
    "PEPPER_TRUSTED_PROXIES": ["10.0.0.0/99", "everybody"],
    "PEPPER_LOG": ["xml"],
    "PEPPER_DRAIN_SECONDS": ["-1", "soon"],
    "ANTHROPIC_BASE_URL": ["ftp://x", "http://x/a?b=1", "http://x/#c"],
    "OPENAI_BASE_URL": ["nowhere", "http://x/v1?"],
}


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a start that was refused."""
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("variable", WRONG)
async def test_a_wrong_setting_stops_the_start_with_one_line(make_gateway: Make, variable: str) -> None:
    async def started(value: str) -> None:
        gateway = make_gateway(environment={variable: value})
        done = await asyncio.to_thread(gateway.command, "serve", "--port", str(gateway.port))
        line = complaint(done)
        assert variable in line, line
        if variable == "PEPPER_SECRET":
            assert value not in line

    await asyncio.gather(*(started(value) for value in WRONG[variable]))


async def test_wrong_options_are_wrong_usage(make_gateway: Make) -> None:
    gateway = make_gateway()
    for options in (("--port", "0"), ("--port", "x"), ("--workers", "0"), ("--nothing",), ("more",)):
        done = gateway.command("serve", *options)
        assert done.returncode == 2, options
        assert len(done.stderr.splitlines()) == 1


async def test_an_address_that_is_taken(make_gateway: Make) -> None:
    gateway = make_gateway()
    with socket.socket() as taken:
        taken.bind((LOOPBACK, gateway.port))
        taken.listen()
        assert str(gateway.port) in complaint(gateway.command("serve", "--port", str(gateway.port)))


async def test_a_data_folder_that_is_none(make_gateway: Make, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        gateway = make_gateway(environment={"PEPPER_DATA": str(place)})
        assert "PEPPER_DATA" in complaint(gateway.command("serve", "--port", str(gateway.port)))


async def test_a_broken_recipe_stops_the_start(make_gateway: Make, tmp_path: Path) -> None:
    (tmp_path / "pepper").mkdir()
    (tmp_path / "pepper" / "rotta.md").write_text("---\nnome: rotta\nlivello: mai\n---\nTesto.\n")
    gateway = make_gateway(environment={"PEPPER_RECIPES": str(tmp_path)})
    assert "rotta.md" in complaint(gateway.command("serve", "--port", str(gateway.port)))


async def test_the_first_start_shows_the_demo_key_once_and_it_works(make_gateway: Make) -> None:
    gateway = make_gateway()
    gateway.start()
    [line] = [line for line in gateway.log().splitlines() if "pk_" in line]
    key = next(word for word in line.split() if word.startswith("pk_"))
    async with gateway.connected():
        assert told.answer(await gateway.ask(Tenant("demo", key)))["meta"]["provider"] == "prova"
    assert (gateway.data / "secret").exists() is False, "PEPPER_SECRET was given"
    gateway.restart()
    assert gateway.log().count("pk_") == 1
    async with gateway.connected():
        told.answer(await gateway.ask(Tenant("demo", key)))


async def test_a_secret_is_made_and_kept(make_gateway: Make) -> None:
    gateway = make_gateway(environment={"PEPPER_SECRET": ""})
    gateway.start()
    secret = gateway.data / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    kept = secret.read_text()
    gateway.restart()
    assert secret.read_text() == kept
    gateway.kill()
    secret.write_text("another secret that is long enough, but not the one")
    assert "PEPPER_SECRET" in complaint(gateway.command("serve", "--port", str(gateway.port)))


async def test_it_writes_only_under_its_data_folder(make_gateway: Make, tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    variables = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
    }
    gateway = make_gateway(environment=variables, working_folder=here)
    gateway.start()
    async with gateway.connected():
        told.answer(await gateway.ask(await gateway.desk.project(), conversazione="nuova"))
    assert gateway.terminate() == 0
    assert names_in(home) == names_in(here) == set()
    assert "pepper.db" in names_in(gateway.data)


async def test_another_secret_or_store_beside_a_living_node_is_refused(
    make_gateway: Make, fakes: Fakes, tmp_path: Path
) -> None:
    """Two nodes with key-value stores of their own would let every limit pass twice."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    await asyncio.to_thread(prepare, url)
    first = make_gateway(environment={"PEPPER_DATABASE_URL": url})
    first.start()
    second = make_gateway(environment={"PEPPER_DATABASE_URL": url})
    line = complaint(second.command("serve", "--port", str(second.port)))
    assert "PEPPER_REDIS_URL" in line
    third = make_gateway(environment={"PEPPER_DATABASE_URL": url, "PEPPER_SECRET": "o" * 40})
    assert "PEPPER_SECRET" in complaint(third.command("serve", "--port", str(third.port)))
    assert first.terminate() == 0
    second.start()


async def test_a_node_with_an_index_of_its_own_beside_another_is_warned(
    make_gateway: Make, redis_url: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    await asyncio.to_thread(prepare, url)
    shared = {"PEPPER_DATABASE_URL": url, "PEPPER_REDIS_URL": redis_url}
    first, second = make_gateway(environment=shared), make_gateway(environment=shared)
    first.start()
    second.start()
    assert "vector index is embedded" not in first.log()
    [told] = [line for line in second.log().splitlines() if "vector index is embedded" in line]
    assert '"level":"warning"' in told


async def test_a_database_without_tables_is_refused(make_gateway: Make, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    gateway = make_gateway(environment={"PEPPER_DATABASE_URL": url})
    line = complaint(gateway.command("serve", "--port", str(gateway.port)))
    assert "pepper migrate" in line
    assert gateway.command("migrate").returncode == 0
    gateway.start()


async def test_without_provider_keys_it_serves_and_says_so_to_callers(
    fakes: Fakes, make_gateway: Make
) -> None:
    gateway = make_gateway(environment={"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""})
    gateway.start()
    async with gateway.connected():
        told.error(await gateway.ask(await gateway.desk.project()), 502, "errore_ai")
        told.answer(await gateway.ask(await gateway.desk.project(sandbox=True)))
    assert "ANTHROPIC_API_KEY" in gateway.log()


async def test_workers_are_processes(stores: Stores, make_gateway: Make) -> None:
    gateway = make_gateway(workers=2)
    gateway.start()
    pids = gateway.worker_pids()
    assert len(pids) == 2
    assert os.getpid() not in pids
    gateway.kill()
