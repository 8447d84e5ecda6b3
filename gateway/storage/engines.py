"""How each database is connected to: addresses, drivers' options and what is set on every new connection."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import aiomysql
import aiosqlite
from aiosqlite.core import _STOP_RUNNING_SENTINEL
from pymysql.constants import CLIENT, COMMAND, ER, SERVER_STATUS
from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import DisconnectionError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from gateway.storage.prepared import PreparedInsert, Row

NO_BACKSLASH_ESCAPES: int = SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES
MULTI_STATEMENTS_ON = b"\x00\x00"
MORE_RESULTS: int = SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS
DRIVER_ERRORS = (aiomysql.Error, sqlite3.Error)
"""What drivers raise when nobody wraps it."""
FILE_NAME = "pepper.db"
"""The SQLite file in the data folder."""
CONNECT_SECONDS = 2.0
"""A connection to MySQL that is not ready after so long is given up."""
CHECKOUT_SECONDS = 2.0
"""Wait for a free connection of the pool."""
LOCK_SECONDS = 3
"""Wait for another's transaction: on SQLite for the file, on MySQL for a row."""
SQLITE_BUSY_MILLISECONDS = 250
"""Longest wait for SQLite's file that nothing can cut short."""
POOL_SIZE = 8
POOL_OVERFLOW = 8
MYSQL_SCRIPT_BYTES = 1_000_000
"""More than this is not sent in one packet: any server's `max_allowed_packet` is as much."""
RECYCLE_SECONDS = 1_800
"""Connections older than this are replaced before MySQL's `wait_timeout` (or something between) cuts them."""
READING = "pepper_reading"
"""Execution option of a connection that will only read."""

MYSQL_SESSION = (
    # Statements see what is committed, and a search for absent rows locks no gaps.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    (
        f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}, time_zone = '+00:00',"
        " sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'"
    ),
)


def sqlite_file(url: str | None, data: Path) -> str | None:
    """Give the path of the SQLite file, or None when the address is MySQL's."""
    if url is None:
        return str(data / FILE_NAME)
    parsed = make_url(url)
    return parsed.database if parsed.get_backend_name() == "sqlite" else None


def make_engine(url: str | None, data: Path, *, patient: bool = False) -> AsyncEngine:
    """Make the engine for an address (None: the file in the data folder).

    Args:
        url: `mysql://user:password@host:3306/db` or `sqlite:////absolute/path.db`.
        data: The data folder; made when the file will stand in it.
        patient: For migrations: no pool.

    """
    path = sqlite_file(url, data)
    if path is None:
        return _mysql_engine(make_url(url or ""), patient=patient)
    if url is None:
        data.mkdir(parents=True, exist_ok=True)
    return _sqlite_engine(path, patient=patient)


def is_stale(driver_connection: Any) -> bool:
    """Whether the server has closed this connection meanwhile: seen without a round trip, from what has arrived."""
    if not isinstance(driver_connection, aiomysql.Connection):
        return False
    reader = driver_connection._reader  # noqa: SLF001 - the driver's own pool looks there too
    # A server that shuts down or times out says so before it hangs up, and then the buffer isn't empty.
    return reader is None or reader.at_eof() or reader.exception() is not None or bool(reader._buffer)  # noqa: SLF001


def _options(*, patient: bool) -> dict[str, Any]:
    # An error's text never shows values: they may be a conversation.
    if patient:
        return {"poolclass": NullPool, "hide_parameters": True}
    return {
        "hide_parameters": True,
        "pool_size": POOL_SIZE,
        "max_overflow": POOL_OVERFLOW,
        "pool_timeout": CHECKOUT_SECONDS,
    }


# --- SQLite -------------------------------------------------------------------------------------------------------


def _sqlite_engine(path: str, *, patient: bool) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=path),
        async_creator=_sqlite_creator(path),
        **_options(patient=patient),
    )
    event.listen(engine.sync_engine, "connect", _sqlite_connected)
    event.listen(engine.sync_engine, "begin", _sqlite_begun)
    return engine


