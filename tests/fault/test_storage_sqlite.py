"""The SQLite file is locked, broken, unwritable or left in the middle: told in time, healed by itself."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from gateway.domain.errors import StoreAwayError
from gateway.storage.calls import Calls
from gateway.storage.configuration import read_revision
from gateway.storage.database import Database
from tests.unit.storage.stores import TODAY, Place, entry, opened

AWAY_SECONDS = 6.0


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(Place(tmp_path)) as database:
        yield database


async def test_the_file_is_durable_and_shared(database: Database) -> None:
    async with database.connect() as connection:
        told = [
            await connection.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    assert told == ["wal", 2, 1, 250]
    assert database.file is not None
    assert database.file.name == "pepper.db"


async def test_an_absolute_path(tmp_path: Path) -> None:
    async with opened(Place(tmp_path / "unused", f"sqlite:///{tmp_path}/altro.db")) as database:
        assert (await read_revision(database)).revision == 1
    assert (tmp_path / "altro.db").exists()
    assert not (tmp_path / "unused").exists()


async def test_a_lock_that_lasts_is_away_in_time_for_writers_only(database: Database) -> None:
    calls = Calls(database)
    other = sqlite3.connect(database.file or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()

    async def fails(number: int) -> None:
        with pytest.raises(StoreAwayError):
            await calls.commit([entry(f"r-{number}", cost=1)])

    await asyncio.gather(*(fails(number) for number in range(5)))
    assert time.monotonic() - started < AWAY_SECONDS
    started = time.monotonic()
    assert (await read_revision(database)).revision == 1
    assert time.monotonic() - started < 1
    other.execute("ROLLBACK")
    other.close()
    await calls.commit([entry("a", cost=1)])
    assert await calls.spent("alfa", TODAY) == 1
    await calls.close()


async def test_a_cancelled_transaction_is_undone_and_harms_nobody(database: Database) -> None:
    async def counts() -> None:
        async with database.begin() as connection:
            await connection.execute(text("UPDATE installation SET revision = 99"))
            await connection.execute(
                text(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT sum(i) FROM n"
                )
            )
            await asyncio.sleep(10)

    for wait in (0, 0.001, 0.005, 0.02, 0.05, 0.2) * 3:
        task = asyncio.create_task(counts())
        await asyncio.sleep(wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    started = time.monotonic()
    calls = Calls(database)
    await calls.commit([entry("a", cost=1)])
    assert time.monotonic() - started < 2
    assert (await read_revision(database)).revision == 1
    await calls.close()


async def test_a_transaction_that_never_ends_is_given_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.storage.database.TRANSACTION_SECONDS", 0.2)

    async def never_ends() -> None:
        async with database.begin() as connection:
            await connection.execute(text("UPDATE installation SET revision = 99"))
            await asyncio.sleep(10)

    async def fails_of_itself() -> None:
        async with database.begin():
            raise TimeoutError

    with pytest.raises(StoreAwayError):
        await never_ends()
    assert (await read_revision(database)).revision == 1
    with pytest.raises(TimeoutError):
        await fails_of_itself()


async def test_a_broken_file_is_away(tmp_path: Path) -> None:
    (tmp_path / "pepper.db").write_bytes(b"this is no database, whatever its name says" * 100)
    database = Database.open(Place(tmp_path))
    with pytest.raises(StoreAwayError):
        await read_revision(database)
    await database.close()


async def test_a_missing_folder_is_away(tmp_path: Path) -> None:
    database = Database.open(Place(tmp_path, f"sqlite:///{tmp_path}/none/pepper.db"))
    with pytest.raises(StoreAwayError):
        await database.ping()
    await database.close()
