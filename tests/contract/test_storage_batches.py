"""Batches, on both databases."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from gateway.domain.batches import Batch, BatchState, ItemAnswer, ItemFailure, ItemOutcome, ItemTrouble
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.completion import Choice, Fields, PageCitation, WebCitation
from gateway.domain.errors import StoreAwayError
from gateway.domain.events import Stop
from gateway.domain.usage import Usage
from gateway.storage import schema
from gateway.storage.batch_rows import NoRoom, Opened, TooManyOpen
from gateway.storage.batches import Batches
from gateway.storage.calls import Calls
from gateway.storage.database import Database
from gateway.storage.refusals import UnknownError
from gateway.storage.reservations import Held, Reservation, Reserved
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import (
    ANNA,
    KINDS,
    NOW,
    TODAY,
    batch,
    entry,
    opened,
    place_of,
    project,
    record,
)

MOST = 20
LATER = NOW + timedelta(hours=3)
OUTCOMES: tuple[ItemOutcome, ...] = (
    ItemAnswer(
        "Il primo 🍋 {}",
        Stop.END,
        Usage(1, 2, 3, 4, 5),
        (PageCitation("bolletta.pdf", 3, "Totale € 12"), WebCitation("https://a.it", "Titolo", "testo")),
    ),
    ItemFailure(ItemTrouble.REFUSED, Usage(7, 1)),
    ItemFailure(ItemTrouble.MISSING),
)


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        for name in ("alfa", "beta"):
            await Tenants(database).add_project(project(name), ANNA)
        yield database


@pytest.fixture
def batches(database: Database) -> Batches:
    return Batches(database)


@pytest.fixture
async def calls(database: Database) -> AsyncIterator[Calls]:
    calls = Calls(database)
    yield calls
    await calls.close()


def ended(
    running: Batch, state: BatchState = BatchState.READY, outcomes: tuple[ItemOutcome, ...] = OUTCOMES
) -> Batch:
    return msgspec.structs.replace(running, state=state, outcomes=outcomes, settled_at=LATER)


def paid(running: Batch, cost: int = 10) -> CallRecord:
    return record(running.request_id, running.project, cost, day=running.day)


async def money(database: Database, name: str = "alfa", day: date = TODAY) -> tuple[int, int, int]:
    """Settled, reserved, batches."""
    table = schema.spending
    query = select(table.c.settled, table.c.reserved, table.c.batches)
    async with database.connect() as connection:
        found = await connection.execute(query.where(table.c.project == name, table.c.day == day))
        row = found.one_or_none()
        return (0, 0, 0) if row is None else (row[0], row[1], row[2])


async def rows(database: Database) -> int:
    async with database.connect() as connection:
        return await connection.scalar(select(func.count()).select_from(schema.batches)) or 0


async def twice(
    database: Database, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Awaitable[Any]]
) -> Any:
    """Ask, lose the answer of the commit on the way, ask again."""
    begin = database.begin

    @asynccontextmanager
    async def losing() -> AsyncIterator[Any]:
        async with begin() as connection:
            yield connection
        raise StoreAwayError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(database, "begin", losing)
        with pytest.raises(StoreAwayError):
            await ask()
    return await ask()


# --- rows ---------------------------------------------------------------------------------------------------------


async def test_a_batch_is_read_as_it_was_written(batches: Batches, database: Database) -> None:
    full = batch(
        "prt_00000000000a",
        key_id=7,
        total=3,
        single=False,
        shape=Fields(("nome", "età")),
        documents=("bolletta.pdf", "perché «qui».pdf"),
        cited=True,
        reserved=2**40,
        sent_at=NOW + timedelta(microseconds=1),
    )
    plain = batch(
        "prt_00000000000b", key_id=None, total=1, single=True, shape=Choice(("sì", "no")), reserved=0
    )
    for each in (full, plain):
        assert await batches.open(each, None, MOST) == Opened()
        assert await batches.get("alfa", each.number, NOW) == each
    assert await batches.sent("alfa", full.number, "batch_1")
    assert await batches.take_turn("alfa", full.number, LATER)
    held = msgspec.structs.replace(full, provider_id="batch_1", polled_at=LATER)
    assert await batches.get("alfa", full.number, NOW) == held
    assert await batches.settle(ended(held), paid(full))
    assert await batches.get("alfa", full.number, NOW) == ended(held)
    assert await batches.get("alfa", plain.number, NOW) == plain
    assert await money(database) == (10, 0, 0)


async def test_a_foreign_project_sees_and_changes_nothing(batches: Batches, database: Database) -> None:
    mine = batch()
    await batches.open(mine, None, MOST)
    foreign = msgspec.structs.replace(mine, project="beta")
    assert await batches.get("beta", mine.number, NOW) is None
    assert not await batches.sent("beta", mine.number, "batch_1")
    assert not await batches.take_turn("beta", mine.number, NOW)
    assert not await batches.cancel("beta", mine.number)
    assert not await batches.settle(ended(foreign), paid(foreign))
    assert await batches.count_open("beta", NOW) == 0
    assert await batches.get("alfa", mine.number, NOW) == mine
    assert await money(database) == (0, 0, 100)
    # The same number in another project is another batch.
    other = msgspec.structs.replace(foreign, request_id="r-other", reserved=7)
    assert await batches.open(other, None, MOST) == Opened()
    assert await batches.get("beta", mine.number, NOW) == other
    assert await batches.get("alfa", mine.number, NOW) == mine


async def test_what_is_too_old_is_not_there(batches: Batches) -> None:
    await batches.open(batch(), None, MOST)
    assert await batches.get("alfa", batch().number, NOW) is not None
    assert await batches.get("alfa", batch().number, NOW + timedelta(microseconds=1)) is None
    assert await batches.get("alfa", "prt_ffffffffffff", NOW) is None


# --- opening ------------------------------------------------------------------------------------------------------


async def test_what_fits_the_cap_is_opened(batches: Batches, calls: Calls, database: Database) -> None:
    await calls.commit([entry("a", cost=40)])
    assert (
        await calls.reserve(
            Reservation(project="alfa", day=TODAY, request_id="b", amount=10, record=b""), 200
        )
        == Reserved()
    )
    assert await batches.open(batch("prt_1", reserved=60), 109, MOST) == NoRoom(40, alone=False)
    assert await batches.open(batch("prt_1", reserved=110), 109, MOST) == NoRoom(40, alone=True)
    assert await rows(database) == 0
    assert await batches.open(batch("prt_1", reserved=60), 110, MOST) == Opened()
    assert await money(database) == (40, 10, 60)
    # What batches hold counts as spent.
    assert await calls.spent("alfa", TODAY) == 100
    assert await batches.open(batch("prt_2", reserved=1), 110, MOST) == NoRoom(100, alone=False)
    assert await batches.open(batch("prt_2", reserved=1_000), None, MOST) == Opened()


async def test_nothing_in_flight_is_no_excuse(batches: Batches, database: Database) -> None:
    assert await batches.open(batch(reserved=101), 100, MOST) == NoRoom(0, alone=True)
    assert await batches.open(batch(reserved=1), 0, MOST) == NoRoom(0, alone=True)
    assert await money(database) == (0, 0, 0)
    assert await batches.open(batch(reserved=100), 100, MOST) == Opened()


async def test_what_was_held_for_the_call_becomes_the_batch_s(
    batches: Batches, calls: Calls, database: Database
) -> None:
    mine = batch(reserved=80)
    held = Reservation(project="alfa", day=TODAY, request_id=mine.request_id, amount=80, record=b"")
    assert await calls.reserve(held, 100) == Reserved()
    assert await batches.open(msgspec.structs.replace(mine, reserved=101), 100, MOST) == NoRoom(0, alone=True)
    assert await money(database) == (0, 80, 0)
    assert await batches.open(mine, 100, MOST) == Opened()
    assert await money(database) == (0, 0, 80)
    other = msgspec.structs.replace(held, request_id="other", amount=21)
    assert await calls.reserve(other, 100) == Reserved()  # nothing else is in flight
    assert await calls.reserve(msgspec.structs.replace(other, request_id="third"), 100) == Held()


async def test_the_limit_is_exact_at_any_concurrency(batches: Batches, database: Database) -> None:
    yesterday = TODAY - timedelta(days=1)
    many = [
        batch(f"prt_{number}", reserved=1, day=yesterday if number % 2 else TODAY) for number in range(30)
    ]
    verdicts = await asyncio.gather(*(batches.open(each, None, MOST) for each in many))
    assert Counter(type(each) for each in verdicts) == {Opened: MOST, TooManyOpen: 10}
    assert await batches.count_open("alfa", NOW) == MOST
    held = [await money(database, day=day) for day in (TODAY, yesterday)]
    assert sum(each[2] for each in held) == MOST
    # Another project's limit is its own, and what has ended makes room.
    assert await batches.open(batch("prt_b", "beta"), None, MOST) == Opened()
    first = next(each for each, verdict in zip(many, verdicts, strict=True) if verdict == Opened())
    assert await batches.open(batch("prt_x"), None, MOST) == TooManyOpen()
    await batches.settle(ended(first), paid(first, 0))
    assert await batches.open(batch("prt_x"), None, MOST) == Opened()
    assert await batches.open(batch("prt_y"), None, MOST) == TooManyOpen()


@pytest.mark.parametrize("cap", [95, 100, 7])
async def test_the_cap_is_exact_at_any_concurrency(batches: Batches, database: Database, cap: int) -> None:
    many = [batch(f"prt_{number}", reserved=10) for number in range(30)]
    verdicts = await asyncio.gather(*(batches.open(each, cap, 100) for each in many))
    admitted = cap // 10
    assert Counter(type(each) for each in verdicts) == Counter({Opened: admitted, NoRoom: 30 - admitted})
    assert await money(database) == (0, 0, admitted * 10)
    assert await rows(database) == admitted


async def test_calls_and_batches_share_one_cap(batches: Batches, calls: Calls, database: Database) -> None:
    def held(number: int) -> Reservation:
        return Reservation(project="alfa", day=TODAY, request_id=f"c-{number}", amount=10, record=b"")

    await asyncio.gather(
        *(calls.reserve(held(number), 100) for number in range(20)),
        *(batches.open(batch(f"prt_{number}", reserved=10), 100, 100) for number in range(20)),
    )
    settled, reserved, held_by_batches = await money(database)
    assert settled == 0
    assert reserved + held_by_batches == 100


async def test_the_same_number_is_opened_once(
    batches: Batches, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = batch(reserved=60)
    assert await twice(database, monkeypatch, lambda: batches.open(mine, 100, 1)) == Opened()
    many = await asyncio.gather(*(batches.open(mine, 100, 1) for _ in range(10)))
    assert set(many) == {Opened()}
    assert await money(database) == (0, 0, 60)
    assert await rows(database) == 1


async def test_a_disabled_project_opens_nothing(batches: Batches, database: Database) -> None:
    await Tenants(database).disable_project("alfa", ANNA, NOW)
    for name in ("alfa", "nessuno"):
        with pytest.raises(UnknownError):
            await batches.open(batch(name=name), None, MOST)
    assert await rows(database) == 0


# --- the provider's name ------------------------------------------------------------------------------------------


async def test_a_name_is_given_once(batches: Batches) -> None:
    mine, other = batch("prt_1"), batch("prt_2", "beta")
    await batches.open(mine, None, MOST)
    await batches.open(other, None, MOST)
    assert await batches.sent("alfa", "prt_1", "batch_1")
    assert await batches.sent("alfa", "prt_1", "batch_1")
    assert not await batches.sent("alfa", "prt_1", "batch_2")
    # The provider's batch is one row's.
    assert not await batches.sent("beta", "prt_2", "batch_1")
    assert await batches.sent("beta", "prt_2", "batch_2")
    assert not await batches.sent("alfa", "prt_3", "batch_3")


async def test_all_names_of_a_provider_are_told(batches: Batches) -> None:
    for number, name in ((1, "alfa"), (2, "beta"), (3, "alfa")):
        await batches.open(batch(f"prt_{number}", name), None, MOST)
    foreign = batch("prt_4")
    target = msgspec.structs.replace(foreign.target, provider="claude")
    await batches.open(msgspec.structs.replace(foreign, target=target), None, MOST)
    for number, name in ((1, "alfa"), (2, "beta"), (4, "alfa")):
        await batches.sent(name, f"prt_{number}", f"batch_{number}")
    await batches.settle(ended(batch("prt_1")), paid(batch("prt_1")))
    assert await batches.held_ids("openai") == {"batch_1", "batch_2"}
    assert await batches.held_ids("claude") == {"batch_4"}
    assert await batches.held_ids("sandbox") == set()


async def test_what_was_refused_leaves_nothing(
    batches: Batches, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        await batches.open(batch(f"prt_{number}"), None, MOST)
    assert await batches.cancel("alfa", "prt_1")
    assert not await batches.cancel("alfa", "prt_1")
    assert await money(database) == (0, 0, 200)
    assert await batches.get("alfa", "prt_1", NOW) is None
    await batches.sent("alfa", "prt_2", "batch_2")
    assert not await batches.cancel("alfa", "prt_2")
    assert not await twice(database, monkeypatch, lambda: batches.cancel("alfa", "prt_3"))
    assert await money(database) == (0, 0, 100)
    assert await batches.count_open("alfa", NOW) == 1


# --- turns --------------------------------------------------------------------------------------------------------


async def test_one_of_many_askers_has_the_turn(batches: Batches) -> None:
    await batches.open(batch("prt_1"), None, MOST)
    await batches.open(batch("prt_2"), None, MOST)

    async def turns(seconds: float) -> int:
        at = NOW + timedelta(seconds=seconds)
        return sum(await asyncio.gather(*(batches.take_turn("alfa", "prt_1", at) for _ in range(10))))

    assert [await turns(seconds) for seconds in (0, 19.999999, 20, 39, 40)] == [1, 0, 1, 0, 1]
    assert await batches.take_turn("alfa", "prt_2", NOW)
    assert await batches.take_turn("alfa", "prt_2", NOW + timedelta(seconds=1), seconds=1)
    await batches.settle(ended(batch("prt_2")), paid(batch("prt_2")))
    assert not await batches.take_turn("alfa", "prt_2", LATER)
    assert not await batches.take_turn("alfa", "prt_9", LATER)


# --- settling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [0, 30, 250])
async def test_it_is_paid_once_whoever_collects(
    batches: Batches, calls: Calls, database: Database, cost: int
) -> None:
    await calls.commit([entry("a", cost=5)])
    mine = batch("prt_1", reserved=100)
    await batches.open(mine, None, MOST)
    await batches.open(batch("prt_2", reserved=7), None, MOST)
    many = (
        batches.settle(
            ended(mine, outcomes=(*OUTCOMES, ItemFailure(ItemTrouble.ERRORED, Usage(number)))),
            paid(mine, cost),
        )
        for number in range(10)
    )
    assert sorted(await asyncio.gather(*many)) == [False] * 9 + [True]
    assert await money(database) == (5 + cost, 0, 7)
    assert await calls.spent("alfa", TODAY) == 12 + cost
    assert await calls.find_call("alfa", mine.request_id) == paid(mine, cost)
    assert await batches.count_open("alfa", NOW) == 1


async def test_it_is_paid_on_the_day_it_was_accepted(batches: Batches, calls: Calls) -> None:
    yesterday = TODAY - timedelta(days=1)
    mine = batch(day=yesterday)
    await batches.open(mine, None, MOST)
    assert await batches.settle(ended(mine), paid(mine, 33))
    days = [("alfa", yesterday), ("alfa", TODAY)]
    assert await calls.spent_many(days) == dict(zip(days, (33, 0), strict=True))


async def test_a_lost_answer_pays_once(
    batches: Batches, calls: Calls, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = batch()
    await batches.open(mine, None, MOST)
    assert not await twice(database, monkeypatch, lambda: batches.settle(ended(mine), paid(mine, 9)))
    assert await batches.get("alfa", mine.number, NOW) == ended(mine)
    assert await money(database) == (9, 0, 0)
    assert len(await calls.recent_calls("alfa")) == 1


async def test_a_crash_before_the_commit_leaves_it_unsettled(
    batches: Batches, calls: Calls, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = batch()
    await batches.open(mine, None, MOST)
    begin = database.begin

    @asynccontextmanager
    async def dying() -> AsyncIterator[Any]:
        async with begin() as connection:
            yield connection
            raise RuntimeError("the process dies")

    with monkeypatch.context() as patched:
        patched.setattr(database, "begin", dying)
        with pytest.raises(RuntimeError):
            await batches.settle(ended(mine), paid(mine, 9))
    assert await batches.get("alfa", mine.number, NOW) == mine
    assert await money(database) == (0, 0, 100)
    assert await calls.find_call("alfa", mine.request_id) is None
    assert await batches.settle(ended(mine), paid(mine, 9))
    assert await money(database) == (9, 0, 0)


async def test_only_the_end_of_a_batch_is_settled(batches: Batches) -> None:
    mine = batch()
    await batches.open(mine, None, MOST)
    with pytest.raises(ValueError, match="not ended"):
        await batches.settle(mine, paid(mine))
    with pytest.raises(ValueError, match="another project"):
        await batches.settle(ended(mine), record(mine.request_id, "beta"))
    with pytest.raises(ValueError, match="or day"):
        await batches.settle(ended(mine), record(mine.request_id, day=TODAY + timedelta(days=1)))


# --- upkeep -------------------------------------------------------------------------------------------------------


async def test_what_nobody_collected_is_listed(batches: Batches) -> None:
    for number, name in enumerate(("alfa", "beta", "alfa", "beta")):
        await batches.open(batch(f"prt_{number}", name, created_at=NOW - timedelta(days=number)), None, MOST)
    collected = batch("prt_2", created_at=NOW - timedelta(days=2))
    await batches.settle(ended(collected), paid(collected))
    assert [each.number for each in await batches.unsettled_before(NOW)] == ["prt_3", "prt_1"]
    assert [each.number for each in await batches.unsettled_before(NOW, 1)] == ["prt_3"]
    assert await batches.unsettled_before(NOW - timedelta(days=3)) == ()


async def test_retention_deletes_what_is_old_and_settled(
    batches: Batches, calls: Calls, database: Database
) -> None:
    old = [
        batch(f"prt_{number}", created_at=NOW - timedelta(microseconds=1), reserved=1)
        for number in range(205)
    ]
    young, running = batch("prt_young"), batch("prt_running", created_at=NOW - timedelta(days=1))
    for each in (*old, young, running):
        await batches.open(each, None, 1_000)
        if each != running:
            await batches.settle(ended(each), paid(each, 1))
    assert await batches.delete_older_than(NOW) == 205
    assert await batches.delete_older_than(NOW) == 0
    assert await batches.get("alfa", "prt_young", NOW) is not None
    assert await batches.get("alfa", "prt_running", NOW - timedelta(days=1)) == running
    assert await money(database) == (206, 0, 100)
    assert await calls.find_call("alfa", old[0].request_id) is not None


async def test_removal_books_what_runs_and_deletes_the_rows(
    batches: Batches, calls: Calls, database: Database
) -> None:
    for name in ("alfa", "beta"):
        for number in range(3):
            await batches.open(batch(f"prt_{number}", name, reserved=10), None, MOST)
        done = batch("prt_0", name, reserved=10)
        await batches.settle(ended(done), paid(done, 4))
        await batches.sent(name, "prt_1", f"batch_{name}")
    label = await Tenants(database).remove_project("alfa", ANNA, NOW)
    assert await rows(database) == 3
    assert await batches.held_ids("openai") == {"batch_beta"}
    assert await money(database, label) == (24, 0, 0)
    assert await money(database, "alfa") == (0, 0, 0)
    assert await money(database, "beta") == (4, 0, 20)
    booked = await calls.recent_calls(label)
    assert Counter((each.outcome, each.cost) for each in booked) == {
        (Outcome.OK, 4): 1,
        (Outcome.LOST, 10): 2,
    }
    # Who was collecting meanwhile finds nothing to pay.
    late = batch("prt_1", reserved=10)
    assert not await batches.settle(ended(late), paid(late))
    assert not await batches.cancel("alfa", "prt_2")
    # The name's next owner has none of them.
    await Tenants(database).add_project(project(), ANNA)
    assert await batches.get("alfa", "prt_0", NOW) is None
    assert await calls.spent("alfa", TODAY) == 0


async def test_removal_and_opening_at_once_leave_nothing_held(batches: Batches, database: Database) -> None:
    async def opening(number: int) -> None:
        with suppress(UnknownError):
            await batches.open(batch(f"prt_{number}", reserved=1), None, 100)

    removal = Tenants(database).remove_project("alfa", ANNA, NOW)
    label, _ = await asyncio.gather(removal, asyncio.gather(*(opening(number) for number in range(20))))
    assert await rows(database) == 0
    assert await money(database, "alfa") == (0, 0, 0)
    assert (await money(database, label))[1:] == (0, 0)


# --- what was never sent, and what nobody has a name for ------------------------------------------------------------


async def test_what_was_never_sent_is_let_go(batches: Batches, database: Database) -> None:
    """Whose process died before it began; the others may be at the provider."""
    unsent = batch("prt_1", sent_at=None)
    young = batch("prt_2", sent_at=None, created_at=LATER)
    begun, named = batch("prt_3", sent_at=None), batch("prt_4", sent_at=None)
    for each in (unsent, young, begun, named):
        await batches.open(each, None, MOST)
    assert await batches.sending("alfa", "prt_3", NOW)
    assert await batches.sent("alfa", "prt_4", "batch_4")
    assert await batches.release_unsent(NOW) == []
    assert await batches.release_unsent(LATER) == [unsent]
    assert await batches.release_unsent(LATER) == []
    assert await money(database) == (0, 0, 300)
    # A process that was only slow finds out before anybody is asked.
    assert not await batches.sending("alfa", "prt_1", NOW)
    assert not await batches.sending("beta", "prt_2", NOW)
    assert await batches.sending("alfa", "prt_2", NOW)
    assert (await batches.get("alfa", "prt_3", NOW)) == msgspec.structs.replace(begun, sent_at=NOW)
    assert await batches.release_unsent(LATER + timedelta(days=1)) == []


async def test_sending_and_letting_go_exclude_each_other(batches: Batches, database: Database) -> None:
    for number in range(12):
        await batches.open(batch(f"prt_{number}", sent_at=None), None, MOST)
    begun, released = await asyncio.gather(
        asyncio.gather(*(batches.sending("alfa", f"prt_{number}", NOW) for number in range(12))),
        batches.release_unsent(LATER),
    )
    assert sum(begun) + len(released) == 12
    there = [await batches.get("alfa", f"prt_{number}", NOW) for number in range(12)]
    assert [one is not None for one in there] == begun
    assert await money(database) == (0, 0, 100 * sum(begun))


async def test_after_a_day_and_an_hour_only_what_the_provider_has_counts_as_open(batches: Batches) -> None:
    late = NOW + timedelta(hours=25)
    for number in range(3):
        await batches.open(batch(f"prt_{number}"), None, MOST)
    await batches.sent("alfa", "prt_0", "batch_0")
    assert await batches.count_open("alfa", late - timedelta(microseconds=1)) == 3
    assert await batches.count_open("alfa", late) == 1
    assert await batches.open(batch("prt_3", created_at=late - timedelta(hours=1)), None, 3) == TooManyOpen()
    assert await batches.open(batch("prt_3", created_at=late), None, 2) == Opened()
    assert await batches.open(batch("prt_4", created_at=late), None, 2) == TooManyOpen()


async def test_what_is_watched(batches: Batches) -> None:
    """Running batches of some projects, the longest unasked first."""
    for number, name in ((1, "alfa"), (2, "alfa"), (3, "beta"), (4, "alfa")):
        created = NOW + timedelta(seconds=number)
        await batches.open(batch(f"prt_{number}", name, created_at=created), None, MOST)
    await batches.take_turn("alfa", "prt_1", LATER)
    done = batch("prt_4")
    await batches.settle(ended(done), paid(done))

    async def watched(names: list[str], at: Any) -> list[str]:
        return [each.number for each in await batches.running(names, at)]

    assert await watched(["alfa", "beta"], LATER) == ["prt_2", "prt_3", "prt_1"]
    assert await watched(["alfa"], LATER) == ["prt_2", "prt_1"]
    assert await watched(["alfa", "beta"], NOW + timedelta(seconds=2)) == ["prt_2"]
    assert await watched([], LATER) == []
    assert [each.number for each in await batches.running(["alfa"], LATER, 1)] == ["prt_2"]
