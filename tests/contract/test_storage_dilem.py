"""What Dilem keeps, on both databases: credits and limits exact at any concurrency, every ending written once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select, update

from gateway.storage import schema
from gateway.storage.database import Database
from gateway.storage.dilem.cases import Cases, Ending, Turn, Wish
from gateway.storage.dilem.identities import Identities
from gateway.storage.dilem.rates import DAY_SECONDS, HOUR_SECONDS, Window
from gateway.storage.dilem.reports import Kept, Report, Reports
from gateway.storage.dilem.results import Results, Vote
from tests.unit.storage.stores import KINDS, NOW, TODAY, opened, place_of

LIFE = timedelta(days=90)
LONG_AGO = NOW - timedelta(days=365)


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


async def an_identity(database: Database, name: str = "a", now: datetime = NOW) -> int:
    identities = Identities(database)
    digest = name.encode().ljust(32)
    assert await identities.create(digest, now, now + LIFE, ()) is None
    found = await identities.find(digest)
    assert found is not None
    return found.id


def wish(identity: int, case_id: str = "caso", holder: str = "t1", **fields: Any) -> Wish:
    usual: dict[str, Any] = {
        "address": "192.0.2.1",
        "now": NOW,
        "day": TODAY,
        "daily_limit": 20,
        "address_limit": 60,
        "turn_limit": 24,
        "capacity": 64,
        "lease_seconds": 120.0,
    }
    return Wish(identity=identity, case_id=case_id, holder=holder, **usual | fields)


def ending(turn: Turn, **fields: Any) -> Ending:
    usual: dict[str, Any] = {"at": NOW, "request": "{}", "response": "{}", "turn": turn.number}
    return Ending(identity=turn.identity, case_id=turn.case_id, holder=turn.holder, **usual | fields)


async def admitted(cases: Cases, asked: Wish) -> Turn:
    turn = await cases.admit(asked)
    assert isinstance(turn, Turn), turn
    return turn


async def count(database: Database, table: Any) -> int:
    async with database.connect() as connection:
        return int(await connection.scalar(select(func.count()).select_from(table)) or 0)


# --- identities -----------------------------------------------------------------------------------------------------


async def test_an_identity_is_known_by_its_digest_and_lives_on(database: Database) -> None:
    identities = Identities(database)
    number = await an_identity(database)
    assert await identities.renew(number, NOW + 2 * LIFE)
    found = await identities.find(b"a".ljust(32))
    assert (found and found.id, found and found.expires_at) == (number, NOW + 2 * LIFE)
    assert await identities.find(b"b".ljust(32)) is None
    assert not await identities.renew(number + 1, NOW)


async def test_new_identities_of_an_address_are_limited_exactly(database: Database) -> None:
    identities = Identities(database)
    hour = Window.at("h", HOUR_SECONDS, NOW)
    day = Window.at("d", DAY_SECONDS, NOW)

    async def create(name: str) -> Window | None:
        limits = ((hour, 5), (day, 8))
        return await identities.create(name.encode().ljust(32), NOW, NOW + LIFE, limits)

    found = await asyncio.gather(*(create(f"n{number}") for number in range(12)))
    assert found.count(None) == 5
    assert {window for window in found if window} == {hour}
    assert await count(database, schema.dilem_identities) == 5
    later = NOW + timedelta(hours=1)
    next_hour = Window.at("h", HOUR_SECONDS, later)
    assert next_hour.number == hour.number + 1
    assert hour.ends_at == datetime(2026, 11, 30, 13, tzinfo=NOW.tzinfo)
    more = [
        await identities.create(
            f"m{number}".encode().ljust(32), later, later + LIFE, ((next_hour, 5), (day, 8))
        )
        for number in range(5)
    ]
    # What the day refuses does not count for the hour.
    assert more == [None, None, None, day, day]


# --- admission ------------------------------------------------------------------------------------------------------


async def test_parallel_first_turns_of_a_case_take_one_credit(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    found = await asyncio.gather(*(cases.admit(wish(identity, holder=f"t{n}")) for n in range(12)))
    assert sum(isinstance(one, Turn) for one in found) == 1
    assert found.count("in_progress") == 11
    state = await cases.state(identity, "caso", TODAY)
    assert (state.used, state.admitted, state.completed) == (1, True, False)


async def test_parallel_first_turns_never_pass_the_limit(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    wishes = [wish(identity, f"caso-{n}", f"t{n}", daily_limit=5) for n in range(16)]
    found = await asyncio.gather(*map(cases.admit, wishes))
    assert sum(isinstance(one, Turn) for one in found) == 5
    assert found.count("credits") == 11
    assert (await cases.state(identity, None, TODAY)).used == 5
    tomorrow = NOW + timedelta(days=1)
    await admitted(cases, wish(identity, "domani", now=tomorrow, day=tomorrow.date(), daily_limit=5))
    assert (await cases.state(identity, None, tomorrow.date())).used == 1


async def test_an_address_and_the_house_have_limits_over_all_identities(database: Database) -> None:
    cases = Cases(database)
    identities = [await an_identity(database, name) for name in "abcdefgh"]
    by_address = [wish(each, holder=f"t{each}", address_limit=3) for each in identities]
    found = await asyncio.gather(*map(cases.admit, by_address))
    assert sum(isinstance(one, Turn) for one in found) == 3
    assert found.count("address") == 5
    elsewhere = [
        wish(each, "altro", holder=f"u{each}", address=f"192.0.2.{each + 10}", capacity=6)
        for each in identities
    ]
    found = await asyncio.gather(*map(cases.admit, elsewhere))
    assert sum(isinstance(one, Turn) for one in found) == 3
    assert found.count("capacity") == 5
    for turn in found:
        if isinstance(turn, Turn):
            await cases.end(ending(turn))
    await admitted(cases, wish(identities[0], "ancora", "v", address="192.0.2.99", capacity=4))


async def test_no_credit_goes_before_a_full_address(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    assert await cases.admit(wish(identity, daily_limit=0, address_limit=0)) == "credits"
    assert await cases.admit(wish(identity, address_limit=0)) == "address"
    assert await cases.admit(wish(identity, capacity=0)) == "capacity"
    assert await cases.admit(wish(identity + 1)) == "gone"
    assert await count(database, schema.dilem_cases) == 0


async def test_a_dead_turn_lets_go_when_its_lease_ends(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    await admitted(cases, wish(identity, lease_seconds=0.4))
    assert await cases.admit(wish(identity, holder="t2")) == "in_progress"
    await asyncio.sleep(0.5)
    second = await admitted(cases, wish(identity, holder="t2", daily_limit=0, address_limit=0))
    assert second.number == 2
    # And the dead one, come back, neither frees nor undoes what is another's now.
    await cases.end(Ending(identity=identity, case_id="caso", holder="t1", at=NOW))
    await cases.end(Ending(identity=identity, case_id="caso", holder="t1", at=NOW, undone=True))
    assert await cases.admit(wish(identity, holder="t3")) == "in_progress"


async def test_later_turns_need_no_credit_and_are_counted(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    for number in range(1, 4):
        turn = await admitted(
            cases, wish(identity, holder=f"t{number}", daily_limit=1, address_limit=1, turn_limit=3)
        )
        assert turn.number == number
        assert await cases.end(ending(turn))
    assert await cases.admit(wish(identity, holder="t4", turn_limit=3)) == "turn_limit"
    assert (await cases.state(identity, "caso", TODAY)).used == 1
    assert await count(database, schema.dilem_exchanges) == 3


async def test_an_admission_is_undone(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    first = await admitted(cases, wish(identity, address_limit=1))
    undone = ending(first, undone=True)
    assert await cases.end(undone)
    assert await cases.end(undone)
    state = await cases.state(identity, "caso", TODAY)
    assert (state.used, state.admitted) == (0, False)
    second = await admitted(cases, wish(identity, holder="t2", address_limit=1))
    await cases.end(ending(second))
    third = await admitted(cases, wish(identity, holder="t3"))
    await cases.end(ending(third, undone=True))
    fourth = await admitted(cases, wish(identity, holder="t4"))
    assert fourth.number == 2
    assert (await cases.state(identity, "caso", TODAY)).used == 1


async def test_undoing_what_was_never_admitted_is_harmless(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    await cases.end(Ending(identity=identity, case_id="caso", holder="t9", at=NOW, undone=True))
    turn = await admitted(cases, wish(identity))
    await cases.end(Ending(identity=identity, case_id="caso", holder="t9", at=NOW, undone=True))
    assert await cases.admit(wish(identity, holder="t2")) == "in_progress"
    await cases.end(ending(turn))


# --- endings --------------------------------------------------------------------------------------------------------


async def test_a_case_completes_once(database: Database) -> None:
    cases, results, identity = Cases(database), Results(database), await an_identity(database)
    turn = await admitted(cases, wish(identity))
    done = ending(turn, completes=True, result_id="0" * 32, response='{"type":"result"}')
    assert await asyncio.gather(*(cases.end(done) for _ in range(5))) == [True] * 5
    state = await cases.state(identity, "caso", TODAY)
    assert (state.completed, state.completed_by_all, state.used) == (True, 1, 1)
    assert await cases.admit(wish(identity, holder="t2")) == "completed"
    assert await results.vote_on(identity, "0" * 32, LONG_AGO) == Vote(None, None)
    assert await count(database, schema.dilem_exchanges) == 1


async def test_a_turn_that_was_overtaken_completes_nothing(database: Database) -> None:
    cases, identity = Cases(database), await an_identity(database)
    slow = await admitted(cases, wish(identity, lease_seconds=0.0))
    quick = await admitted(cases, wish(identity, holder="t2", lease_seconds=0.0))
    assert await cases.end(ending(quick, completes=True, result_id="1" * 32))
    assert not await cases.end(ending(slow, completes=True, result_id="2" * 32))
    assert (await cases.state(identity, "caso", TODAY)).completed_by_all == 1
    assert await count(database, schema.dilem_results) == 1


async def test_the_counter_is_everybodys(database: Database) -> None:
    cases = Cases(database)
    turns = [
        await admitted(cases, wish(await an_identity(database, f"i{n}"), holder=f"t{n}")) for n in range(8)
    ]
    await asyncio.gather(*(cases.end(ending(turn, completes=True)) for turn in turns))
    assert (await cases.state(turns[0].identity, None, TODAY)).completed_by_all == 8


# --- results and votes ----------------------------------------------------------------------------------------------


async def test_a_result_is_its_owners_for_thirty_days(database: Database) -> None:
    cases, results = Cases(database), Results(database)
    mine, theirs = await an_identity(database, "a"), await an_identity(database, "b")
    turn = await admitted(cases, wish(mine))
    await cases.end(ending(turn, completes=True, result_id="0" * 32))
    vote = Vote(helpful=False, reason="too_vague")
    assert not await results.vote(theirs, "0" * 32, LONG_AGO, vote)
    assert await results.vote_on(theirs, "0" * 32, LONG_AGO) is None
    assert await results.vote(mine, "0" * 32, LONG_AGO, vote)
    assert await results.vote(mine, "0" * 32, LONG_AGO, vote)
    assert await results.vote_on(mine, "0" * 32, LONG_AGO) == vote
    assert await results.vote_on(mine, "0" * 32, NOW - timedelta(microseconds=1)) == vote
    assert await results.vote_on(mine, "0" * 32, NOW) is None
    assert not await results.vote(mine, "0" * 32, NOW, vote)


# --- reports --------------------------------------------------------------------------------------------------------


def report(identity: int, request_id: str = "r", digest: bytes = b"x", at: datetime = NOW) -> Report:
    return Report(
        identity=identity,
        request_id=request_id,
        digest=digest.ljust(32),
        payload='{"message":"è così 🍋"}',
        created_at=at,
    )


async def test_a_report_is_stored_once(database: Database) -> None:
    reports, identity = Reports(database), await an_identity(database)
    found = await asyncio.gather(*(reports.add(report(identity), LONG_AGO, 5) for _ in range(8)))
    assert sorted(found) == sorted([Kept.STORED, *[Kept.REPEATED] * 7])
    assert await reports.add(report(identity, digest=b"y"), LONG_AGO, 5) is Kept.CONFLICT
    other = await an_identity(database, "b")
    assert await reports.add(report(other, digest=b"y"), LONG_AGO, 5) is Kept.STORED
    assert await reports.add(report(other + 1), LONG_AGO, 5) is Kept.GONE
    newest = await reports.newest(10)
    assert {(one.identity, one.payload) for one in newest} == {
        (identity, '{"message":"è così 🍋"}'),
        (other, '{"message":"è così 🍋"}'),
    }


async def test_so_many_reports_an_hour(database: Database) -> None:
    reports, identity = Reports(database), await an_identity(database)
    since = NOW - timedelta(hours=1)
    found = await asyncio.gather(*(reports.add(report(identity, f"r{n}"), since, 5) for n in range(9)))
    assert found.count(Kept.STORED) == 5
    assert found.count(Kept.TOO_MANY) == 4
    later = NOW + timedelta(hours=1)
    assert await reports.add(report(identity, "r10", at=later), later - timedelta(hours=1), 5) is Kept.STORED


# --- retention ------------------------------------------------------------------------------------------------------


async def test_what_is_old_is_forgotten_and_nothing_else(database: Database) -> None:
    cases, identities = Cases(database), Identities(database)
    old, new = await an_identity(database, "a"), await an_identity(database, "b")
    for identity, at in ((old, NOW - timedelta(days=31)), (new, NOW)):
        turn = await admitted(cases, wish(identity, now=at, day=at.date(), holder=f"t{identity}"))
        await cases.end(ending(turn, completes=True, result_id=f"{identity:032x}", at=at))
        await Reports(database).add(report(identity, at=at), LONG_AGO, 5)
    month = NOW - timedelta(days=30)
    await identities.forget_texts(month, month, NOW - timedelta(days=20))
    for table in (schema.dilem_exchanges, schema.dilem_results, schema.dilem_reports, schema.dilem_rates):
        assert await count(database, table) == 1, table.name
    # The case is remembered: it is still completed.
    assert await cases.admit(wish(old, holder="t9")) == "completed"
    async with database.begin() as connection:
        table = schema.dilem_identities
        await connection.execute(update(table).where(table.c.id == old).values(expires_at=NOW))
    assert await identities.forget_expired(NOW - timedelta(seconds=1)) == 0
    assert await identities.forget_expired(NOW) == 1
    assert await cases.admit(wish(old, holder="t9")) == "gone"
    assert await count(database, schema.dilem_cases) == 1
    # The end of a turn whose identity is gone is passed over.
    gone = Turn(identity=old, case_id="caso", holder="t9", number=2)
    assert await cases.end(ending(gone, completes=True))
    assert msgspec.structs.asdict(await cases.state(new, None, TODAY))["completed_by_all"] == 2
