"""Notices and duties, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gateway.domain.batches import Batch, BatchState, ItemFailure, ItemTrouble
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.notices import WITHDRAWN, Delivery, Notice
from gateway.storage.batches import Batches
from gateway.storage.calls import Calls
from gateway.storage.changes import ProjectChanges
from gateway.storage.database import Database
from gateway.storage.duties import Duties
from gateway.storage.notices import Notices
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import (
    ANNA,
    KINDS,
    NOW,
    TODAY,
    batch,
    opened,
    place_of,
    project,
    record,
)

URL = "https://esempio.it/avvisi"
LATER = NOW + timedelta(hours=1)
YES = Delivery(outcome="204", delivered=True, duration_ms=7)
NO = Delivery(outcome="500", duration_ms=7)


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """Two projects: `alfa` is told, `beta` is not."""
    async with opened(place_of(request, tmp_path)) as database:
        tenants = Tenants(database)
        await tenants.add_project(project(notice_url=URL), ANNA, notice_secret=b"sealed")
        await tenants.add_project(project("beta"), ANNA)
        yield database


@pytest.fixture
def notices(database: Database) -> Notices:
    return Notices(database)


@pytest.fixture
def batches(database: Database) -> Batches:
    return Batches(database)


async def end(batches: Batches, number: str = "prt_1", name: str = "alfa", at: datetime = NOW) -> Batch:
    """Open a batch and settle it, leaving a notice if the project wants to be told."""
    mine = batch(number, name)
    await batches.open(mine, None, 100)
    outcomes = (ItemFailure(ItemTrouble.MISSING),) * 3
    done = msgspec.structs.replace(mine, state=BatchState.FAILED, outcomes=outcomes, settled_at=at)
    paid = record(mine.request_id, name, day=mine.day)
    assert await batches.settle(done, paid, f"avv_{name}_{number}")
    return done


def row(notice: Notice, outcome: Outcome = Outcome.NOT_NOTIFIED) -> CallRecord:
    attempt = record(f"{notice.id}.{notice.attempts + 1}", notice.project, 0)
    return msgspec.structs.replace(attempt, outcome=outcome, batch=notice.batch)


async def only(notices: Notices) -> Notice:
    [found] = await notices.recent("alfa")
    return found


# --- leaving ------------------------------------------------------------------------------------------------------


async def test_a_batch_that_ends_leaves_a_notice_where_one_is_wanted(
    notices: Notices, batches: Batches
) -> None:
    done = await end(batches)
    await end(batches, name="beta")
    wanted = Notice(
        project="alfa",
        id="avv_alfa_prt_1",
        batch=done.number,
        state=BatchState.FAILED,
        total=3,
        created_at=NOW,
        due_at=NOW,
    )
    assert await notices.recent("alfa") == (wanted,)
    assert await notices.recent("beta") == ()
    assert await notices.due(["alfa", "beta"], NOW) == (wanted,)
    # Settled again, by another asker: not another notice.
    assert not await batches.settle(done, record(done.request_id), "avv_2")
    assert await notices.recent("alfa") == (wanted,)


async def test_without_a_name_nothing_is_left(notices: Notices, batches: Batches) -> None:
    mine = batch()
    await batches.open(mine, None, 100)
    done = msgspec.structs.replace(mine, state=BatchState.FAILED, settled_at=NOW)
    assert await batches.settle(done, record(mine.request_id))
    assert await notices.recent("alfa") == ()


async def test_the_oldest_of_each_project_is_due(
    notices: Notices, batches: Batches, database: Database
) -> None:
    secret = {"notice_secret": b"x"}
    await Tenants(database).set_project("beta", ProjectChanges(notice_url=URL), ANNA, NOW, **secret)
    for name in ("alfa", "beta"):
        for number in range(3):
            await end(batches, f"prt_{number}", name, NOW + timedelta(seconds=2 - number))
    assert await notices.due(["alfa", "beta"], NOW - timedelta(microseconds=1)) == ()
    found = await notices.due(["alfa", "beta"], NOW + timedelta(minutes=1))
    assert [(each.project, each.batch) for each in found] == [("alfa", "prt_2"), ("beta", "prt_2")]
    assert [each.project for each in await notices.due(["beta"], LATER)] == ["beta"]
    assert await notices.due([], LATER) == ()
    assert [each.batch for each in await notices.recent("alfa")] == ["prt_0", "prt_1", "prt_2"]
    assert [each.batch for each in await notices.recent("alfa", 1)] == ["prt_0"]


# --- telling ------------------------------------------------------------------------------------------------------


async def test_a_notice_is_tried_until_it_is_delivered(
    notices: Notices, batches: Batches, database: Database
) -> None:
    await end(batches)
    first = await only(notices)
    again = NOW + timedelta(seconds=10)
    assert await notices.told(first, NO, row(first), at=NOW, again=again)
    second = await only(notices)
    assert second == msgspec.structs.replace(
        first, attempts=1, outcome="500", attempted_at=NOW, due_at=again, delivered_at=None
    )
    assert await notices.due(["alfa"], NOW) == ()
    assert await notices.due(["alfa"], again) == (second,)
    assert await notices.told(second, YES, row(second, Outcome.NOTIFIED), at=LATER, again=LATER)
    third = await only(notices)
    assert (third.attempts, third.outcome, third.due_at) == (2, "204", None)
    assert third.attempted_at == third.delivered_at == LATER
    assert await notices.due(["alfa"], LATER + timedelta(days=9)) == ()
    calls = Calls(database)
    found = {each.request_id: each for each in await calls.recent_calls("alfa")}
    assert found[f"{first.id}.1"] == row(first)
    assert found[f"{first.id}.2"] == row(second, Outcome.NOTIFIED)
    assert await calls.spent("alfa", TODAY) == 10  # what the batch cost
    await calls.close()


async def test_an_attempt_is_written_once(notices: Notices, batches: Batches, database: Database) -> None:
    """Two processes that both believe it is theirs, and one that wakes up too late."""
    await end(batches)
    first = await only(notices)
    written = (notices.told(first, NO, row(first), at=NOW, again=LATER) for _ in range(8))
    assert sorted(await asyncio.gather(*written)) == [False] * 7 + [True]
    second = await only(notices)
    assert await notices.told(second, YES, row(second), at=NOW, again=None)
    assert not await notices.told(second, NO, row(second), at=LATER, again=LATER)
    assert not await notices.told(await only(notices), NO, row(await only(notices)), at=LATER, again=LATER)
    calls = Calls(database)
    assert len(await calls.recent_calls("alfa")) == 3
    await calls.close()


async def test_the_last_attempt_ends_it(notices: Notices, batches: Batches) -> None:
    await end(batches)
    first = await only(notices)
    assert await notices.told(first, NO, row(first), at=NOW, again=None)
    last = await only(notices)
    assert (last.due_at, last.delivered_at, last.outcome) == (None, None, "500")
    assert await notices.due(["alfa"], LATER + timedelta(days=9)) == ()


# --- the address --------------------------------------------------------------------------------------------------


async def test_the_address_is_an_active_project_s_own(notices: Notices, database: Database) -> None:
    tenants = Tenants(database)
    assert await notices.address("alfa") == (URL, b"sealed")
    assert await notices.address("beta") is None
    assert await notices.address("nessuno") is None
    await tenants.disable_project("alfa", ANNA, NOW)
    assert await notices.address("alfa") is None
    await tenants.enable_project("alfa", ANNA, NOW)
    changed = ProjectChanges(notice_url=URL + "/2")
    await tenants.set_project("alfa", changed, ANNA, NOW, notice_secret=b"new")
    assert await notices.address("alfa") == (URL + "/2", b"new")
    # What is not named stays.
    await tenants.set_project("alfa", ProjectChanges(hourly_limit=1), ANNA, NOW)
    assert await notices.address("alfa") == (URL + "/2", b"new")
    with pytest.raises(ValueError, match="signed"):
        await tenants.set_project("beta", ProjectChanges(notice_url=URL), ANNA, NOW)
    with pytest.raises(ValueError, match="signed"):
        await tenants.add_project(project("gamma", notice_url=URL), ANNA)


async def test_without_an_address_what_waits_is_withdrawn(
    notices: Notices, batches: Batches, database: Database
) -> None:
    await end(batches)
    await end(batches, "prt_2")
    done = (await notices.due(["alfa"], NOW))[0]
    await notices.told(done, YES, row(done), at=NOW, again=None)
    tenants = Tenants(database)
    await tenants.set_project("alfa", ProjectChanges(notice_url=None), ANNA, NOW)
    assert (await tenants.get_project("alfa")).notice_url is None
    assert await notices.address("alfa") is None
    assert {(each.outcome, each.due_at) for each in await notices.recent("alfa")} == {
        (WITHDRAWN, None),
        ("204", None),
    }
    await tenants.set_project("alfa", ProjectChanges(notice_url=URL), ANNA, NOW, notice_secret=b"x")
    assert await notices.due(["alfa"], LATER) == ()
    assert not await notices.told(done, NO, row(done), at=LATER, again=LATER)


async def test_a_disabled_or_removed_project_gets_no_row(
    notices: Notices, batches: Batches, database: Database
) -> None:
    """A delivery that was under way when the project went away leaves nothing under its name."""
    await end(batches)
    mine = await only(notices)
    tenants, calls = Tenants(database), Calls(database)
    await tenants.disable_project("alfa", ANNA, NOW)
    assert not await notices.told(mine, YES, row(mine), at=NOW, again=None)
    await tenants.enable_project("alfa", ANNA, NOW)
    assert await notices.told(mine, NO, row(mine), at=NOW, again=LATER)
    label = await tenants.remove_project("alfa", ANNA, NOW)
    assert await notices.recent("alfa") == ()
    late = msgspec.structs.replace(mine, attempts=1)
    assert not await notices.told(late, YES, row(late), at=NOW, again=None)
    assert await calls.recent_calls("alfa") == ()
    assert len(await calls.recent_calls(label)) == 2
    await calls.close()


async def test_retention(notices: Notices, batches: Batches) -> None:
    await end(batches, "prt_1", at=NOW - timedelta(seconds=1))
    await end(batches, "prt_2")
    assert await notices.delete_older_than(NOW) == 1
    assert [each.batch for each in await notices.recent("alfa")] == ["prt_2"]
    assert await notices.delete_older_than(NOW) == 0


# --- duties -------------------------------------------------------------------------------------------------------


async def test_a_duty_is_one_holder_s(database: Database) -> None:
    duties = Duties(database)
    holders = [f"node-{number}" for number in range(8)]
    taken = await asyncio.gather(*(duties.take("notices", holder, 60) for holder in holders))
    assert sorted(taken) == [False] * 7 + [True]
    mine = holders[taken.index(True)]
    other = holders[taken.index(False)]
    assert await duties.take("notices", mine, 60)
    assert not await duties.take("notices", other, 60)
    assert await duties.take("another", other, 60)
    await duties.leave("notices", other)
    assert not await duties.take("notices", other, 60)
    await duties.leave("notices", mine)
    assert await duties.take("notices", other, 60)


async def test_a_duty_of_the_dead_passes_on_once(database: Database) -> None:
    duties = Duties(database)
    assert await duties.take("notices", "dead", 0.05)
    await asyncio.sleep(0.1)
    taken = await asyncio.gather(*(duties.take("notices", f"node-{n}", 60) for n in range(8)))
    assert sorted(taken) == [False] * 7 + [True]
    assert not await duties.take("notices", "dead", 60)
