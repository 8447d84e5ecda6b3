"""The stores behind the gate's two implementations, as its tests use them: several gates on one store, and a hand
on the leases, which run on the store's clock and would have to be waited for.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis
from typing_extensions import override

from gateway.keyvalue.redis import RedisGate
from gateway.keyvalue.sqlite import SqliteGate
from gateway.ports import AdmissionRequest, Admitted, Claim, Gate, Terms, TotalUnknown
from tests.services import LOOPBACK, Redis

KINDS = ("sqlite", pytest.param("redis", marks=pytest.mark.redis))
CLUSTER = pytest.param("cluster", marks=pytest.mark.redis)
ROOT = Path(__file__).parents[2]
NOW = 1_796_040_000.0
DAY = "2026-11-30"
RICH = 10**9

_numbers = count(1)
Answer = TypeVar("Answer")


class GateStore(ABC):
    """One store; `gate` is the first gate on it, `open` gives others, as other processes would have."""

    def __init__(self) -> None:
        self._gates: list[Gate] = []
        self.gate = self.open()

    def open(self) -> Gate:
        gate = self.make()
        self._gates.append(gate)
        return gate

    async def close(self) -> None:
        for gate in self._gates:
            await gate.close()

    @property
    @abstractmethod
    def recipe(self) -> tuple[str, str]:
        """How a gate on this store is made elsewhere: a kind, and a folder or URL."""

    def make(self) -> Gate:
        return make_gate(*self.recipe)

    @abstractmethod
    def lapse(self, project: str) -> None:
        """All leases of claims and reservations pass at once."""

    @abstractmethod
    def lose(self) -> None:
        """Everything is lost."""

    @abstractmethod
    def dump(self, project: str) -> object:
        """All that is held for a project, to be compared."""


class SqliteStore(GateStore):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__()

    @property
    @override
    def recipe(self) -> tuple[str, str]:
        return "sqlite", str(self.folder)

    @override
    def lapse(self, project: str) -> None:
        with closing(self._connect()) as connection:
            for table in ("claims", "reservations"):
                connection.execute(f"UPDATE {table} SET lease = 0 WHERE project = ?", (project,))

    @override
    def lose(self) -> None:
        with closing(self._connect()) as connection:
            for table in self._tables(connection):
                connection.execute(f"DELETE FROM {table}")

    @override
    def dump(self, project: str) -> object:
        with closing(self._connect()) as connection:
            return {
                table: sorted(
                    connection.execute(f"SELECT * FROM {table} WHERE project = ?", (project,)).fetchall(),
                    key=repr,
                )
                for table in self._tables(connection)
            }

    def _tables(self, connection: sqlite3.Connection) -> list[str]:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [name for (name,) in rows.fetchall()]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "gate.db", timeout=5, isolation_level=None)


class RedisStore(GateStore):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__()

    @property
    @override
    def recipe(self) -> tuple[str, str]:
        return "redis", self.url

    @override
    def lapse(self, project: str) -> None:
        with closing(self.client()) as client:
            leases = f"pepper:{{{project}}}:leases"
            for request_id in client.zrange(leases, 0, -1):
                client.zadd(leases, {request_id: 0})
            for key in client.keys(f"pepper:{{{project}}}:claim:*"):
                if client.hexists(key, "l"):
                    client.hset(key, "l", "0")

    @override
    def lose(self) -> None:
        with closing(self.client()) as client:
            client.flushall()

    @override
    def dump(self, project: str) -> object:
        readers: dict[bytes, Callable[[Any, bytes], Any]] = {
            b"string": lambda client, key: client.get(key),
            b"hash": lambda client, key: client.hgetall(key),
            b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
        }
        with closing(self.client()) as client:
            return {
                key: readers[client.type(key)](client, key) for key in client.keys(f"pepper:{{{project}}}:*")
            }

    def client(self) -> Any:  # its types serve no reader here
        return redis.Redis.from_url(self.url.replace("redis+cluster://", "redis://"), socket_timeout=5)


class RedisClusterServer(Redis):
    """A cluster of one node that holds all slots."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"redis+cluster://{LOOPBACK}:{self.port}"

    @override
    def _command(self) -> Sequence[str]:
        return [*super()._command(), "--cluster-enabled", "yes"]

    @override
    def _answers(self) -> bool:
        if not super()._answers():
            return False
        client: Any = self._client()
        with closing(client):
            if not client.execute_command("CLUSTER SLOTS"):
                client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            return bool(client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")

    @override
    def _client(self) -> redis.Redis:
        return redis.Redis(host=LOOPBACK, port=self.port, socket_timeout=5, socket_connect_timeout=5)


def run_cluster() -> Iterator[RedisClusterServer]:
    """The body of a module's fixture."""
    server = RedisClusterServer()
    yield server
    server.remove()


def make_gate(kind: str, place: str) -> Gate:
    return SqliteGate(Path(place)) if kind == "sqlite" else RedisGate(place)


def open_store(request: pytest.FixtureRequest) -> GateStore:
    """The store that a test's parameter names."""
    match request.param:
        case "sqlite":
            return SqliteStore(request.getfixturevalue("tmp_path"))
        case "redis":
            return RedisStore(request.getfixturevalue("redis_url"))
        case "cluster":
            return RedisStore(request.getfixturevalue("redis_cluster").url)
    raise ValueError(request.param)


def ask(
    project: str = "demo",
    *,
    request_id: str | None = None,
    now: float = NOW,
    per_hour: int | None = None,
    key: str | None = None,
    fingerprint: str = "fp",
    cache_key: str | None = None,
    terms: Terms | None = None,
) -> AdmissionRequest:
    return AdmissionRequest(
        project=project,
        request_id=request_id or f"call-{next(_numbers)}",
        now=now,
        hourly_limit=per_hour,
        claim=None if key is None else Claim(key, fingerprint),
        cache_key=cache_key,
        terms=terms,
    )


def terms(
    cap: int | None = RICH,
    worst_case: int = 1_000,
    day: str = DAY,
    epoch: int = 1,
    record: bytes = b"\x00\xffx",
    *,
    strict: bool = False,
) -> Terms:
    return Terms(day=day, epoch=epoch, cap=cap, worst_case=worst_case, record=record, strict=strict)


async def supply(
    gate: Gate, project: str = "demo", *, spent: int = 0, day: str = DAY, epoch: int = 1
) -> None:
    """Make a day's total known, as the chain does."""
    verdict = await gate.admit(ask(project, terms=terms(day=day, epoch=epoch)))
    assert isinstance(verdict, TotalUnknown)
    assert await gate.supply(project, day, epoch, verdict.token, spent)


async def admit(gate: Gate, request: AdmissionRequest) -> AdmissionRequest:
    assert isinstance(await gate.admit(request), Admitted)
    return request


def run_elsewhere(program: str, store: GateStore) -> subprocess.Popen[str]:
    """Start a process that runs the body of an async function, in which `gate` is a gate on the store."""
    body = textwrap.indent(textwrap.dedent(program), "    ")
    source = (
        "import asyncio, os, sys, time\n"
        "from gateway.ports import *\n"
        "from tests.contract.test_gate_stores import *\n"
        f"async def main(gate):\n{body}\n"
        f"asyncio.run(main(make_gate(*{store.recipe!r})))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def told_by(process: subprocess.Popen[str]) -> str:
    """What a process prints until it ends; it must end well."""
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0
    return output


async def within(seconds: float, attempt: Callable[[], Any]) -> Any:
    """Repeat an attempt until it no longer fails; what it gave."""
    until = time.monotonic() + seconds
    while True:
        try:
            return await attempt()
        except Exception:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)


def test_every_kind_makes_a_gate(tmp_path: Path) -> None:
    assert isinstance(make_gate("sqlite", str(tmp_path)), SqliteGate)
    assert isinstance(make_gate("redis", "redis://127.0.0.1:1"), RedisGate)
