"""Limits hold exactly however many tasks, gates and processes ask at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from gateway.ports import (
    AdmissionRequest,
    Admitted,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Gate,
    LimitReached,
    Settlement,
)
from tests.contract.test_gate_stores import (
    KINDS,
    NOW,
    GateStore,
    admit,
    ask,
    open_store,
    run_elsewhere,
    supply,
    terms,
    told_by,
)


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[GateStore]:
    opened = open_store(request)
    yield opened
    await opened.close()


async def test_exactly_the_limit_of_three_hundred_calls_at_once_is_admitted(store: GateStore) -> None:
    gates = [store.gate, store.open(), store.open()]
    verdicts = await asyncio.gather(*(gates[n % 3].admit(ask(per_hour=100)) for n in range(300)))
    assert Counter(map(type, verdicts)) == {Admitted: 100, LimitReached: 200}


async def test_exactly_the_limit_is_admitted_by_two_processes(store: GateStore) -> None:
    program = """
        await gate.ping()
        print("ready", flush=True)
        sys.stdin.readline()
        verdicts = await asyncio.gather(
            *(gate.admit(ask(request_id=f"{os.getpid()}-{n}", per_hour=100)) for n in range(150))
        )
        print(sum(verdict == Admitted() for verdict in verdicts))
        await gate.close()
    """
    processes = [run_elsewhere(program, store) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    admitted = [int(await told_by(process)) for process in processes]
    assert sum(admitted) == 100


async def test_one_of_a_hundred_calls_under_one_key_runs(store: GateStore) -> None:
    gates = [store.gate, store.open()]
    verdicts = await asyncio.gather(*(gates[n % 2].admit(ask(key="k")) for n in range(100)))
    assert Counter(map(type, verdicts)) == {Admitted: 1, Busy: 99}


async def test_no_more_reservations_than_fit_are_held_at_once(store: GateStore) -> None:
    gates = [store.gate, store.open()]
    await supply(gates[0])
    running = most = spent = 0

    async def call(gate: Gate) -> bool:
        nonlocal running, most, spent
        request = ask(terms=terms(cap=100_000, worst_case=30_000))
        while (verdict := await gate.admit(request)) == BudgetHeld():  # noqa: ASYNC110 - asking again is what a caller does
            await asyncio.sleep(0.002)
        if verdict == BudgetSpent():
            return False
        assert verdict == Admitted()
        running += 1
        most = max(most, running)
        await asyncio.sleep(random.random() * 0.01)
        running -= 1
        spent += 9_000
        await gate.settle(Settlement(request=request, cost=9_000, now=NOW))
        return True

    admitted = await asyncio.gather(*(call(gates[n % 2]) for n in range(50)))
    assert most == 3
    assert sum(admitted) == 12
    assert 100_000 <= spent < 100_000 + 9_000


async def test_strict_calls_never_hold_more_than_the_cap(store: GateStore) -> None:
    gates = [store.gate, store.open()]
    await supply(store.gate, spent=10)
    asked = [ask(terms=terms(cap=100, worst_case=25, strict=True)) for _ in range(40)]
    verdicts = await asyncio.gather(*(gates[at % 2].admit(each) for at, each in enumerate(asked)))
    assert Counter(map(type, verdicts)) == {Admitted: 3, BudgetHeld: 37}


async def test_limits_hold_while_calls_come_and_go(store: GateStore) -> None:
    gates = [store.gate, store.open(), store.open()]
    await supply(gates[0])
    places: set[str] = set()
    reserved: Counter[str] = Counter()

    async def caller(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(25):
            gate, worst_case = chance.choice(gates), chance.randrange(1, 40)
            request = ask(per_hour=20, terms=terms(cap=100, worst_case=worst_case))
            if await gate.admit(request) != Admitted():
                continue
            places.add(request.request_id)
            reserved[request.request_id] = worst_case
            assert len(places) <= 20
            assert reserved.total() <= 100
            await asyncio.sleep(chance.random() * 0.003)
            if chance.random() < 0.2:
                await gate.renew([request])
            # Taken off first: the gate may let the next one in before it answers here.
            places.discard(request.request_id)
            del reserved[request.request_id]
            await _leave(gate, request, twice=chance.random() < 0.3)

    await asyncio.gather(*map(caller, range(40)))
    await admit(gates[0], ask(per_hour=1, terms=terms(cap=1, worst_case=10**6)))


async def _leave(gate: Gate, request: AdmissionRequest, *, twice: bool) -> None:
    await asyncio.gather(*(gate.release(request) for _ in range(2 if twice else 1)))
