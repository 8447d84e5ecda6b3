"""The gate's contract, over every implementation: keys, the window, the cache, projects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from gateway.ports import (
    KEPT_SECONDS,
    WINDOW_SECONDS,
    Admitted,
    Busy,
    Claim,
    Earlier,
    Gate,
    Interrupted,
    LimitReached,
    Mismatch,
    Settlement,
)
from tests.contract.test_gate_stores import (
    CLUSTER,
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


async def test_a_call_without_anything_to_hold_is_admitted(gate: Gate) -> None:
    request = await admit(gate, ask())
    await gate.settle(Settlement(request=request, cost=0, now=NOW))
    await gate.release(request)
    await gate.ping()


# --- claims --------------------------------------------------------------------------------------------------------


async def test_a_second_call_under_a_running_key_is_busy_and_another_request_a_mismatch(
    store: GateStore,
) -> None:
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


async def test_calls_that_end_together_are_settled_each_by_itself(store: GateStore) -> None:
    gate = store.gate
    names = ("demo", "second", "demo", "third")
    requests = [await admit(gate, ask(name, key=f"k{number}")) for number, name in enumerate(names)]
    ended = [
        Settlement(request=request, cost=0, now=NOW, answer=b"%d" % number)
        for number, request in enumerate(requests)
    ]
    for _ in range(2):  # also a second time
        await gate.settle(*ended)
        for number, name in enumerate(names):
            kept = await gate.earlier(name, Claim(f"k{number}", "fp"), NOW)
            assert kept == Earlier(b"%d" % number, cached=False)
    await gate.settle()


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


async def test_a_key_whose_lease_passed_is_taken_over_and_its_first_call_changes_nothing_more(
    store: GateStore,
) -> None:
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


async def test_an_answer_kept_by_the_call_that_took_over_stays(store: GateStore) -> None:
    gate = store.gate
    first = await admit(gate, ask(key="k"))
    store.lapse("demo")
    second = await admit(gate, ask(key="k"))
    await gate.settle(Settlement(request=second, cost=0, now=NOW, answer=b"second"))
    await gate.settle(Settlement(request=first, cost=0, now=NOW + 5, answer=b"first"))
    assert await gate.admit(ask(key="k")) == Earlier(b"second", cached=False)


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


async def test_an_admission_tells_the_cache_generation(gate: Gate) -> None:
    await gate.forget_answers("demo")
    assert await gate.admit(ask()) == Admitted(await gate.generation("demo"))


async def test_a_cut_call_leaves_a_note_and_the_key_stays_free_for_its_repeat(gate: Gate) -> None:
    claim = Claim("chiave", "uno")
    request = await admit(gate, ask(key="chiave", fingerprint="uno"))
    await gate.settle(Settlement(request=request, cost=5, now=NOW, note=b"dove eravamo"))
    assert await gate.earlier("demo", claim, NOW + 1) == Interrupted(b"dove eravamo")
    assert await gate.earlier("demo", Claim("chiave", "due"), NOW + 1) == Mismatch()
    assert await gate.admit(ask(key="chiave", fingerprint="due")) == Mismatch()
    assert await gate.earlier("demo", claim, NOW + 3_600) is None
    waiting = msgspec.structs.replace(ask(), claim=Claim("chiave", "uno", waited=True))
    assert await gate.admit(waiting) == Interrupted(b"dove eravamo")
    repeat = await admit(gate, ask(key="chiave", fingerprint="uno"))
    assert await gate.admit(ask(key="chiave", fingerprint="uno")) == Busy()
    await gate.settle(Settlement(request=repeat, cost=5, now=NOW, answer=b"tutto"))
    assert await gate.earlier("demo", claim, NOW + 1) == Earlier(b"tutto", cached=False)


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
