"""What every test may ask for: real services, a free port, and a door to the world that stays shut."""

from __future__ import annotations

import asyncio
import importlib
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.providers import sdk_process
from gateway.providers.sdk_process import Question, Sent
from tests.e2e.desk import prepare
from tests.e2e.harness import Gateway
from tests.e2e.surroundings import Fakes, Stores
from tests.fakes import ClaudeServer, OpenAIServer
from tests.services import MariaDb, Postgres, Redis, World, WorldReachedError, find_free_port

_world = World()

# A test is of the kind of the services it asks for, so that `-m "not mysql"` needs no marks by hand.
_KINDS = {"mariadb": "mysql", "redis_server": "redis", "postgres": "postgres"}


def pytest_configure() -> None:
    _world.close()


def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in _KINDS:
            item.add_marker(_KINDS[fixture])


@pytest.fixture(autouse=True)
def world() -> Iterator[World]:
    """Fails a test that tried to leave this machine, also one whose code swallowed the refusal."""
    _world.attempts.clear()
    yield _world
    if _world.attempts:
        message = f"reached for {', '.join(_world.attempts)}"
        raise WorldReachedError(message)


@pytest.fixture(autouse=True)
def _sdks_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers made in this process ask the SDKs in it too: a process for each would take the suite minutes."""

    async def ask(module: str, question: Question) -> Sent:
        found: Any = await asyncio.to_thread(importlib.import_module, module)
        sent: Sent = await found.observe(question)
        return sent

    monkeypatch.setattr(sdk_process, "ask", ask)


@pytest.fixture
def free_port() -> int:
    return find_free_port()


@pytest.fixture(scope="session")
def _mariadb() -> Iterator[MariaDb]:
    server = MariaDb()
    yield server
    server.remove()


@pytest.fixture
def mariadb(_mariadb: MariaDb) -> MariaDb:
    """The running server, whatever an earlier test did to it."""
    _mariadb.start()
    return _mariadb


@pytest.fixture
def mysql_url(mariadb: MariaDb) -> Iterator[str]:
    """A new, empty database: `mysql://user:password@127.0.0.1:port/name`."""
    url = mariadb.create_database()
    yield url
    mariadb.start()
    mariadb.drop_database(url)


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.remove()


@pytest.fixture
def redis_server(_redis_server: Redis) -> Redis:
    """The running server, empty, whatever an earlier test did to it."""
    _redis_server.start()
    _redis_server.flush()
    return _redis_server


@pytest.fixture
def redis_url(redis_server: Redis) -> str:
    return redis_server.url


@pytest.fixture(scope="session")
def _postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture
def postgres(_postgres: Postgres) -> Postgres:
    """The running server, whatever an earlier test did to it."""
    _postgres.start()
    return _postgres


@pytest.fixture(scope="session")
def _vector_database(_postgres: Postgres) -> str:
    _postgres.start()
    return _postgres.create_database()


@pytest.fixture
def vector_url(postgres: Postgres, _vector_database: str) -> str:
    """A database with pgvector and nothing else in it: `postgresql://user:password@127.0.0.1:port/name`."""
    postgres.empty_database(_vector_database)
    return _vector_database


# --- the served gateway (tests/e2e, tests/fault) ------------------------------------------------------------------------

BACKENDS = ["embedded", pytest.param("production", marks=[pytest.mark.mysql, pytest.mark.redis])]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Both places where a gateway keeps what it keeps; one behaviour is promised for both."""
    return str(request.param)


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest, backend: str) -> Iterator[Stores]:
    """Empty stores of this kind, up at the start; what a test does to them it also mends.

    A module that says `VECTORS = True` has PostgreSQL among those of a production.
    """
    if backend == "embedded":
        yield Stores(backend)
        return
    mariadb, redis = request.getfixturevalue("_mariadb"), request.getfixturevalue("_redis_server")
    mariadb.start()
    redis.start()
    redis.flush()
    url = mariadb.create_database()
    prepare(url)
    postgres: Postgres | None = None
    vector_url = None
    if getattr(request.module, "VECTORS", False):
        postgres = request.getfixturevalue("_postgres")
        postgres.start()
        vector_url = postgres.create_database()
    yield Stores(backend, url, mariadb, redis, vector_url, postgres)
    mariadb.start()
    redis.start()
    mariadb.drop_database(url)
    if postgres is not None and vector_url is not None:
        postgres.start()
        postgres.drop_database(vector_url)


@pytest.fixture(scope="module")
def fakes() -> Iterator[Fakes]:
    """The providers."""
    with ClaudeServer() as claude, OpenAIServer() as openai:
        yield Fakes(claude, openai)


@pytest.fixture(scope="module")
def make_gateway(stores: Stores, fakes: Fakes) -> Iterator[Callable[..., Gateway]]:
    """Gateways that are not started yet, on the same stores but for their data folders."""
    with ExitStack() as made:

        def make(**settings: Any) -> Gateway:
            gateway = Gateway(stores, fakes, **settings)
            made.callback(shutil.rmtree, gateway.folder, ignore_errors=True)
            return made.enter_context(gateway)

        yield make


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, make_gateway: Callable[..., Gateway]) -> Gateway:
    """The module's one running gateway; the module may say `WORKERS` and `ENVIRONMENT`."""
    gateway = make_gateway(
        workers=getattr(request.module, "WORKERS", 1),
        environment=getattr(request.module, "ENVIRONMENT", {}),
    )
    gateway.start()
    return gateway


@pytest.fixture
async def gateway(served: Gateway) -> AsyncIterator[Gateway]:
    """The running gateway, its providers as new; no test may make them refuse a request, or the gateway stumble."""
    for fake in (served.fakes.claude, served.fakes.openai):
        fake.reset()
    before = len(served.complaints())
    async with served.connected():
        yield served
    assert served.fakes.claude.refused == []
    assert served.fakes.openai.refused == []
    assert served.complaints()[before:] == []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What this machine could not run, and the one command that would bring it in."""
    needs: Counter[tuple[str, str]] = Counter()
    others: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        if not isinstance(report.longrepr, tuple):
            continue
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if told := re.fullmatch(r"needs (.+?): (.+)", reason):
            needs[told[1], told[2]] += 1
        else:
            others[reason] += 1
    terminalreporter.section("left out")
    for (service, command), count in sorted(needs.items()):
        terminalreporter.line(
            f"left out: {_tests(count)} {'needs' if count == 1 else 'need'} {service}: {command}"
        )
    for reason, count in sorted(others.items()):
        terminalreporter.line(f"left out: {_tests(count)}: {reason}")
    if not needs and not others:
        terminalreporter.line("left out: nothing")


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"
