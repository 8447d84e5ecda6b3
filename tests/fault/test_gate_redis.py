"""The Redis gate when its server stops, hangs, forgets, refuses, and comes back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest

from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.redis import RedisGate
from gateway.ports import (
    BudgetHeld,
    BudgetSpent,
    Busy,
    Earlier,
    Gate,
    LimitReached,
    Settlement,
    TotalUnknown,
)
from tests.contract.test_gate_stores import (
    DAY,
    NOW,
    RedisClusterServer,
    RedisStore,
    admit,
    ask,
    run_elsewhere,
    supply,
    terms,
    within,
)
from tests.services import LOOPBACK, Redis


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    opened = RedisStore(redis_url)
    yield opened
    await opened.close()


def _every_method(gate: Gate) -> list[Callable[[], Awaitable[Any]]]:
    request = ask(key="k", per_hour=5, terms=terms(cap=None))
    assert request.claim is not None
    claim = request.claim
    return [
        lambda: gate.earlier("demo", claim, NOW),
        lambda: gate.admit(request),
        lambda: gate.supply("demo", DAY, 1, "token", 0),
        lambda: gate.renew([request]),
        lambda: gate.settle(Settlement(request=request, cost=0, now=NOW, answer=b"a")),
        lambda: gate.release(request),
        gate.orphans,
        lambda: gate.generation("demo"),
        lambda: gate.forget_answers("demo"),
        lambda: gate.forget_project("demo"),
        gate.ping,
    ]


async def _all_are_away(gate: Gate) -> None:
    async def is_away(call: Callable[[], Awaitable[Any]]) -> None:
        begun = time.monotonic()
        with pytest.raises(StoreAwayError):
            await call()
        assert time.monotonic() - begun < 2

    await asyncio.gather(*map(is_away, _every_method(gate)))


async def test_a_stopped_server_is_away_and_heals(store: RedisStore, redis_server: Redis) -> None:
    await supply(store.gate)
    await admit(store.gate, ask(per_hour=1))
    await asyncio.to_thread(redis_server.stop)
    await _all_are_away(store.gate)
    await asyncio.to_thread(redis_server.start)
    assert isinstance(await store.gate.admit(ask(per_hour=1)), LimitReached)
    await admit(store.gate, ask(terms=terms()))


async def test_a_restart_between_two_calls_surfaces_nowhere(store: RedisStore, redis_server: Redis) -> None:
    await asyncio.gather(*(admit(store.gate, ask(per_hour=50)) for _ in range(50)))
    for end in (redis_server.stop, redis_server.kill):
        await asyncio.to_thread(end)
        await asyncio.to_thread(redis_server.start)
        verdicts = await asyncio.gather(*(store.gate.admit(ask(per_hour=50)) for _ in range(50)))
        assert {type(verdict) for verdict in verdicts} == {LimitReached}


async def test_a_frozen_server_is_away_and_lets_nobody_in_afterwards(
    store: RedisStore, redis_server: Redis
) -> None:
    await supply(store.gate)
    redis_server.freeze()
    await _all_are_away(store.gate)
    late = [ask(key=f"k{n}", per_hour=5, terms=terms()) for n in range(5)]
    begun = time.monotonic()
    outcomes = await asyncio.gather(*map(store.gate.admit, late), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreAwayError}
    assert time.monotonic() - begun < 2
    await asyncio.sleep(0.3)
    redis_server.thaw()
    await within(2, store.gate.ping)
    await asyncio.sleep(0.2)
    # What waited in the frozen server was void when its turn came.
    for request in late:
        await admit(store.gate, ask(key=request.claim.key if request.claim else None, per_hour=5))
    await admit(store.gate, ask(terms=terms(cap=1, worst_case=10**6)))


async def test_a_server_frozen_from_the_first_call_on_is_away(redis_server: Redis) -> None:
    redis_server.freeze()
    gate = RedisGate(redis_server.url)
    await _all_are_away(gate)
    redis_server.thaw()
    await within(2, gate.ping)
    await gate.close()


async def test_a_server_that_forgot_everything_is_told_by_renewal(store: RedisStore) -> None:
    gate = store.gate
    await supply(gate)
    request = await admit(gate, ask(key="k", terms=terms(worst_case=700)))
    store.lose()
    assert isinstance(await gate.admit(ask(terms=terms())), TotalUnknown)
    await gate.renew([request])
    await supply(gate)
    assert await gate.admit(ask(key="k")) == Busy()
    assert await gate.admit(ask(terms=terms(cap=1_000, worst_case=301))) == BudgetHeld()
    store.lapse("demo")
    assert [orphan.request_id for orphan in await gate.orphans()] == [request.request_id]


async def test_forgotten_scripts_are_sent_again(store: RedisStore) -> None:
    await supply(store.gate)
    with closing(store.client()) as client:
        for _ in range(3):
            client.script_flush()
            requests = [ask(f"p{n}", key="k", terms=terms(cap=None)) for n in range(3)]
            await asyncio.gather(*map(store.gate.admit, requests))
            client.script_flush()
            await store.gate.renew(requests)
            for request in requests:
                await store.gate.settle(Settlement(request=request, cost=1, now=NOW))


async def test_a_server_that_takes_no_writes_is_away_and_heals(store: RedisStore) -> None:
    await supply(store.gate)
    with closing(store.client()) as client:
        client.replicaof(LOOPBACK, 1)
        try:
            with pytest.raises(StoreAwayError):
                await store.gate.admit(ask(per_hour=5))
            with pytest.raises(StoreAwayError):
                await store.gate.settle(Settlement(request=ask(), cost=0, now=NOW))
        finally:
            client.replicaof("NO", "ONE")
    await admit(store.gate, ask(per_hour=1))


async def test_a_full_server_lets_nobody_in_but_lets_running_calls_end(store: RedisStore) -> None:
    await supply(store.gate)
    # An hour of expired entries: sweeping them out first would have Redis overlook that it is full.
    await admit(store.gate, ask(per_hour=5, now=NOW - 4_000))
    running = await admit(store.gate, ask(key="k", terms=terms()))
    bare = await admit(store.gate, ask())
    with closing(store.client()) as client:
        client.config_set("maxmemory", "100kb")
        try:
            for request in (ask(per_hour=5), ask(key="x"), ask(terms=terms(cap=None))):
                with pytest.raises(StoreAwayError):
                    await store.gate.admit(request)
            await store.gate.settle(Settlement(request=running, cost=70, now=NOW, answer=b"a"))
            await store.gate.settle(Settlement(request=bare, cost=0, now=NOW))
        finally:
            client.config_set("maxmemory", "0")
    assert await store.gate.admit(ask(key="k")) == Earlier(b"a", cached=False)
    assert await store.gate.admit(ask(terms=terms(cap=70))) == BudgetSpent()
    await admit(store.gate, ask(per_hour=1))


async def test_nobody_listening_is_away_at_once(free_port: int) -> None:
    for scheme in ("redis", "rediss", "redis+cluster"):
        gate = RedisGate(f"{scheme}://{LOOPBACK}:{free_port}")
        await _all_are_away(gate)
        await gate.close()


async def test_a_killed_process_leaves_orphans_and_keys_that_lapse(store: RedisStore) -> None:
    process = run_elsewhere(
        """
        for number in range(3):
            await admit(gate, ask(request_id=f"lost-{number}", key=f"k{number}", terms=terms(cap=None)))
        print("holding", flush=True)
        await asyncio.sleep(60)
        """,
        store,
    )
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "holding\n"
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    assert await store.gate.admit(ask(key="k0")) == Busy()
    assert await store.gate.orphans() == []
    store.lapse("demo")  # 15 and 60 seconds later
    await admit(store.gate, ask(key="k0"))
    other = store.open()
    found = [o for some in await asyncio.gather(store.gate.orphans(), other.orphans()) for o in some]
    assert sorted(orphan.request_id for orphan in found) == ["lost-0", "lost-1", "lost-2"]


async def test_projects_without_reservations_leave_the_list_in_the_end(store: RedisStore) -> None:
    request = await admit(store.gate, ask(terms=terms(cap=None)))
    await store.gate.release(request)
    with closing(store.client()) as client:
        await store.gate.orphans()
        assert client.zrange("pepper:live", 0, -1) == [b"demo"]  # announced lately: a call may be coming in
        client.zadd("pepper:live", {"demo": 1})
        await store.gate.orphans()
        assert client.zcard("pepper:live") == 0


async def test_every_key_begins_with_pepper_and_a_project_has_one_hash_tag(store: RedisStore) -> None:
    await supply(store.gate)
    request = await admit(store.gate, ask(key="k", per_hour=1, cache_key="c", terms=terms()))
    await admit(store.gate, ask(key="j", terms=terms()))
    await store.gate.forget_answers("demo")
    ended = Settlement(
        request=request, cost=1, now=NOW, answer=b"a", cached=b"a", cache_seconds=9, generation=1
    )
    await store.gate.settle(ended)
    with closing(store.client()) as client:
        keys = {key.decode() for key in client.keys("*")}
        assert keys - {"pepper:live"} == {key for key in keys if key.startswith("pepper:{demo}:")}
        lasting = {key for key in keys if client.ttl(key) == -1}
        assert lasting == {"pepper:live"} | {
            f"pepper:{{demo}}:{name}" for name in ("budget", "reserved", "leases", "generation")
        }
        assert all(client.ttl(key) > 7_000 for key in keys - lasting if ":finished:" not in key)


async def test_a_cluster_that_stops_is_away_and_heals() -> None:
    server = RedisClusterServer()
    try:
        await asyncio.to_thread(server.start)
        gate = RedisGate(server.url)
        await supply(gate)
        await admit(gate, ask(key="k", per_hour=1, terms=terms()))
        await asyncio.to_thread(server.stop)
        await _all_are_away(gate)
        await asyncio.to_thread(server.start)
        await within(5, gate.ping)
        assert isinstance(await gate.admit(ask(per_hour=1)), LimitReached)
        server.freeze()
        await _all_are_away(gate)
        server.thaw()
        await within(5, gate.ping)
        await gate.close()
    finally:
        await asyncio.to_thread(server.remove)
