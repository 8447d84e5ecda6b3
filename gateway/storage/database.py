"""The database: connections, transactions and their bounds. Whatever fails here for want of a store is a
`StoreAwayError`, within `TRANSACTION_SECONDS`.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gateway.domain.errors import StoreAwayError
from gateway.storage.engines import DRIVER_ERRORS, READING, is_stale, make_engine, sqlite_file
from gateway.storage.outages import DeadlockError, LostError, outage
from gateway.storage.prepared import PreparedInsert

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from sqlalchemy import Insert
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from gateway.storage.prepared import Row

TRANSACTION_SECONDS = 4.5
"""A transaction (or a reading) that has not ended after so long is given up, whatever it waits for."""
TRANSACTION_ATTEMPTS = 5
"""How often `transact` runs a transaction that was undone by a deadlock."""

Result = TypeVar("Result")


class Location(Protocol):
    """Where the database is: the two settings that say so (`Settings` is one)."""

    @property
    def data(self) -> Path:
        """Folder of the SQLite file when there is no address."""
        ...

    @property
    def database_url(self) -> str | None:
        """`mysql://…` or `sqlite:////…`."""
        ...


class Database:
    """One process's way to the relational store. Made and used in one event loop; safe for concurrent tasks.

    Nothing is connected before the first use, so it can be opened while the store is away, and heals by itself.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self.engine = make_engine(location.database_url, location.data)
        self.dialect: str = self.engine.dialect.name
        """`sqlite` or `mysql` (MariaDB too)."""
        path = sqlite_file(location.database_url, location.data)
        self.file = None if path is None else Path(path)
        """The SQLite file."""
        self._busy = asyncio.Lock()

    @classmethod
    def open(cls, location: Location) -> Self:
        """Open the store; no connection is made yet.

        Raises:
            OSError: The data folder is missing and cannot be made.

        """
        return cls(location)

    async def close(self) -> None:
        """Let go of every connection."""
        await self.engine.dispose()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction to write in; it is committed when the block ends, undone when the block raises.

        Never open one inside another: on SQLite writers of a process take turns.

        Raises:
            StoreAwayError: The store did not answer; if the commit was under way, it may have been carried out.

        """
        async with bounded(), self.writing(), self.engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection to read from: nothing written through it is kept.

        Raises:
            StoreAwayError: The store did not answer.

        """
        async with bounded(), self.engine.connect() as connection:
            yield await connection.execution_options(**{READING: True})

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection whose readings all see the store at one instant.

        Raises:
            StoreAwayError: The store did not answer.

        """
        async with self.connect() as connection:
            if self.dialect == "mysql":
                # For the next transaction only, which begins with the first reading.
                await connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield connection

    async def transact(self, work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
        """Run `work` in a transaction, again when a deadlock or a lost connection undid it before the commit.

        Raises:
            StoreAwayError: The store did not answer; if the commit was under way, it may have been carried out.

        """
        return await transact(self.begin, work)

    def writing(self) -> AbstractAsyncContextManager[object]:
        """Wait for this process's turn to write: SQLite's own waiting is by chance, this one is first come, first served."""
        return self._busy if self.dialect == "sqlite" else nullcontext()

    async def ping(self) -> None:
        """Return if the store answers.

        Raises:
            StoreAwayError: It does not.

        """
        async with self.connect() as connection:
            await connection.execute(text("SELECT 1"))

    def unpooled(self) -> AsyncEngine:
        """Make an engine without pool or bounds, for migrations; whoever asks disposes of it."""
        return make_engine(self._location.database_url, self._location.data, patient=True)

    def hold(self) -> HeldConnection:
        """Give a connection that is kept between transactions, for one writer in a hurry."""
        return HeldConnection(self)


class HeldConnection:
    """A connection that stays out of the pool; transactions on it take turns. Healed as it is used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = asyncio.Lock()
        self._connected: tuple[AsyncConnection, Any] | None = None
        self._prepared: dict[Insert, PreparedInsert] = {}

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction, as `Database.begin`, without the price of the pool."""
        async with bounded(), self._turn, self._database.writing():
            connection, _ = await self._ready()
            try:
                async with connection.begin():
                    yield connection
            except BaseException:
                await self._drop()
                raise

    async def write(self, writes: Sequence[tuple[Insert, Sequence[Row]]]) -> None:
        """Insert whole rows in a transaction of their own that goes to the database at one go, past SQLAlchemy's execution.

        Raises:
            StoreAwayError: Written or not (a `LostError` too: the commit is always under way).
            DBAPIError: The database refused it; nothing was written.

        """
        async with bounded(), self._turn, self._database.writing():
            _, driver = await self._ready()
            try:
                await driver.write([self._bound(*each) for each in writes])
            except DRIVER_ERRORS as error:
                await self._drop()
                raise DBAPIError.instance(None, None, error, Exception, hide_parameters=True) from error
            except BaseException:
                await self._drop()
                raise

    async def close(self) -> None:
        """Close the connection."""
        async with self._turn:
            await self._drop()

    async def _ready(self) -> tuple[AsyncConnection, Any]:
        """Give the connection, and the driver's own below it."""
        if self._connected is not None:
            if not is_stale(self._connected[1]):
                return self._connected
            await self._drop()
        connection = await self._database.engine.connect()
        driver = (await connection.get_raw_connection()).driver_connection
        self._connected = connection, driver
        return self._connected

    def _bound(self, statement: Insert, rows: Sequence[Row]) -> tuple[PreparedInsert, Sequence[Row]]:
        prepared = self._prepared.get(statement)
        if prepared is None:  # not before there is a connection: the server's version is told by it
            prepared = PreparedInsert(statement, self._database.engine.dialect)
            self._prepared[statement] = prepared
        return prepared, prepared.bound(rows)

    async def _drop(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await asyncio.shield(_close_for_good(connected[0]))


async def _close_for_good(connection: AsyncConnection) -> None:
    # Not back into the pool: it may be in the middle of something, and takes several statements in one text.
    await connection.invalidate()
    await connection.close()


async def transact(
    begin: Callable[[], AbstractAsyncContextManager[AsyncConnection]],
    work: Callable[[AsyncConnection], Awaitable[Result]],
) -> Result:
    """Run `work` in a transaction opened by `begin`; see `Database.transact`."""
    lost = False
    for attempt in range(1, TRANSACTION_ATTEMPTS + 1):
        committing = False
        try:
            async with begin() as connection:
                result = await work(connection)
                committing = True
            return result
        except DeadlockError:
            if attempt == TRANSACTION_ATTEMPTS:
                raise
        except LostError:
            if committing or lost:
                raise
            lost = True
        await asyncio.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - spreads rivals, guards nothing
    raise AssertionError("unreachable")


@asynccontextmanager
async def bounded() -> AsyncIterator[None]:
    """Translate what drivers raise, and end what takes too long."""
    limit = asyncio.timeout(TRANSACTION_SECONDS)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise StoreAwayError("the database did not answer in time") from error
    except PoolTimeoutError as error:
        raise StoreAwayError("no connection to the database became free in time") from error
    except DBAPIError as error:
        away = outage(error)
        if away is None:
            raise
        raise away from error
