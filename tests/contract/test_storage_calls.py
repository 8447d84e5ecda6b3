"""The ledger, spending and reservations, on both databases."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import func, select, update

from gateway.domain.calls import Attempt, CallRecord, Outcome
from gateway.domain.usage import UnitPrice, Usage
from gateway.storage import schema
from gateway.storage.calls import Calls, LedgerEntry
from gateway.storage.columns import database_now
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.reservations import Held, Reservation, Reserved, Spent
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import (
    ANNA,
    KINDS,
    NOW,
    TODAY,
    entry,
    opened,
    pair,
    place_of,
    project,
    record,
)


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


@pytest.fixture
async def calls(database: Database) -> AsyncIterator[Calls]:
    calls = Calls(database)
    yield calls
    await calls.close()


def held(request_id: str, amount: int = 10, name: str = "alfa") -> Reservation:
    return Reservation(
        project=name, day=TODAY, request_id=request_id, amount=amount, record=b"\x00\xffch\xc3\xa9"
    )


async def reserved(database: Database, name: str = "alfa") -> int:
    table = schema.spending
    async with database.connect() as connection:
        total = await connection.scalar(select(table.c.reserved).where(table.c.project == name))
        return int(total or 0)


async def leases_pass(database: Database) -> None:
    async with database.begin() as connection:
        await connection.execute(update(schema.reservations).values(lease_until=database_now(-1)))


# --- the ledger ---------------------------------------------------------------------------------------------------


async def test_a_row_is_read_as_it_was_written(calls: Calls) -> None:
    price = UnitPrice(
        above_input_tokens=272_000,
        input=Decimal("0.1"),
        output=Decimal("1e-3"),
        cache_read=Decimal(0),
        cache_write=Decimal(2),
    )
    full = CallRecord(
        request_id="r-1",
        project="alfa",
        day=TODAY,
        started_at=NOW,
        recipe="riassumi",
        recipe_version=3,
        outcome=Outcome.LOST,
        by="dilem",
        brain="Pepper 7",
        provider="claude",
        model="claude-opus-5-5",
        fault="errore_ai",
        usage=Usage(2**40, 2, 3, 4, 5),
        cost=2**50,
        attempts=(
            Attempt(provider="claude", model="x", outcome="guasto", duration_ms=5),
            Attempt(
                provider="claude",
                model="y",
                outcome="ok",
                usage=Usage(1),
                cost=3,
                prices=price,
                duration_ms=9,
            ),
        ),
        fallback="pepper:Pepper 6 · OpenAI",
        truncated=True,
        duration_ms=300_000,
        provider_ms=299_000,
    )
    plain = record("r-2")
    await calls.commit([msgspec.structs.replace(entry("x"), record=full), entry("r-2")])
    assert await calls.find_call("alfa", "r-1") == full
    assert await calls.find_call("alfa", "r-2") == plain
    assert await calls.find_call("beta", "r-1") is None
    assert await calls.find_call("alfa", "r-3") is None


async def test_the_newest_rows_come_first(calls: Calls) -> None:
    rows = [record(f"r-{number}", at=NOW + timedelta(seconds=number)) for number in range(5)]
    foreign = record("f", "beta", at=NOW + timedelta(minutes=1))
    await calls.commit([msgspec.structs.replace(entry("x"), record=row) for row in (*rows, foreign)])
    assert [row.request_id for row in await calls.recent_calls("alfa", 3)] == ["r-4", "r-3", "r-2"]
    assert [row.request_id for row in await calls.recent_calls(limit=2)] == ["f", "r-4"]


async def test_spending_is_the_sum_of_the_rows(calls: Calls) -> None:
    yesterday = TODAY - timedelta(days=1)
    old = msgspec.structs.replace(entry("old"), record=record("old", cost=7, day=yesterday))
    assert await calls.commit([entry("a", cost=1), entry("b", cost=2), entry("c", "beta", 4), old]) == 4
    assert await calls.commit([entry("d", cost=8)]) == 1
    assert await calls.commit([]) == 0
    assert await calls.spent("alfa", TODAY) == 11
    keys = [("alfa", TODAY), ("alfa", yesterday), ("beta", TODAY), ("gamma", TODAY)]
    assert await calls.spent_many(keys) == dict(zip(keys, (11, 7, 4, 0), strict=True))
    assert await calls.spent_many([]) == {}


@pytest.mark.parametrize("again", [True, False])
async def test_a_repeated_commit_counts_once(calls: Calls, database: Database, *, again: bool) -> None:
    await Tenants(database).add_project(project(), ANNA)
    first = [entry("a", cost=1, pair=pair("a")), entry("b", cost=2)]
    assert await calls.commit(first) == 2
    assert await calls.commit([*first, entry("c", cost=4), entry("c", cost=4)], again=again) == 1
    assert await calls.spent("alfa", TODAY) == 7
    history = await Conversations(database).history("alfa", "cnv_1", NOW, 1000)
    assert history is not None
    assert len(history) == 1


async def test_the_pair_is_written_with_the_row(calls: Calls, database: Database) -> None:
    await Tenants(database).add_project(project(), ANNA)
    await calls.commit([entry("a", pair=pair("a")), entry("b", pair=pair("b", question="E poi?"))])
    history = await Conversations(database).history("alfa", "cnv_1", NOW, 1000)
    assert history is not None
    assert [(each.number, each.question) for each in history] == [(1, "Perché?"), (2, "E poi?")]


async def test_concurrent_commits_lose_nothing(calls: Calls, database: Database) -> None:
    others = [Calls(database) for _ in range(4)]
    names = ["alfa", "beta", "gamma"]

    async def write(calls: Calls, who: int) -> None:
        for number in range(20):
            turned = names[who % 3 :] + names[: who % 3]
            await calls.commit([entry(f"{who}-{number}-{name}", name, 1) for name in turned])

    await asyncio.gather(*(write(each, who) for who, each in enumerate([calls, *others])))
    assert list((await calls.spent_many([(name, TODAY) for name in names])).values()) == [100] * 3
    async with database.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(schema.calls)) == 300
    for each in others:
        await each.close()


async def test_the_same_entries_from_several_importers_count_once(database: Database) -> None:
    importers = [Calls(database) for _ in range(4)]
    entries = [entry(f"r-{number}", cost=3) for number in range(50)]
    written = await asyncio.gather(*(each.commit(entries, again=True) for each in importers))
    assert sorted(written) == [0, 0, 0, 50]
    assert await importers[0].spent("alfa", TODAY) == 150
    for each in importers:
        await each.close()


# --- reservations -------------------------------------------------------------------------------------------------


async def test_what_fits_is_reserved(calls: Calls, database: Database) -> None:
    await calls.commit([entry("a", cost=40)])
    assert await calls.reserve(held("b", 50), 100) == Reserved()
    assert await calls.reserve(held("c", 11), 100) == Held()
    assert await calls.reserve(held("d", 10), 100) == Reserved()
    assert await calls.reserve(held("e", 1), 100) == Held()
    assert await reserved(database) == 60
    assert await calls.reserve(held("f", 1000, "beta"), None) == Reserved()
    assert await calls.spent("alfa", TODAY) == 40


async def test_a_call_alone_may_pass_the_cap_but_not_begin_beyond_it(calls: Calls) -> None:
    assert await calls.reserve(held("a", 1000), 100) == Reserved()
    assert await calls.reserve(held("b", 1), 100) == Held()
    await calls.commit([entry("a", cost=100, reserved_in_database=True)])
    assert await calls.reserve(held("b", 0), 100) == Spent()
    assert await calls.reserve(held("c", 0, "beta"), 0) == Spent()
    assert await calls.reserve(held("d", 5, "gamma"), 4) == Reserved()


async def test_strictly_even_a_call_alone_has_to_fit(calls: Calls, database: Database) -> None:
    assert await calls.reserve(held("a", 101), 100, strict=True) == Held()
    assert await calls.reserve(held("a", 0), 0, strict=True) == Spent()
    assert await reserved(database) == 0
    verdicts = await asyncio.gather(
        *(calls.reserve(held(f"r-{number}", 30), 100, strict=True) for number in range(20))
    )
    assert Counter(type(each) for each in verdicts) == {Reserved: 3, Held: 17}
    assert await reserved(database) == 90


async def test_reserving_twice_is_reserving_once(calls: Calls, database: Database) -> None:
    assert await calls.reserve(held("a", 60), 100) == Reserved()
    assert await calls.reserve(held("a", 60), 100) == Reserved()
    assert await reserved(database) == 60


@pytest.mark.parametrize("cap", [95, 100, 7])
async def test_fifty_at_once_never_pass_the_cap(calls: Calls, database: Database, cap: int) -> None:
    verdicts = await asyncio.gather(*(calls.reserve(held(f"r-{number}", 10), cap) for number in range(50)))
    admitted = max(cap // 10, 1)
    assert Counter(type(each) for each in verdicts) == {Reserved: admitted, Held: 50 - admitted}
    assert await reserved(database) == 10 * admitted


async def test_settling_moves_the_reserved_to_the_spent(calls: Calls, database: Database) -> None:
    await calls.reserve(held("a", 60), 100)
    await calls.reserve(held("b", 30), 100)
    await calls.commit([entry("a", cost=5, reserved_in_database=True)])
    assert (await calls.spent("alfa", TODAY), await reserved(database)) == (5, 30)
    await calls.commit([entry("a", cost=5, reserved_in_database=True)], again=True)
    assert (await calls.spent("alfa", TODAY), await reserved(database)) == (5, 30)
    await calls.commit([entry("never held", cost=1, reserved_in_database=True)])
    assert (await calls.spent("alfa", TODAY), await reserved(database)) == (6, 30)


async def test_what_spent_nothing_is_let_go(calls: Calls, database: Database) -> None:
    await calls.reserve(held("a", 60), 100)
    await calls.release_reservations("beta", ["a"])
    assert await reserved(database) == 60
    await calls.release_reservations("alfa", ["a", "unknown"])
    await calls.release_reservations("alfa", ["a"])
    await calls.release_reservations("alfa", [])
    assert await reserved(database) == 0
    assert await calls.reserve(held("b", 100), 100) == Reserved()


async def test_renewing_writes_what_is_missing_whatever_the_cap(calls: Calls, database: Database) -> None:
    await calls.reserve(held("a", 60), 100)
    await calls.commit([entry("done", cost=1)])
    living = [held("a", 60), held("b", 70), held("done", 80), held("c", 5, "beta")]
    await calls.renew_reservations(living)
    await calls.renew_reservations(living)
    await calls.renew_reservations([])
    assert await reserved(database) == 130
    assert await reserved(database, "beta") == 5
    assert await calls.orphan_reservations() == ()


async def test_an_orphan_is_handed_to_one_asker(calls: Calls, database: Database) -> None:
    for number in range(6):
        await calls.reserve(held(f"r-{number}", 10), None)
    assert await calls.orphan_reservations() == ()
    await leases_pass(database)
    await calls.renew_reservations([held("r-5", 10)])
    taken = await asyncio.gather(*(calls.orphan_reservations(2) for _ in range(5)))
    assert sorted(each.request_id for part in taken for each in part) == [
        f"r-{number}" for number in range(5)
    ]
    assert taken[0][0] == held(taken[0][0].request_id)
    await calls.commit([entry("r-0", cost=3, reserved_in_database=True)])
    assert (await calls.spent("alfa", TODAY), await reserved(database)) == (3, 50)


async def test_two_who_settle_the_same_orphan_release_it_once(database: Database) -> None:
    settlers = [Calls(database) for _ in range(4)]
    await settlers[0].reserve(held("a", 10), None)
    await settlers[0].reserve(held("b", 10), None)
    await asyncio.gather(*(each.commit([entry("a", cost=2, reserved_in_database=True)]) for each in settlers))
    assert (await settlers[0].spent("alfa", TODAY), await reserved(database)) == (2, 10)
    for each in settlers:
        await each.close()


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(chr, range(1, 128))),
        "\\",
        "'",
        "\\'",
        "'; DROP TABLE calls; --",
        '"\\"',
        "%s %(a)s %%",
        "\0",
        "àé€😀\u2028",
    ],
)
async def test_any_text_comes_back_as_it_was_written(calls: Calls, text: str) -> None:
    written = msgspec.structs.replace(record("req_odd"), brain=text[:100], model=text[-100:])
    assert await calls.commit([LedgerEntry(record=written)]) == 1
    assert await calls.find_call("alfa", "req_odd") == written
