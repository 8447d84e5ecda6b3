"""Plain rows go to the database at one go: all of them or none, once, whatever comes between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import aiomysql
import msgspec
import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from gateway.domain.errors import StoreAwayError
from gateway.storage import engines, schema
from gateway.storage.calls import Calls, LedgerEntry, ledger_row
from gateway.storage.database import Database, HeldConnection
from gateway.storage.outages import DeadlockError, LostError
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
def failed(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What came of writes at one go that failed."""
    write, errors = HeldConnection.write, []

    async def watched(held: HeldConnection, writes: Any) -> None:
        try:
            await write(held, writes)
        except BaseException as error:
            errors.append(error)
            raise

    monkeypatch.setattr(HeldConnection, "write", watched)
    return errors


async def ids(database: Database) -> set[str]:
    async with database.connect() as connection:
        return set(await connection.scalars(select(schema.calls.c.request_id)))


# --- all or nothing, and once ---------------------------------------------------------------------------------------


async def test_what_is_there_is_found_the_longer_way(database: Database, failed: list[BaseException]) -> None:
    calls = Calls(database)
    assert await calls.commit([entry("a", cost=1), entry("b", cost=2)]) == 2
    assert not failed
    assert await calls.commit([entry("c", cost=4), entry("b", cost=2), entry("d", cost=8)]) == 2
    assert [type(error) for error in failed] == [IntegrityError]
    assert await calls.commit([entry("e", cost=16)]) == 1
    assert len(failed) == 1
    assert await calls.spent("alfa", TODAY) == 31
    await calls.close()


async def test_a_fault_in_the_second_statement_leaves_nothing(database: Database) -> None:
    calls = Calls(database)
    await calls.commit([entry("before", cost=1)])
    async with database.begin() as connection:
        await connection.execute(text("ALTER TABLE spending RENAME TO elsewhere"))
    for _ in range(2):
        with pytest.raises(StoreAwayError):
            await calls.commit([entry("a", cost=2)])
        assert await ids(database) == {"before"}
    async with database.begin() as connection:
        await connection.execute(text("ALTER TABLE elsewhere RENAME TO spending"))
    assert await calls.commit([entry("a", cost=2)]) == 1
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


async def test_a_value_that_does_not_fit_leaves_nothing(mysql: Database) -> None:
    calls = Calls(mysql)
    for wrong in (
        msgspec.structs.replace(record("bad"), recipe="x" * 129),
        record("bad", cost=2**63),
    ):
        with pytest.raises(DBAPIError):
            await calls.commit([entry("good"), LedgerEntry(record=wrong)])
        assert await ids(mysql) == set()
    assert await calls.commit([entry("edge", cost=2**63 - 1)]) == 1
    with pytest.raises(DBAPIError):  # the row fits, the sum does not
        await calls.commit([entry("over", cost=1)])
    assert await ids(mysql) == {"edge"}
    await calls.close()


async def test_many_writers_of_one_sum(database: Database) -> None:
    async def write(who: int) -> None:
        calls = Calls(database)
        for number in range(15):
            await calls.commit([entry(f"{who}-{number}-{name}", name, 1) for name in ("beta", "alfa", "alf")])
        await calls.close()

    await asyncio.gather(*(write(who) for who in range(5)))
    async with database.connect() as connection:
        table = schema.spending
        rows = await connection.execute(
            select(table.c.project, table.c.settled, table.c.reserved, table.c.batches)
        )
        assert sorted(map(tuple, rows)) == [("alf", 75, 0, 0), ("alfa", 75, 0, 0), ("beta", 75, 0, 0)]
    assert len(await ids(database)) == 225


# --- held up, lost, cancelled ---------------------------------------------------------------------------------------


async def test_a_lock_that_lasts_is_away_in_time(mysql: Database, failed: list[BaseException]) -> None:
    calls = Calls(mysql)
    await calls.commit([entry("before", cost=1)])
    async with mysql.begin() as connection:
        await connection.execute(select(schema.spending).with_for_update())
        started = time.monotonic()
        with pytest.raises(StoreAwayError):
            await calls.commit([entry("a", cost=2)])
        assert time.monotonic() - started < 5
    assert len(failed) == 1
    assert await ids(mysql) == {"before"}
    assert await calls.commit([entry("a", cost=2)], again=True) == 1
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


