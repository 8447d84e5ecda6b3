"""Plain rows go to the database at one go, and are kept as the longer way would keep them, whatever is in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from pymysql.constants import COMMAND
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.domain.calls import Attempt, CallRecord, Outcome
from gateway.domain.usage import UnitPrice, Usage
from gateway.storage import engines, schema
from gateway.storage.calls import Calls, LedgerEntry
from gateway.storage.database import Database, HeldConnection
from gateway.storage.prepared import PreparedInsert
from tests.unit.storage.stores import KINDS, TODAY, Place, entry, opened, place_of, record


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


@pytest.fixture
async def mysql(mysql_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(Place(tmp_path, mysql_url)) as database:
        yield database


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[HeldConnection]:
    """Grows with each transaction that takes the longer way."""
    begin, taken = HeldConnection.begin, []

    def counted(held: HeldConnection) -> AbstractAsyncContextManager[AsyncConnection]:
        taken.append(held)
        return begin(held)

    monkeypatch.setattr(HeldConnection, "begin", counted)
    return taken


async def ids(database: Database) -> set[str]:
    async with database.connect() as connection:
        return set(await connection.scalars(select(schema.calls.c.request_id)))


async def as_kept(database: Database) -> dict[str, Sequence[object]]:
    """The rows as the driver gives them, whatever types the columns have in the program."""
    async with database.connect() as connection:
        rows = await connection.exec_driver_sql("SELECT * FROM calls")
        return {row[0]: row[1:] for row in rows}


HOSTILE = [
    "",
    "'",
    "\\",
    "\\'",
    '"`',
    "\0\x1a\r\n\t\x7f",
    "'; COMMIT; --",
    "''); /*",
    "%s %% ? :a",
    "é€😀\u2028",
    "/*!99999 x*/#",
]


def odd(request_id: str, text: str, number: int) -> LedgerEntry:
    """A row whose every column is a trap."""
    price = UnitPrice(
        input=Decimal("0.1"), output=Decimal("1e-3"), cache_read=Decimal(0), cache_write=Decimal(2)
    )
    attempt = Attempt(provider=text, model=text * 9, outcome=text, usage=Usage(number), cost=-1, prices=price)
    zone = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2026, 3, 1, 3, 4, 5, 0 if number % 2 else 999_999, tzinfo=zone if number % 3 else UTC)
    return LedgerEntry(
        record=CallRecord(
            request_id=request_id,
            project=f"p{text}",
            day=TODAY - timedelta(days=number),
            started_at=moment,
            recipe=text,
            recipe_version=number,
            outcome=list(Outcome)[number % len(Outcome)],
            key_id=None if number % 2 else 2**62,
            by=None if number % 3 else text,
            brain=text,
            provider=text,
            model=text,
            fault=None if number % 2 else text,
            usage=Usage(2**40 + number, 0, number, 2**62, number),
            cost=number - 5,
            attempts=(attempt,) * (number % 3),
            fallback=None if number % 3 else text,
            truncated=bool(number % 2),
            duration_ms=number,
            provider_ms=-number,
            batch=None if number % 2 else text,
        )
    )


def odd_rows(name: str) -> list[LedgerEntry]:
    return [odd(f"{name}-{number}", text, number) for number, text in enumerate(HOSTILE)]


async def both_ways_write_the_same(database: Database, calls: Calls, long_way: list[HeldConnection]) -> None:
    long_way.clear()
    assert await calls.commit(odd_rows("quick")) == len(HOSTILE)
    assert not long_way
    assert await calls.commit(odd_rows("long"), again=True) == len(HOSTILE)
    assert len(long_way) == 1
    kept = await as_kept(database)
    assert len(kept) == 2 * len(HOSTILE)
    for number, each in enumerate(odd_rows("quick")):
        assert kept[f"quick-{number}"] == kept[f"long-{number}"]
        assert await calls.find_call(each.record.project, f"quick-{number}") == each.record
        assert await calls.spent(each.record.project, each.record.day) == 2 * each.record.cost


async def test_both_ways_write_the_same(database: Database, long_way: list[HeldConnection]) -> None:
    calls = Calls(database)
    await both_ways_write_the_same(database, calls, long_way)
    await calls.close()


async def test_without_backslashes_too(mysql: Database, long_way: list[HeldConnection]) -> None:
    calls = Calls(mysql)
    async with calls._held.begin() as connection:
        await connection.execute(text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')"))
    await both_ways_write_the_same(mysql, calls, long_way)
    async with calls._held.begin() as connection:  # it is still that connection
        assert "NO_BACKSLASH" in str(await connection.scalar(text("SELECT @@sql_mode")))
    await calls.close()


async def test_too_much_for_one_packet(
    mysql: Database, long_way: list[HeldConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "MYSQL_SCRIPT_BYTES", 100)
    calls = Calls(mysql)
    await both_ways_write_the_same(mysql, calls, long_way)
    await calls.close()


async def test_a_server_that_takes_one_statement_at_a_time(
    mysql: Database, long_way: list[HeldConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COMMAND, "COM_SET_OPTION", 0x63)  # a command that there is not
    calls = Calls(mysql)
    await both_ways_write_the_same(mysql, calls, long_way)
    await calls.close()


@pytest.mark.parametrize("size", [40_000, 2_000_000])
async def test_long_attempts(database: Database, long_way: list[HeldConnection], size: int) -> None:
    calls = Calls(database)
    attempt = Attempt(provider="x" * size, model="'" * 100, outcome="ok")
    rows = [
        LedgerEntry(record=msgspec.structs.replace(record(f"r-{number}", cost=1), attempts=(attempt,)))
        for number in range(3)
    ]
    assert await calls.commit(rows) == 3
    assert not long_way
    assert await calls.find_call("alfa", "r-2") == rows[2].record
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


async def test_a_row_that_nobody_can_write(database: Database) -> None:
    calls = Calls(database)
    lone = msgspec.structs.replace(record("bad"), brain="\ud800")
    with pytest.raises((UnicodeEncodeError, DBAPIError)):
        await calls.commit([entry("good"), LedgerEntry(record=lone)])
    zoneless = msgspec.structs.replace(record("bad"), started_at=datetime(2026, 1, 1))  # noqa: DTZ001 - the fault
    with pytest.raises((ValueError, DBAPIError)):
        await calls.commit([entry("good"), LedgerEntry(record=zoneless)])
    assert await ids(database) == set()
    assert await calls.commit([entry("good", cost=3)]) == 1
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


def test_only_inserts_of_whole_rows_are_prepared(tmp_path: Path) -> None:
    database = Database.open(Place(tmp_path))
    statement = insert(schema.spending).values(settled=schema.spending.c.batches)
    with pytest.raises(ValueError, match="no plain insert"):
        PreparedInsert(statement, database.engine.dialect)
