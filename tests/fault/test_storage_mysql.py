"""MySQL goes and comes back: told quickly, healed without anybody's help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.domain.errors import StoreAwayError
from gateway.storage.calls import Calls
from gateway.storage.configuration import read_revision
from gateway.storage.database import Database
from gateway.storage.migrate import SchemaState, schema_state
from gateway.storage.reservations import Reservation, Reserved
from tests.services import MariaDb
from tests.unit.storage.stores import TODAY, Place, entry, opened

AWAY_SECONDS = 6.0


@pytest.fixture
async def database(mysql_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(Place(tmp_path, mysql_url)) as database:
        yield database


@pytest.fixture
async def calls(database: Database) -> AsyncIterator[Calls]:
    calls = Calls(database)
    yield calls
    await calls.close()


def held(request_id: str) -> Reservation:
    return Reservation(project="alfa", day=TODAY, request_id=request_id, amount=1, record=b"")


async def warm(database: Database, calls: Calls) -> None:
    """Fill the pool and the held connection."""
    await asyncio.gather(*(read_revision(database) for _ in range(6)))
    await calls.commit([entry("warm", cost=1)])


async def test_a_restart_between_two_uses_is_not_noticed(
    mariadb: MariaDb, database: Database, calls: Calls
) -> None:
    await warm(database, calls)
    for way in (mariadb.stop, mariadb.kill):
        await asyncio.to_thread(way)
        await asyncio.to_thread(mariadb.start)
        await asyncio.gather(*(read_revision(database) for _ in range(6)))
        await calls.commit([entry(way.__name__, cost=1)])
        assert await calls.reserve(held(way.__name__), None) == Reserved()
    assert await calls.spent("alfa", TODAY) == 3


async def test_a_stopped_server_is_away_at_once_and_back_at_once(
    mariadb: MariaDb, database: Database, calls: Calls
) -> None:
    await warm(database, calls)
    await asyncio.to_thread(mariadb.stop)
    started = time.monotonic()
    for _ in range(3):
        with pytest.raises(StoreAwayError):
            await read_revision(database)
        with pytest.raises(StoreAwayError):
            await calls.commit([entry("a", cost=1)])
        with pytest.raises(StoreAwayError):
            await calls.reserve(held("a"), None)
        with pytest.raises(StoreAwayError):
            await database.ping()
        with pytest.raises(StoreAwayError):
            await schema_state(database)
    assert time.monotonic() - started < 2
    await asyncio.to_thread(mariadb.start)
    await database.ping()
    await calls.commit([entry("a", cost=1)], again=True)
    assert await calls.spent("alfa", TODAY) == 2
    assert await schema_state(database) is SchemaState.CURRENT


async def test_a_frozen_server_is_away_in_time(mariadb: MariaDb, database: Database, calls: Calls) -> None:
    await warm(database, calls)

    async def ask(number: int) -> None:
        if number % 3 == 0:
            await calls.commit([entry(f"f-{number}", cost=1)])
        elif number % 3 == 1:
            await read_revision(database)
        else:
            await calls.reserve(held(f"f-{number}"), 1)

    mariadb.freeze()
    try:

        async def fails(number: int) -> float:
            started = time.monotonic()
            with pytest.raises(StoreAwayError):
                await ask(number)
            return time.monotonic() - started

        assert max(await asyncio.gather(*(fails(number) for number in range(60)))) < AWAY_SECONDS
    finally:
        mariadb.thaw()
    started = time.monotonic()
    await database.ping()
    # What was under way when the server froze may have been carried out since, or not: repeating it is harmless.
    await asyncio.sleep(0.5)
    ids = [f"f-{number}" for number in range(0, 60, 3)]
    await calls.commit([entry(each, cost=1) for each in ids], again=True)
    assert await calls.spent("alfa", TODAY) == 1 + len(ids)
    assert time.monotonic() - started < 5


async def test_work_goes_on_through_a_restart_and_counts_once(
    mariadb: MariaDb, database: Database, calls: Calls
) -> None:
    stop, one_more = asyncio.Event(), asyncio.Semaphore(0)
    written = 0

    async def write(who: int) -> None:
        nonlocal written
        number = 0
        while not stop.is_set():
            mine, again = [entry(f"{who}-{number}", cost=1)], False
            while True:
                try:
                    await calls.commit(mine, again=again)
                    break
                except StoreAwayError:
                    again = True
                    await asyncio.sleep(0.05)
            number += 1
            written += 1
            one_more.release()

    writers = [asyncio.create_task(write(who)) for who in range(4)]

    async def goes_on() -> None:
        while not one_more.locked():
            await one_more.acquire()
        for _ in range(8):
            await one_more.acquire()

    for way in (mariadb.stop, mariadb.kill):
        await goes_on()
        await asyncio.to_thread(way)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(mariadb.start)
    await goes_on()
    stop.set()
    await asyncio.gather(*writers)
    assert await calls.spent("alfa", TODAY) == written


async def test_a_cancelled_transaction_is_undone_and_harms_nobody(database: Database, calls: Calls) -> None:
    async def sleeps() -> None:
        async with database.begin() as connection:
            await connection.execute(text("UPDATE installation SET revision = 99"))
            await connection.execute(text("SELECT SLEEP(10)"))

    for _ in range(20):
        task = asyncio.create_task(sleeps())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    started = time.monotonic()
    assert (await read_revision(database)).revision == 1
    assert time.monotonic() - started < 1
    await calls.commit([entry("a", cost=1)])


async def test_a_killed_connection_before_the_commit_is_tried_again(database: Database) -> None:
    attempts = 0

    async def work(connection: AsyncConnection) -> int:
        nonlocal attempts
        attempts += 1
        mine = await connection.scalar(text("SELECT CONNECTION_ID()"))
        await connection.execute(text("UPDATE installation SET revision = revision + 1"))
        if attempts == 1:
            async with database.engine.connect() as other:
                await other.execute(text(f"KILL {mine}"))
            await asyncio.sleep(0.05)
        result = await connection.scalar(text("SELECT revision FROM installation"))
        return int(result)

    assert await database.transact(work) == 2
    assert attempts == 2
    assert (await read_revision(database)).revision == 2


async def test_a_wrong_address_is_away(mysql_url: str, tmp_path: Path, free_port: int) -> None:
    for wrong in (
        mysql_url + "x",
        mysql_url.replace("pepper:pepper", "pepper:no"),
        f"mysql://a:b@127.0.0.1:{free_port}/c",
    ):
        database = Database.open(Place(tmp_path, wrong))
        with pytest.raises(StoreAwayError):
            await database.ping()
        await database.close()


async def test_deadlocks_are_tried_again(database: Database) -> None:
    async with database.begin() as connection:
        await connection.execute(text("CREATE TABLE pair_of_rows (id INT PRIMARY KEY, n INT) ENGINE=InnoDB"))
        await connection.execute(text("INSERT INTO pair_of_rows VALUES (1, 0), (2, 0)"))

    async def cross(first: int, second: int) -> None:
        async def work(connection: AsyncConnection) -> None:
            for row in (first, second):
                await connection.execute(text(f"UPDATE pair_of_rows SET n = n + 1 WHERE id = {row}"))
                await asyncio.sleep(0.01)

        await database.transact(work)

    await asyncio.gather(*(cross(1, 2) if number % 2 else cross(2, 1) for number in range(6)))
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT n FROM pair_of_rows"))).scalars().all() == [6, 6]