async def test_a_deadlock_is_tried_again(mysql: Database, failed: list[BaseException]) -> None:
    calls = Calls(mysql)
    await calls.commit([entry("before", cost=1)])
    async with mysql.begin() as connection:
        # So much has this one done that the other is chosen to yield.
        rows = [ledger_row(record(f"f-{number}")) for number in range(50)]
        await connection.execute(insert(schema.calls), rows)
        await connection.execute(select(schema.spending).with_for_update())
        task = asyncio.create_task(calls.commit([entry("a", cost=2)]))
        await asyncio.sleep(0.3)
        locked = select(schema.calls).where(schema.calls.c.request_id == "a").with_for_update()
        await connection.execute(locked)
        await asyncio.sleep(0.1)
    assert await task == 1
    assert [type(error) for error in failed] == [DeadlockError]
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


async def test_a_connection_killed_between_two_commits_is_not_noticed(
    mysql: Database, failed: list[BaseException]
) -> None:
    calls = Calls(mysql)
    await calls.commit([entry("before", cost=1)])
    await _kill(mysql, await _connection_id(calls))
    assert await calls.commit([entry("a", cost=2)]) == 1
    assert not failed
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


async def test_a_connection_killed_in_the_middle_is_looked_after(
    mysql: Database, failed: list[BaseException]
) -> None:
    calls = Calls(mysql)
    await calls.commit([entry("before", cost=1)])
    number = await _connection_id(calls)
    async with mysql.begin() as connection:
        await connection.execute(select(schema.spending).with_for_update())
        task = asyncio.create_task(calls.commit([entry("a", cost=2)]))
        await asyncio.sleep(0.2)
        await _kill(mysql, number)
    assert await task == 1
    assert [type(error) for error in failed] == [LostError]
    assert await calls.spent("alfa", TODAY) == 3
    await calls.close()


async def test_a_commit_whose_answer_is_lost_counts_once(
    mysql: Database, failed: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = engines._Connection._carry_out

    async def lost(connection: Any, script: bytes) -> NoReturn:
        await carry_out(connection, script)
        connection.close()
        raise aiomysql.OperationalError(2013, "lost")

    calls = Calls(mysql)
    with monkeypatch.context() as patch:
        patch.setattr(engines._Connection, "_carry_out", lost)
        assert await calls.commit([entry("a", cost=2)]) == 0
    assert [type(error) for error in failed] == [LostError]
    assert await calls.commit([entry("b", cost=4)]) == 1
    assert await calls.spent("alfa", TODAY) == 6
    await calls.close()


async def test_cancelled_at_any_moment_it_harms_nobody(database: Database) -> None:
    calls = Calls(database)
    for number in range(60):
        task = asyncio.create_task(calls.commit([entry(f"c-{number}", cost=1)]))
        await asyncio.sleep(number % 20 * 0.0002)
        task.cancel()
        await asyncio.wait([task])
        # Nothing that the next one writes may ride on what the last one left open.
        assert await calls.commit([entry(f"n-{number}", cost=1)]) == 1
        await calls.commit([entry(f"c-{number}", cost=1)], again=True)
    assert await calls.spent("alfa", TODAY) == 120
    assert len(await ids(database)) == 120
    await calls.close()


async def test_cancelled_while_it_waits_for_a_lock(database: Database) -> None:
    calls = Calls(database)
    await calls.commit([entry("before", cost=1)])
    async with database.engine.begin() as connection:  # another process: not in this one's turn
        await connection.execute(text("UPDATE spending SET reserved = 0"))
        task = asyncio.create_task(calls.commit([entry("a", cost=2)]))
        await asyncio.sleep(0.4)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - started < 1
    assert await calls.commit([entry("b", cost=4)]) == 1
    await calls.commit([entry("a", cost=2)], again=True)
    assert await calls.spent("alfa", TODAY) == 7
    await calls.close()


# --- connections and statements -------------------------------------------------------------------------------------


async def test_no_pooled_connection_takes_several_statements(mysql: Database) -> None:
    calls = Calls(mysql)
    await calls.commit([entry("a")])
    with pytest.raises(DBAPIError):
        await calls.commit([LedgerEntry(record=msgspec.structs.replace(record("bad"), recipe="x" * 129))])
    await calls.commit([entry("b")])
    await calls.close()

    async def refuses() -> None:
        async with mysql.connect() as connection:
            with pytest.raises(DBAPIError):
                await connection.exec_driver_sql("SELECT 1; SELECT 2")
            await asyncio.sleep(0.05)

    await asyncio.gather(*(refuses() for _ in range(10)))


async def _connection_id(calls: Calls) -> int:
    async with calls._held.begin() as connection:
        return int(await connection.scalar(text("SELECT CONNECTION_ID()")) or 0)


async def _kill(database: Database, number: int) -> None:
    async with database.engine.connect() as connection:
        await connection.execute(text(f"KILL {number}"))
    await asyncio.sleep(0.1)
