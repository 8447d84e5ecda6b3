"""Connections to PostgreSQL: made when they are needed, kept for the next, dropped at the first trouble.

What uses one has an end: a result or `StoreAwayError` in time. Everything asked of PostgreSQL may be repeated, so work
that met a kept connection whose server has gone is done once more on another: a restart costs a reconnection and
surfaces nowhere.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from gateway.domain.errors import StoreAwayError
from gateway.vectors.pgvector.schema import prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway.vectors.pgvector.driver import Connection

Result = TypeVar("Result")

ANSWER_SECONDS = 1.8
CONNECT_SECONDS = 1.5
MOST_CONNECTIONS = 8
"""Of one process. Whoever finds them all taken waits."""

_SESSION = """
SET statement_timeout = 1500; SET lock_timeout = 1500; SET idle_in_transaction_session_timeout = 60000;
SET tcp_keepalives_idle = 60; SET standard_conforming_strings = on;
SET jit = off; SET max_parallel_workers_per_gather = 0;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_material = off; SET enable_memoize = off; SET plan_cache_mode = force_generic_plan
"""
"""The one plan that is right whatever the statistics say: for each live version, its rows by the primary key. Compiling
a statement or starting parallel workers takes longer than the scan."""
TROUBLE = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What the driver may say of a server that can't be used. The third comes from a connection that is just ending."""
_OUTDATED = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    # The table was dropped or made anew since the connection looked.
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidCachedStatementError,
)
"""What a kept connection may say for no other reason than having been kept."""


class Connections:
    """Some connections to one database.

    Args:
        url: `postgresql://...`, with the options of libpq.

    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(MOST_CONNECTIONS)

    async def run(self, work: Callable[[Connection], Awaitable[Result]], until: float) -> Result:
        """Do something with a connection of its own, and be done in time (`within`).

        Whatever the time, a connection is had soon or never.

        Raises:
            StoreAwayError: PostgreSQL can't be reached, refuses, or is too slow; the work may have been done.

        """
        try:
            async with asyncio.timeout_at(until), self._place():
                while (connection := self._take()) is not None:
                    try:
                        return await self._use(connection, work)
                    except TimeoutError:
                        raise
                    except _OUTDATED:
                        continue
                return await self._use(await self.connect(), work)
        except TimeoutError:
            self._suspect()
            raise StoreAwayError("PostgreSQL did not answer in time") from None
        except TROUBLE as error:
            raise StoreAwayError(f"PostgreSQL can't be used: {what(error)}") from error

    async def connect(self) -> Connection:
        """Make a connection that belongs to the asker alone, its session set and the table there.

        Raises:
            StoreAwayError, or one of `TROUBLE`: There is none.

        """
        connection: Connection = await asyncpg.connect(
            self._url, timeout=CONNECT_SECONDS, max_cached_statement_lifetime=0
        )
        try:
            await connection.execute(_SESSION)
            schema = await prepare(connection)
            await connection.set_type_codec(
                "halfvec", schema=schema, encoder=_as_it_is, decoder=_as_it_is, format="binary"
            )
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def close(self) -> None:
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=CONNECT_SECONDS)
            except TROUBLE:
                connection.terminate()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        async with asyncio.timeout(ANSWER_SECONDS):
            await self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    async def _use(self, connection: Connection, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        try:
            result = await work(connection)
        except BaseException:
            # Also when the caller has gone: what the server still does for it ends with its time limit.
            connection.terminate()
            raise
        self._idle.append(connection)
        return result

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _suspect(self) -> None:
        """The others may be as dead as the one that did not answer."""
        while self._idle:
            self._idle.pop().terminate()


def within(seconds: float) -> float:
    """The moment on the event loop's clock until which something may take."""
    return asyncio.get_running_loop().time() + seconds


def what(error: Exception) -> str:
    """What is wrong, in words that never hold a row's content (a detail may)."""
    if isinstance(error, asyncpg.PostgresError):
        return f"{error.args[0] if error.args else ''} ({getattr(error, 'sqlstate', None)})"
    return str(error) or type(error).__name__


def _as_it_is(value: Any) -> Any:
    return value
