from __future__ import annotations

import sqlite3
from pathlib import Path

import pymysql
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from gateway.domain.errors import StoreAwayError
from gateway.storage.outages import DeadlockError, LostError, MissingSchemaError, outage


def told(original: Exception, *, invalidated: bool = False) -> type[StoreAwayError] | None:
    found = outage(DBAPIError("SELECT", None, original, connection_invalidated=invalidated))
    return None if found is None else type(found)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, StoreAwayError) for code in (1040, 1045, 1049, 1205, 1290, 2002, 2003)),
        *((code, LostError) for code in (1053, 2006, 2013)),
        (1213, DeadlockError),
        (1146, MissingSchemaError),
        (1054, MissingSchemaError),
        (1064, None),
        (1406, None),
    ],
)
def test_mysql(code: int, kind: type[StoreAwayError] | None) -> None:
    assert told(pymysql.err.OperationalError(code, "told in words")) is kind


def test_the_driver_s_own_errors_mean_a_lost_connection() -> None:
    assert told(pymysql.err.InternalError("Packet sequence number wrong - got 1 expected 2")) is LostError
    assert told(pymysql.err.InterfaceError("(0, 'Not connected')")) is LostError
    assert told(RuntimeError("whatever"), invalidated=True) is LostError
    assert told(RuntimeError("whatever")) is None


def test_sqlite(tmp_path: Path) -> None:
    def failing(connection: sqlite3.Connection, statement: str) -> Exception:
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(statement)
        return caught.value

    one = sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)
    assert told(failing(one, "SELECT * FROM t")) is MissingSchemaError
    one.execute("CREATE TABLE t (i INTEGER PRIMARY KEY)")
    assert told(failing(one, "SELECT j FROM t")) is MissingSchemaError
    assert told(failing(one, "INSERT INTO t (j) VALUES (1)")) is MissingSchemaError
    assert told(failing(one, "SELEKT")) is None
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    assert told(failing(one, "BEGIN IMMEDIATE")) is StoreAwayError
    other.execute("ROLLBACK")
    one.execute("PRAGMA query_only = ON")
    assert told(failing(one, "INSERT INTO t VALUES (1)")) is StoreAwayError
    one.close()
    assert told(failing(one, "SELECT 1")) is LostError
    other.close()


def test_a_row_that_is_there_already_is_no_outage() -> None:
    for original in (sqlite3.IntegrityError("UNIQUE"), pymysql.err.IntegrityError(1062, "Duplicate")):
        assert outage(IntegrityError("INSERT", None, original)) is None


def test_the_message_says_nothing_of_the_statement() -> None:
    secret = "password=segreto"
    for original in (
        pymysql.err.OperationalError(2003, f"Can't connect with {secret}"),
        pymysql.err.OperationalError(1146, secret),
        sqlite3.OperationalError(f"no such table: {secret}"),
    ):
        assert "segreto" not in str(outage(OperationalError(secret, {"a": secret}, original)))
