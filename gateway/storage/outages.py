"""What a driver's error means: the one place that tells a store that is away from a fault of ours."""

from __future__ import annotations

import sqlite3

import pymysql
from sqlalchemy.exc import DBAPIError, IntegrityError

from gateway.domain.errors import StoreAwayError


class MissingSchemaError(StoreAwayError):
    """The database answers, but its tables or columns are not there: `pepper migrate` was not run."""


class LostError(StoreAwayError):
    """The connection was lost under way; unless a commit was under way, nothing was carried out."""


class DeadlockError(StoreAwayError):
    """Two transactions stood in each other's way and this one was undone whole: it may be tried again."""


MYSQL_MISSING = frozenset({1054, 1146})
"""Unknown column, no such table."""
MYSQL_DEADLOCK = frozenset({1213, 1020})
"""Deadlock; record has changed since last read (MariaDB's snapshot isolation)."""
MYSQL_LOST = frozenset(
    {0, 1053, 1077, 1078, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 2014, 2055}
)
"""Server shutdown, aborted connection, network errors, connection killed, server gone, lost."""
MYSQL_AWAY = frozenset(
    {
        *(1021, 1030, 1114, 1180),  # disk full, storage engine, table full, error during commit
        *(1040, 1043, 1129, 1203, 1226),  # too many connections, bad handshake, host blocked, user's limits
        *(1044, 1045, 1049, 1698),  # access denied, unknown database
        *(1047, 1205, 1317, 1969, 3024),  # node not ready, lock wait, interrupted, statement time
        *(1290, 1792, 1836),  # read-only
        *(2000, 2002, 2003, 2005, 2012, 2026),  # client side: no connection, unknown host, handshake, TLS
    }
)
SQLITE_AWAY = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_NOTADB,
    }
)
PRIMARY_CODE = 0xFF
"""SQLite's extended codes carry the primary one in the lowest byte."""


def outage(error: DBAPIError) -> StoreAwayError | None:
    """Give what to raise instead of a driver's error; None when the statement itself was at fault."""
    if isinstance(error, IntegrityError):
        return None
    original = error.orig
    if isinstance(original, pymysql.err.MySQLError):
        return _mysql_outage(original)
    if isinstance(original, sqlite3.Error):
        return _sqlite_outage(original)
    return LostError("the connection to the database was lost") if error.connection_invalidated else None


def _mysql_outage(error: pymysql.err.MySQLError) -> StoreAwayError | None:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else None
    if code in MYSQL_MISSING:
        return MissingSchemaError("the database has no tables, or old ones: run `pepper migrate`")
    if code in MYSQL_DEADLOCK:
        return DeadlockError(f"MySQL error {code}")
    # Without a number it is the driver's own: packets out of order, a connection closed under it.
    if code in MYSQL_LOST or code is None:
        return LostError(f"MySQL error {code}: the connection was lost")
    return StoreAwayError(f"MySQL error {code}") if code in MYSQL_AWAY else None


def _sqlite_outage(error: sqlite3.Error) -> StoreAwayError | None:
    text = str(error).lower()
    if text.startswith(("no such table", "no such column")) or "has no column named" in text:
        return MissingSchemaError("the database has no tables, or old ones: run `pepper migrate`")
    if "connection closed" in text or "no active connection" in text or "closed database" in text:
        return LostError("the connection to the SQLite file was closed")
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & PRIMARY_CODE in SQLITE_AWAY:
        return StoreAwayError(f"SQLite: {getattr(error, 'sqlite_errorname', code)}")
    return None
