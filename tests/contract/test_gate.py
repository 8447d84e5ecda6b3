"""The gate's contract, one suite over every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.ports import (
    KEPT_SECONDS,
    WINDOW_SECONDS,
    Admitted,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Claim,
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
    supply,
    terms,
)


@pytest.fixture(scope="module")
def _cluster() -> Iterator[RedisClusterServer]:
    server = RedisClusterServer()
    yield server
    server.remove()


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


async def test_a_call_without_anything_to_hold_is_admitted(gate: Gate) -> None:
    request = await admit(gate, ask())
    await gate.settle(Settlement(request=request, cost=0, now=NOW))
    await gate.release(request)
    await gate.ping()


# --- claims --------------------------------------------------------------------------------------------------------


async def test_a_second_call_under_a_running_key_is_busy_and_another_request_a_mismatch(store: GateStore) -> None:
    await admit(store.gate, ask(key="k"))
    other = store.open()
    assert await other.admit(ask(key="k")) == Busy()
    assert await other.admit(ask(key="k", fingerprint="else")) == Mismatch()
    assert await other.earlier("demo", Claim("k", "fp"), NOW) is None
    assert await other.earlier("demo", Claim("k", "else"), NOW) == Mismatch()
    await admit(other, ask(key="another"))
    await admit(other, ask("second", key="k"))


async def test_a_kept_answer_is_given_again_for_an_hour_of_business_time(gate: Gate) -> None:
    request = await admit(gate, ask(key="k"))
    answer = bytes(range(256)) * 500
    await gate.settle(Settlement(request=request, cost=0, now=NOW + 100, answer=answer))
    last = NOW + 100 + KEPT_SECONDS - 1
    assert await gate.earlier("demo", Claim("k", "fp"), last) == Earlier(answer, cached=False)
    assert await gate.admit(ask(key="k", now=last, per_hour=0)) == Earlier(answer, cached=False)
    assert await gate.admit(ask(key="k", now=last, fingerprint="else")) == Mismatch()
    assert await gate.earlier("demo", Claim("k", "else"), last) == Mismatch()
    assert await gate.earlier("demo", Claim("k", "else"), last + 1) is None
    await admit(gate, ask(key="k", now=last + 1, fingerprint="else"))


async def test_a_kept_answer_may_be_empty(gate: Gate) -> None:
    request = await admit(gate, ask(key="k"))
    await gate.settle(Settlement(request=request, cost=0, now=NOW, answer=b""))
    assert await gate.admit(ask(key="k")) == Earlier(b"", cached=False)


@pytest.mark.parametrize("ending", ["settle", "release"])
async def test_a_call_that_ends_without_an_answer_frees_its_key(gate: Gate, ending: str) -> None:
    request = await admit(gate, ask(key="k"))
    if ending == "settle":
        await gate.settle(Settlement(request=request, cost=0, now=NOW))
    else:
        await gate.release(request)
    await admit(gate, ask(key="k", fingerprint="else"))


async def test_a_key_whose_lease_passed_is_taken_over_and_its_first_call_changes_nothing_more(store: GateStore) -> None:
    gate = store.gate
    first = await admit(gate, ask(key="k"))
    store.lapse("demo")
    assert await gate.earlier("demo", Claim("k", "else"), NOW) is None
    second = await admit(gate, ask(key="k", fingerprint="else"))
    await gate.renew([first])
    await gate.settle(Settlement(request=first, cost=0, now=NOW, answer=b"first"))
    assert await gate.admit(ask(key="k", fingerprint="else")) == Busy()
    await gate.settle(Settlement(request=second, cost=0, now=NOW, answer=b"second"))
    assert await gate.earlier("demo", Claim("k", "else"), NOW) == Earlier(b"second", cached=False)


async def test_renewing_keeps_a_key(store: GateStore) -> None:
    gate = store.gate
    request = await admit(gate, ask(key="k"))
    store.lapse("demo")
    await gate.renew([request])
    assert await gate.admit(ask(key="k")) == Busy()


async def test_an_answer_finished_after_the_store_lost_everything_is_kept(store: GateStore) -> None:
    gate = store.gate
    request = await admit(gate, ask(key="k"))
    store.lose()
    await gate.settle(Settlement(request=request, cost=0, now=NOW, answer=b"late"))
    assert await gate.admit(ask(key="k")) == Earlier(b"late", cached=False)


async def test_keys_hold_any_printable_character(gate: Gate) -> None:
    printable = "".join(map(chr, range(0x20, 0x7F)))
    keys = [printable, printable[::-1], "{demo}:*?[a-z]", "a" * 255, "a" * 254 + "b", " ", "'", '"']
    for number, key in enumerate(keys):
        request = await admit(gate, ask(key=key))
        await gate.settle(Settlement(request=request, cost=0, now=NOW, answer=b"%d" % number))
    for number, key in enumerate(keys):
        assert await gate.earlier("demo", Claim(key, "fp"), NOW) == Earlier(b"%d" % number, cached=False)


# --- the window ----------------------------------------------------------------------------------------------------


async def test_the_window_slides_exactly(gate: Gate) -> None:
    for second in range(3):
        await admit(gate, ask(now=NOW + 10 * second, per_hour=3))
    assert await gate.admit(ask(now=NOW + 30, per_hour=3)) == LimitReached(WINDOW_SECONDS - 30)
    assert await gate.admit(ask(now=NOW + WINDOW_SECONDS - 0.5, per_hour=3)) == LimitReached(1)
    await admit(gate, ask(now=NOW + WINDOW_SECONDS, per_hour=3))
    assert await gate.admit(ask(now=NOW + WINDOW_SECONDS, per_hour=3)) == LimitReached(10)
    await admit(gate, ask(now=NOW + WINDOW_SECONDS + 10, per_hour=3))


async def test_a_lowered_limit_says_when_the_next_call_really_fits(gate: Gate) -> None:
    for second in range(10):
        await admit(gate, ask(now=NOW + second, per_hour=10))
    assert await gate.admit(ask(now=NOW + 10, per_hour=4)) == LimitReached(WINDOW_SECONDS - 10 + 6)
    assert await gate.admit(ask(now=NOW + WINDOW_SECONDS + 5.25, per_hour=4)) == LimitReached(1)
    await admit(gate, ask(now=NOW + WINDOW_SECONDS + 6, per_hour=4))


async def test_a_limit_of_zero_is_always_reached(gate: Gate) -> None:
    assert await gate.admit(ask(per_hour=0)) == LimitReached(WINDOW_SECONDS)


async def test_what_is_not_counted_takes_no_place(gate: Gate) -> None:
    for _ in range(5):
        await admit(gate, ask())
        await admit(gate, ask("other", per_hour=100))
    await admit(gate, ask(per_hour=1))
    await admit(gate, ask())
    for _ in range(3):
        assert isinstance(await gate.admit(ask(per_hour=1)), LimitReached)
    await admit(gate, ask(now=NOW + WINDOW_SECONDS, per_hour=1))


async def test_a_released_call_gives_its_place_back_and_a_settled_one_does_not(gate: Gate) -> None:
    request = await admit(gate, ask(per_hour=1))
    await gate.release(request)
    request = await admit(gate, ask(per_hour=1))
    await gate.settle(Settlement(request=request, cost=0, now=NOW))
    await gate.release(request)
    assert isinstance(await gate.admit(ask(per_hour=1)), LimitReached)


# --- the cache -----------------------------------------------------------------------------------------------------


async def _cache(gate: Gate, project: str = "demo", *, generation: int = 0, seconds: float = 60) -> None:
    request = await admit(gate, ask(project, cache_key="c"))
    await gate.settle(
        Settlement(
            request=request, cost=0, now=NOW, cached=b"kept", cache_seconds=seconds, generation=generation
        )
    )


async def test_a_cached_answer_is_found_until_it_expires(gate: Gate) -> None:
    await _cache(gate)
    assert await gate.admit(ask(cache_key="c", now=NOW + 59.9)) == Earlier(b"kept", cached=True)
    await admit(gate, ask(cache_key="c", now=NOW + 60))
    await admit(gate, ask(cache_key="d"))
    await admit(gate, ask("other", cache_key="c"))


async def test_a_hit_is_counted_holds_the_key_and_reserves_nothing(gate: Gate) -> None:
    await supply(gate, spent=900)
    await _cache(gate)
    hit = ask(cache_key="c", key="k", per_hour=1, terms=terms(cap=900))
    assert await gate.admit(hit) == Earlier(b"kept", cached=True)
    assert await gate.admit(hit) == Earlier(b"kept", cached=True)
    assert await gate.admit(ask(key="k")) == Busy()
    assert await gate.admit(ask(cache_key="c", per_hour=1)) == LimitReached(WINDOW_SECONDS)
    await admit(gate, ask(terms=terms(cap=901)))
    await gate.settle(Settlement(request=hit, cost=0, now=NOW, answer=b"kept"))
    assert await gate.admit(ask(key="k")) == Earlier(b"kept", cached=False)


async def test_a_hit_works_at_the_cap_and_with_an_unknown_total(gate: Gate) -> None:
    await _cache(gate)
    assert await gate.admit(ask(cache_key="c", terms=terms(cap=0))) == Earlier(b"kept", cached=True)


async def test_forgetting_answers_begins_a_new_generation(gate: Gate) -> None:
    before = await gate.generation("demo")
    await _cache(gate, generation=before)
    await _cache(gate, "other", generation=await gate.generation("other"))
    await gate.forget_answers("demo")
    assert await gate.generation("demo") != before
    await admit(gate, ask(cache_key="c"))
    assert await gate.admit(ask("other", cache_key="c")) == Earlier(b"kept", cached=True)
    await _cache(gate, generation=before)
    await admit(gate, ask(cache_key="c"))
    await _cache(gate, generation=await gate.generation("demo"))
    assert await gate.admit(ask(cache_key="c")) == Earlier(b"kept", cached=True)


# --- the budget ----------------------------------------------------------------------------------------------------


async def test_a_total_is_unknown_until_it_is_supplied(gate: Gate) -> None:
    first = await gate.admit(ask(terms=terms()))
    assert isinstance(first, TotalUnknown)
    assert await gate.admit(ask(terms=terms())) == first
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
        await admit(gate, ask(f"p{number % 7}", key=f"k{number}", terms=terms(cap=None))) for number in range(400)
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
        (await admit(gate, ask(key=f"k{n}", terms=terms(worst_case=100, record=b"%d" % n)))).request_id: b"%d" % n
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


async def test_a_late_settlement_by_the_first_owner_counts_and_the_askers_then_does_not(store: GateStore) -> None:
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


# --- projects ------------------------------------------------------------------------------------------------------


async def test_projects_share_nothing(store: GateStore) -> None:
    gate = store.gate
    names = ["a", "a-b", "a_b", "a--", "0", "window", "live", "claim", "a" * 63, "a" * 62]
    for name in names:
        await supply(gate, name)
        request = await admit(gate, ask(name, request_id="same", key="k", per_hour=1, terms=terms(cap=5)))
        assert isinstance(await gate.admit(ask(name, per_hour=1)), LimitReached)
        await gate.settle(Settlement(request=request, cost=5, now=NOW, answer=name.encode()))
    for name in names:
        assert await gate.admit(ask(name, key="k")) == Earlier(name.encode(), cached=False)


async def test_a_forgotten_project_has_left_nothing(store: GateStore) -> None:
    gate = store.gate
    for project in ("demo", "demo-2"):
        await supply(gate, project)
        await _cache(gate, project)
        await gate.forget_answers(project)
        await _cache(gate, project, generation=1)
        await admit(gate, ask(project, key="running", per_hour=5, terms=terms()))
        ended = await admit(gate, ask(project, key="kept", per_hour=5, terms=terms()))
        await gate.settle(Settlement(request=ended, cost=1, now=NOW, answer=b"a"))
    untouched, fresh = store.dump("demo-2"), store.dump("never-seen")
    await gate.forget_project("demo")
    assert store.dump("demo") == fresh
    assert store.dump("demo-2") == untouched
    await gate.forget_project("demo")
    store.lapse("demo")
    assert await gate.orphans() == []
    await supply(gate)
    await admit(gate, ask(key="running", per_hour=1, terms=terms()))


async def test_a_closed_gate_has_not_taken_its_state_along(store: GateStore) -> None:
    first = store.open()
    request = await admit(first, ask(key="k"))
    await first.settle(Settlement(request=request, cost=0, now=NOW, answer=b"kept"))
    await first.close()
    assert await store.gate.admit(ask(key="k")) == Earlier(b"kept", cached=False)
    assert await store.open().admit(ask()) == Admitted()