class _FileConnection(aiosqlite.Connection):
    """The driver's connection, mended: closed in the middle of a statement, it lets go of the file's lock at once.

    The statement's cursor lives on in the traceback of the cancellation, and SQLite keeps a transaction open as long as
    a cursor is.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)
        self._thread.daemon = True
        self._working = False

    @override
    async def _execute(self, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def work() -> Any:
            self._working = True
            try:
                return fn(*args, **options)
            finally:
                self._working = False

        return await super()._execute(work)  # type: ignore[no-untyped-call]

    async def write(self, writes: Sequence[tuple[PreparedInsert, Sequence[Row]]]) -> None:
        """Insert rows in a transaction of their own, in one visit to the thread unless the file is busy; that is waited
        for as `_sqlite_begun` does.

        Cancelled or failed it has to be closed: whether the rows are there is open.
        """
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                await self._execute(self._write_now, writes)
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise
            else:
                return

    def _write_now(self, writes: Sequence[tuple[PreparedInsert, Sequence[Row]]]) -> None:
        connection = self._conn
        connection.execute("BEGIN IMMEDIATE")
        try:
            for insert, rows in writes:
                connection.executemany(insert.text, rows)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    @override
    async def close(self) -> None:
        if self._connection is not None and self._running:
            if self._working:
                self._connection.interrupt()
            with suppress(sqlite3.Error):
                await self._execute(self._connection.rollback)
        await super().close()

    @override
    def stop(self) -> None:
        # Nobody waits for the thread's end, so it must not tell a loop that may be closed by then.
        self._running = False
        self._tx.put_nowait((None, self._end))

    def _end(self) -> object:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        return _STOP_RUNNING_SENTINEL


def _sqlite_creator(path: str) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    def connect() -> sqlite3.Connection:
        # Transactions are begun below, not guessed by the driver.
        return sqlite3.connect(path, timeout=SQLITE_BUSY_MILLISECONDS / 1000, isolation_level=None)

    async def create() -> aiosqlite.Connection:
        return await _FileConnection(connect)

    return create


def _sqlite_connected(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")
        # Locked: another process opens the new file and is switching it, for good, this very moment.
        with suppress(sqlite3.OperationalError):
            cursor.execute("PRAGMA journal_mode = WAL")
    finally:
        cursor.close()


def _sqlite_begun(connection: Connection) -> None:
    if connection.get_execution_options().get(READING, False):
        connection.exec_driver_sql("BEGIN")
        return
    # A writer takes the lock at once: a reader that turns writer could not wait for it. SQLite's own waiting can't be
    # cancelled and sleeps longer and longer; in short pieces it can, and does not.
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except OperationalError as error:
            if not _is_busy(error.orig) or time.monotonic() > until:
                raise
        else:
            return


def _is_busy(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


# --- MySQL --------------------------------------------------------------------------------------------------------


def _mysql_engine(url: URL, *, patient: bool) -> AsyncEngine:
    options = _options(patient=patient)
    if not patient:
        options["pool_recycle"] = RECYCLE_SECONDS
    # The dialect is `mysql` on MariaDB too: under `mariadb` the variants and options of the schema are ignored.
    engine = create_async_engine("mysql+aiomysql://", async_creator=_mysql_creator(url), **options)
    event.listen(engine.sync_engine, "checkout", _mysql_checked_out)
    return engine


class _Connection(aiomysql.Connection):  # type: ignore[misc]  # it ships no types
    """The driver's connection, mended: with PyMySQL 1.2 its own way of writing bytes is gone, and its way of writing
    texts looks at each character in turn.
    """

    _several: bool | None = None
    """Whether the server takes several statements in one text from this connection; None until it is asked."""

    async def write(self, writes: Sequence[tuple[PreparedInsert, Sequence[Row]]]) -> None:
        """Insert rows in a transaction of their own, in one round trip unless they are too much for one.

        Afterwards this connection must not get into a pool: where one statement was meant, it takes several. Cancelled
        or failed it has to be closed: whether the rows are there is open.
        """
        literal = self.escape
        filled = [(insert, [f"({','.join(map(literal, row))})" for row in rows]) for insert, rows in writes]
        statements = [insert.head + ",".join(rows) + insert.tail for insert, rows in filled]
        script = ";".join([*statements, "COMMIT"]).encode()
        if len(script) <= MYSQL_SCRIPT_BYTES and await self._takes_several():
            await self._carry_out(script)
            return
        for insert, rows in filled:
            for row in rows:
                await self.query((insert.head + row + insert.tail).encode())
        await self.commit()

    async def _takes_several(self) -> bool:
        if self._several is None:
            try:
                await self._execute_command(COMMAND.COM_SET_OPTION, MULTI_STATEMENTS_ON)
                await self._read_packet()
                self._several = True
            except aiomysql.OperationalError as error:
                if error.args[0] != ER.UNKNOWN_COM_ERROR:  # something between that knows less than a server
                    raise
                self._several = False
        return self._several

    async def _carry_out(self, script: bytes) -> None:
        """Carry out several statements without results; the server stops at the first error, which is raised."""
        await self._execute_command(COMMAND.COM_QUERY, script)
        more = True
        while more:
            await self._read_ok_packet()
            more = bool(self.server_status & MORE_RESULTS)
        if self.get_transaction_status():
            raise aiomysql.InternalError("the server has not come to the commit")

    @override
    def escape(self, obj: Any) -> str:
        kind = type(obj)
        if kind is str and not self.server_status & NO_BACKSLASH_ESCAPES:
            safe = obj.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{safe}'"
        if kind is int:
            return str(obj)
        if obj is None:
            return "NULL"
        if kind is date or (kind is datetime and obj.tzinfo is None):
            return f"'{obj}'"
        if isinstance(obj, bytes):
            return f"_binary X'{obj.hex()}'"
        escaped: str = super().escape(obj)
        return escaped


def _mysql_creator(url: URL) -> Callable[[], Awaitable[aiomysql.Connection]]:
    async def create() -> aiomysql.Connection:
        connection = _Connection(
            host=url.host,
            port=url.port or 3306,
            user=url.username or "",
            password=url.password or "",
            db=unquote(url.database or ""),
            charset="utf8mb4",
            client_flag=CLIENT.FOUND_ROWS,
        )
        # The driver would let every text be several statements.
        connection.client_flag &= ~CLIENT.MULTI_STATEMENTS
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # The driver's own timeout ends with the TCP handshake: a stopped server still shakes hands.
                await connection._connect()  # noqa: SLF001
                for statement in MYSQL_SESSION:
                    await connection.query(statement)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise aiomysql.OperationalError(2003, "the server did not answer in time") from error
            raise
        return connection

    return create


def _mysql_checked_out(connection: Any, _record: object, _proxy: object) -> None:
    if is_stale(connection.driver_connection):
        raise DisconnectionError("the server has closed this connection")
