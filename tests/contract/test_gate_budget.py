"""The gate's contract, over every implementation: totals, reservations, renewal, orphans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.ports import (
    KEPT_SECONDS,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Earlier,
    Gate,
    LimitReached,
    Mismatch,
    Orphan,
    Settlement,
    TotalUnknown,
)
from tests.contract.test_gate_stores import (
    CLUSTER,
    DAY,
    KINDS,
    NOW,
    GateStore,
    RedisClusterServer,
    admit,
    ask,
    open_store,
    run_cluster,
    supply,
    terms,
)


@pytest.fixture(scope="module")
def _cluster() -> Iterator[RedisClusterServer]:
    yield from run_cluster()


@pytest.fixture
def redis_cluster(_cluster: RedisClusterServer) -> RedisClusterServer:
    _cluster.start()
    _cluster.flush()
    return _cluster


@pytest.fixture(params=[*KINDS, CLUSTER])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[GateStore]:
    opened = open_store(request)
    yield opened
    await opened.close()


@pytest.fixture
def gate(store: GateStore) -> Gate:
    return store.gate


# --- the budget ----------------------------------------------------------------------------------------------------


async def test_a_total_is_unknown_until_it_is_supplied(gate: Gate) -> None:
    first = await gate.admit(ask(terms=terms()))
    assert isinstance(first, TotalUnknown)
    again = await gate.admit(ask(terms=terms()))
    assert again == TotalUnknown(first.token, traced=True)
    assert not first.traced
    assert not await gate.supply("demo", DAY, 1, "another", 0)
    assert await gate.supply("demo", DAY, 1, first.token, 0)
    await admit(gate, ask(terms=terms()))
    assert isinstance(await gate.admit(ask(terms=terms(day="2026-12-01"))), TotalUnknown)
    assert isinstance(await gate.admit(ask(terms=terms(epoch=2))), TotalUnknown)
    assert isinstance(await gate.admit(ask("other", terms=terms())), TotalUnknown)


async def test_a_token_is_good_once(gate: Gate) -> None:
    unknown = await gate.admit(ask(terms=terms()))
    assert isinstance(unknown, TotalUnknown)
    assert await gate.supply("demo", DAY, 1, unknown.token, 5)
    assert not await gate.supply("demo", DAY, 1, unknown.token, 6)
    request = await admit(gate, ask(terms=terms()))
    await gate.settle(Settlement(request=request, cost=700, now=NOW))
    assert not await gate.supply("demo", DAY, 1, unknown.token, 5)
    assert await gate.admit(ask(terms=terms(cap=705))) == BudgetSpent()


async def test_a_settlement_under_an_unknown_total_makes_the_token_pass(gate: Gate) -> None:
    running = await admit(gate, ask(terms=terms(cap=None)))
    unknown = await gate.admit(ask(terms=terms()))
    assert isinstance(unknown, TotalUnknown)
    await gate.settle(Settlement(request=running, cost=10, now=NOW))
    assert not await gate.supply("demo", DAY, 1, unknown.token, 0)
    again = await gate.admit(ask(terms=terms()))
    assert isinstance(again, TotalUnknown)
    assert again != unknown


async def test_a_forgotten_total_is_loaded_anew(gate: Gate) -> None:
    await supply(gate, spent=10)
    await gate.forget_total("demo", DAY)
    verdict = await gate.admit(ask(terms=terms()))
    assert isinstance(verdict, TotalUnknown)
    await gate.forget_total("demo", DAY)
    assert not await gate.supply("demo", DAY, 1, verdict.token, 20)
    await supply(gate, spent=30)
    await admit(gate, ask(terms=terms()))


async def test_spent_held_and_the_call_that_is_alone(gate: Gate) -> None:
    await supply(gate, spent=100)
    assert await gate.admit(ask(terms=terms(cap=100))) == BudgetSpent()
    alone = await admit(gate, ask(terms=terms(cap=101, worst_case=50_000)))
    assert await gate.admit(ask(terms=terms(cap=101, worst_case=0))) == BudgetHeld()
    assert await gate.admit(ask(terms=terms(cap=50_199, worst_case=100))) == BudgetHeld()
    fits = await admit(gate, ask(terms=terms(cap=50_200, worst_case=100)))
    await gate.settle(Settlement(request=alone, cost=1_000, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=1_100))) == BudgetSpent()
    assert await gate.admit(ask(terms=terms(cap=1_101, worst_case=1))) == BudgetHeld()
    await gate.release(fits)
    await admit(gate, ask(terms=terms(cap=1_101, worst_case=2)))


async def test_a_strict_call_that_is_alone_has_to_fit_all_the_same(gate: Gate) -> None:
    await supply(gate, spent=100)
    assert await gate.admit(ask(terms=terms(cap=100, worst_case=0, strict=True))) == BudgetSpent()
    assert await gate.admit(ask(terms=terms(cap=1_099, strict=True))) == BudgetHeld()
    fits = await admit(gate, ask(terms=terms(cap=1_100, strict=True)))
    assert await gate.admit(ask(terms=terms(cap=1_100, worst_case=1, strict=True))) == BudgetHeld()
    await gate.renew([fits])
    await gate.settle(Settlement(request=fits, cost=1, now=NOW))
    await admit(gate, ask(terms=terms(cap=1_101, strict=True)))
    await admit(gate, ask(terms=terms(cap=None, worst_case=10**6, strict=True)))


async def test_a_call_without_a_cap_is_never_refused_but_is_in_flight(gate: Gate) -> None:
    free = [await admit(gate, ask(terms=terms(cap=None, worst_case=600))) for _ in range(3)]
    await supply(gate, spent=0)
    assert await gate.admit(ask(terms=terms(cap=1_000, worst_case=1))) == BudgetHeld()
    for request in free:
        await gate.settle(Settlement(request=request, cost=300, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=900))) == BudgetSpent()
    await admit(gate, ask(terms=terms(cap=901)))


async def test_days_have_totals_and_reservations_of_their_own(gate: Gate) -> None:
    await supply(gate, day="2026-11-29")
    await supply(gate, day="2026-11-30")
    yesterday = await admit(gate, ask(terms=terms(cap=10, worst_case=100, day="2026-11-29")))
    await admit(gate, ask(terms=terms(cap=10, worst_case=100, day="2026-11-30")))
    await gate.settle(Settlement(request=yesterday, cost=10, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=10, day="2026-11-29"))) == BudgetSpent()
    assert await gate.admit(ask(terms=terms(cap=10, day="2026-11-30"))) == BudgetHeld()


async def test_old_totals_are_dropped_but_not_while_calls_of_the_day_run(gate: Gate) -> None:
    await supply(gate, day="2026-11-01", spent=5)
    await supply(gate, day="2026-11-02", spent=5)
    running = await admit(gate, ask(terms=terms(day="2026-11-02", worst_case=50)))
    await supply(gate, day="2026-11-30")
    assert isinstance(await gate.admit(ask(terms=terms(day="2026-11-01"))), TotalUnknown)
    assert await gate.admit(ask(terms=terms(day="2026-11-02", cap=55))) == BudgetHeld()
    await gate.settle(Settlement(request=running, cost=1, now=NOW))
    assert await gate.admit(ask(terms=terms(day="2026-11-02", cap=6))) == BudgetSpent()


async def test_settling_twice_changes_nothing_the_second_time(gate: Gate) -> None:
    await supply(gate)
    request = await admit(gate, ask(key="k", terms=terms()))
    await gate.settle(Settlement(request=request, cost=400, now=NOW, answer=b"first"))
    await gate.settle(Settlement(request=request, cost=400, now=NOW + 9, answer=b"second"))
    await gate.release(request)
    assert await gate.admit(ask(key="k", now=NOW + KEPT_SECONDS - 1)) == Earlier(b"first", cached=False)
    assert await gate.admit(ask(terms=terms(cap=400))) == BudgetSpent()
    await admit(gate, ask(terms=terms(cap=401)))


async def test_a_cost_whose_reservation_was_lost_is_added_once(store: GateStore) -> None:
    gate = store.gate
    request = await admit(gate, ask(terms=terms(cap=None)))
    store.lose()
    await supply(gate, spent=10)
    for _ in range(2):
        await gate.settle(Settlement(request=request, cost=90, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=100))) == BudgetSpent()
    await admit(gate, ask(terms=terms(cap=101, worst_case=1_000)))


async def test_the_cost_of_an_older_epoch_still_counts(gate: Gate) -> None:
    await supply(gate)
    old = await admit(gate, ask(terms=terms(worst_case=500)))
    await supply(gate, spent=10, epoch=2)
    assert await gate.admit(ask(terms=terms(cap=500, epoch=2))) == BudgetHeld()
    await gate.settle(Settlement(request=old, cost=90, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=100, epoch=2))) == BudgetSpent()


async def test_a_reservation_is_settled_whatever_terms_are_named_at_the_end(gate: Gate) -> None:
    await supply(gate)
    request = await admit(gate, ask(terms=terms(worst_case=500)))
    bare = ask(request_id=request.request_id)
    await gate.settle(Settlement(request=bare, cost=100, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=100))) == BudgetSpent()
    await admit(gate, ask(terms=terms(cap=101, worst_case=10_000)))


# --- traces and repetitions ----------------------------------------------------------------------------------------


async def test_a_refusal_leaves_no_trace(store: GateStore) -> None:
    gate = store.gate
    await supply(gate, spent=100)
    await admit(gate, ask(key="taken", per_hour=10, terms=terms(cap=1_000, worst_case=5_000)))
    before = store.dump("demo")
    for _ in range(3):
        assert await gate.admit(ask(key="taken", per_hour=10)) == Busy()
        assert await gate.admit(ask(key="taken", fingerprint="else", per_hour=10)) == Mismatch()
        assert isinstance(await gate.admit(ask(key="k", per_hour=1)), LimitReached)
        assert await gate.admit(ask(key="k", per_hour=10, terms=terms(cap=100))) == BudgetSpent()
        assert await gate.admit(ask(key="k", per_hour=10, terms=terms(cap=1_000))) == BudgetHeld()
    assert store.dump("demo") == before


async def test_an_admission_may_be_repeated(gate: Gate) -> None:
    await supply(gate)
    request = ask(key="k", per_hour=1, terms=terms(cap=1_000, worst_case=800))
    for _ in range(3):
        await admit(gate, request)
    await gate.release(request)
    await gate.release(request)
    other = await admit(gate, ask(key="k", per_hour=1, terms=terms(cap=1_000, worst_case=1)))
    last = await admit(gate, ask(terms=terms(cap=1_000, worst_case=999)))
    for ended in (other, last):
        await gate.release(ended)
    await admit(gate, request)  # a released call may come again
    assert isinstance(await gate.admit(ask(per_hour=1)), LimitReached)


# --- renewal -------------------------------------------------------------------------------------------------------


async def test_renewing_writes_back_what_the_store_lost(store: GateStore) -> None:
    gate = store.gate
    await supply(gate)
    request = await admit(gate, ask(key="k", terms=terms(worst_case=800, record=b"\xfe\x00r")))
    store.lose()
    await gate.renew([request])
    assert await gate.admit(ask(key="k")) == Busy()
    await supply(gate)
    assert await gate.admit(ask(terms=terms(cap=1_000, worst_case=300))) == BudgetHeld()
    store.lapse("demo")
    assert await gate.orphans() == [Orphan("demo", request.request_id, DAY, 1, b"\xfe\x00r")]


async def test_renewing_never_brings_back_what_ended(store: GateStore) -> None:
    gate = store.gate
    await supply(gate)
    settled = await admit(gate, ask(key="s", terms=terms()))
    released = await admit(gate, ask(key="r", terms=terms()))
    await gate.settle(Settlement(request=settled, cost=1, now=NOW))
    await gate.release(released)
    await gate.renew([settled, released])
    await admit(gate, ask(key="s"))
    await admit(gate, ask(key="r"))
    await admit(gate, ask(terms=terms(cap=2, worst_case=10_000)))


async def test_hundreds_are_renewed_at_once(store: GateStore) -> None:
    gate = store.gate
    requests = [
        await admit(gate, ask(f"p{number % 7}", key=f"k{number}", terms=terms(cap=None)))
        for number in range(400)
    ]
    for number in range(7):
        store.lapse(f"p{number}")
    await gate.renew([*requests, ask()])
    await gate.renew([])
    assert await gate.orphans() == []
    assert await gate.admit(ask("p0", key="k0")) == Busy()


# --- orphans -------------------------------------------------------------------------------------------------------


async def test_a_reservation_is_no_orphan_while_its_lease_runs(gate: Gate) -> None:
    await admit(gate, ask(terms=terms(cap=None)))
    assert await gate.orphans() == []


async def test_each_orphan_goes_to_one_asker_and_counts_until_it_is_settled(store: GateStore) -> None:
    gate, other = store.gate, store.open()
    await supply(gate)
    lost = {
        (await admit(gate, ask(key=f"k{n}", terms=terms(worst_case=100, record=b"%d" % n)))).request_id: b"%d"
        % n
        for n in range(5)
    }
    store.lapse("demo")
    found = [*await other.orphans(2), *await gate.orphans(), *await other.orphans()]
    assert {orphan.request_id: orphan.record for orphan in found} == lost
    assert len(found) == 5
    assert await gate.admit(ask(terms=terms(cap=500, worst_case=1))) == BudgetHeld()
    for orphan in found:
        assert (orphan.project, orphan.day, orphan.epoch) == ("demo", DAY, 1)
        ended = ask(request_id=orphan.request_id, terms=terms(worst_case=0))
        await other.settle(Settlement(request=ended, cost=20, now=NOW))
        await other.settle(Settlement(request=ended, cost=20, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=100))) == BudgetSpent()
    await admit(gate, ask(terms=terms(cap=101)))
    store.lapse("other")
    assert await gate.orphans() == []


async def test_an_orphan_handed_out_is_not_renewed_by_its_first_owner(store: GateStore) -> None:
    gate = store.gate
    request = await admit(gate, ask(terms=terms(cap=None)))
    store.lapse("demo")
    assert len(await gate.orphans()) == 1
    store.lapse("demo")
    await gate.renew([request])
    assert len(await gate.orphans()) == 1


async def test_a_late_settlement_by_the_first_owner_counts_and_the_askers_then_does_not(
    store: GateStore,
) -> None:
    gate, other = store.gate, store.open()
    await supply(gate)
    request = await admit(gate, ask(terms=terms()))
    store.lapse("demo")
    [orphan] = await other.orphans()
    await gate.settle(Settlement(request=request, cost=70, now=NOW))
    ended = ask(request_id=orphan.request_id, terms=terms())
    await other.settle(Settlement(request=ended, cost=900, now=NOW))
    assert await gate.admit(ask(terms=terms(cap=70))) == BudgetSpent()
    await admit(gate, ask(terms=terms(cap=71)))


async def test_orphans_are_found_in_every_project_and_their_number_is_limited(store: GateStore) -> None:
    gate = store.gate
    wanted = set()
    for number in range(30):
        project = f"p{number % 10}"
        wanted.add((project, (await admit(gate, ask(project, terms=terms(cap=None)))).request_id))
    for number in range(10):
        store.lapse(f"p{number}")
    found: list[Orphan] = []
    for limit in (1, 7, 12, 100):
        some = await gate.orphans(limit)
        assert len(some) == min(limit, 30 - len(found))
        found.extend(some)
    assert {(orphan.project, orphan.request_id) for orphan in found} == wanted
    assert await gate.orphans() == []
