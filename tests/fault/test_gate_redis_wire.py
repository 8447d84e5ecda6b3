"""The connection to Redis when it is cut, answered with nonsense, refused, or left by a task that waits no longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.redis import RedisGate
from gateway.ports import (
    Admitted,
    BudgetSpent,
    LimitReached,
    Settlement,
)
from tests.contract.test_gate_stores import (
    NOW,
    RedisStore,
    admit,
    ask,
    supply,
    terms,
)
from tests.services import LOOPBACK, Redis


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    opened = RedisStore(redis_url)
    yield opened
    await opened.close()


async def test_connections_cut_under_way_surface_nowhere_and_count_nothing_twice(store: RedisStore) -> None:
    await supply(store.gate)
    cutting = True

    async def cut() -> None:
        with closing(store.client()) as client:
            while cutting:
                await asyncio.to_thread(client.client_kill_filter, _type="normal", skipme=True)
                await asyncio.sleep(0.02)

    async def call() -> str:
        request = ask(per_hour=100, terms=terms(worst_case=10))
        for _ in range(50):
            try:
                if await store.gate.admit(request) != Admitted():
                    return "refused"
                await asyncio.sleep(0.005)
                await store.gate.settle(Settlement(request=request, cost=7, now=NOW))
            except StoreAwayError:  # cut twice in one step: the caller repeats it
                continue
            return "made"
        return "lost"

    cutter = asyncio.create_task(cut())
    outcomes: list[str] = []
    for _ in range(10):
        outcomes += await asyncio.gather(*(call() for _ in range(15)))
    cutting = False
    await cutter
    assert outcomes.count("made") == 100
    assert outcomes.count("refused") == 50
    assert await store.gate.admit(ask(terms=terms(cap=700))) == BudgetSpent()
    await admit(store.gate, ask(terms=terms(cap=701, worst_case=10**6)))


@asynccontextmanager
async def _cutting_once(server: Redis, steps: int) -> AsyncIterator[str]:
    """A way to a server on which the reply to one step is lost: carried out, but the caller can't know."""
    tasks: list[asyncio.Task[None]] = []
    asked = 0

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        there, thither = await asyncio.open_connection(LOOPBACK, server.port)
        while question := await reader.read(65_536):
            thither.write(question)
            asked += 1
            answer = await there.read(65_536)
            if asked == steps:
                break
            writer.write(answer)
        for end in (writer, thither):
            end.close()

    proxy = await asyncio.start_server(
        lambda reader, writer: tasks.append(asyncio.ensure_future(carry(reader, writer))), LOOPBACK, 0
    )
    yield f"redis://{LOOPBACK}:{proxy.sockets[0].getsockname()[1]}/0"
    proxy.close()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("lost", [2, 3, 4, 5, 6, 7])
async def test_a_step_whose_reply_was_lost_is_repeated_and_done_once(
    store: RedisStore, redis_server: Redis, lost: int
) -> None:
    await supply(store.gate)
    for _ in range(2):  # the second time the server knows the scripts, and a step is one round trip
        async with _cutting_once(redis_server, lost) as url:
            gate = RedisGate(url)
            await gate.ping()
            made = await admit(gate, ask(per_hour=10, terms=terms(worst_case=100)))
            dropped = await admit(gate, ask(key="k", per_hour=10, terms=terms(worst_case=100)))
            await gate.renew([made, dropped])
            await gate.settle(Settlement(request=made, cost=5, now=NOW))
            await gate.release(dropped)
            assert await gate.generation("demo") == 0
            await gate.close()
    assert await store.gate.admit(ask(terms=terms(cap=10))) == BudgetSpent()
    last = await admit(store.gate, ask(terms=terms(cap=11, worst_case=10**6)))
    await store.gate.release(last)
    for _ in range(8):
        await admit(store.gate, ask(per_hour=10))
    assert isinstance(await store.gate.admit(ask(per_hour=10)), LimitReached)


async def test_a_wrong_password_is_away_and_not_told(store: RedisStore, redis_server: Redis) -> None:
    with closing(store.client()) as client:
        client.config_set("requirepass", "right-word")
        try:
            for url in (redis_server.url, f"redis://:wrong-word@{LOOPBACK}:{redis_server.port}/0"):
                gate = RedisGate(url)
                with pytest.raises(StoreAwayError) as caught:
                    await gate.ping()
                assert "wrong-word" not in str(caught.value)
                await gate.close()
            gate = RedisGate(f"redis://:right-word@{LOOPBACK}:{redis_server.port}/3")
            await admit(gate, ask(key="k"))
            await gate.close()
        finally:
            client.config_set("requirepass", "")


@asynccontextmanager
async def _server(reply: bytes | None) -> AsyncIterator[str]:
    """A server that says the same to everything, or nothing at all."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while await reader.read(65_536):
            if reply is not None:
                writer.write(reply)

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    yield f"redis://{LOOPBACK}:{port}/0"
    server.close()
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-MISCONF Redis is configured to save RDB snapshots\r\n",
        b"-NOREPLICAS Not enough good replicas to write.\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_away(reply: bytes | None) -> None:
    async with _server(reply) as url:
        gate = RedisGate(url)
        begun = time.monotonic()
        with pytest.raises(StoreAwayError):
            await gate.admit(ask(key="k"))
        assert time.monotonic() - begun < 2
        await gate.close()


async def test_a_cancelled_task_disturbs_no_other(store: RedisStore) -> None:
    await store.gate.ping()
    for _ in range(20):
        tasks = [asyncio.create_task(store.gate.admit(ask(per_hour=1_000))) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert set(outcomes[1::2]) == {Admitted()}
        assert await store.gate.generation("demo") == 0


def test_the_wire_works_on_uvloop(redis_url: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def use() -> None:
        gate = RedisGate(redis_url)
        await supply(gate)
        await asyncio.gather(*(admit(gate, ask(key=f"k{n}", per_hour=99, terms=terms())) for n in range(99)))
        assert isinstance(await gate.admit(ask(per_hour=99)), LimitReached)
        await gate.close()

    uvloop.run(use())
