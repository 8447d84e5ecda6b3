"""Column types and expressions that mean the same on SQLite and MySQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import BigInteger, DateTime, Integer, LargeBinary, String, Text, TypeDecorator
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ColumnElement
from typing_extensions import override

Value = TypeVar("Value")

PROJECT = String(63)
REQUEST = String(64)
NAME = String(128)
MODEL = String(128)
LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), "mysql")
DIGEST = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql")
BLOB = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
ROW_ID = BigInteger().with_variant(Integer(), "sqlite")
"""A key that counts by itself: SQLite does so for INTEGER only."""


class Instant(TypeDecorator[datetime]):
    """An instant: aware in the program, naive UTC with microseconds in the database."""

    impl = DateTime
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """Keep microseconds on MySQL."""
        return dialect.type_descriptor(mysql.DATETIME(fsp=6) if dialect.name == "mysql" else DateTime())

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Take the zone off; a naive instant is a fault of ours."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant without a time zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    @override
    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Put UTC back on."""
        return None if value is None else value.replace(tzinfo=UTC)


class Json(TypeDecorator[Value], Generic[Value]):
    """A value kept as JSON text, decoded to `kind`; text, so that both databases keep it the same."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._encode = msgspec.json.Encoder(order="deterministic").encode

    @override
    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """Hold long texts on MySQL."""
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name == "mysql" else Text())

    @override
    def process_bind_param(self, value: Value | None, dialect: Dialect) -> str | None:
        """Encode."""
        return None if value is None else self._encode(value).decode()

    @override
    def process_result_value(self, value: str | None, dialect: Dialect) -> Value | None:
        """Decode."""
        return None if value is None else self._decode(value)


class DatabaseNow(ColumnElement[datetime]):
    """The database's own clock, so many seconds from now (a negative number is the past)."""

    inherit_cache = False
    type = Instant()

    def __init__(self, seconds: float = 0) -> None:
        self.microseconds = round(seconds * 1_000_000)


def database_now(seconds: float = 0) -> DatabaseNow:
    """Give the expression of the database's clock, `seconds` from now."""
    return DatabaseNow(seconds)


@compiles(DatabaseNow, "sqlite")
def _sqlite_now(element: DatabaseNow, _compiler: SQLCompiler, **_options: object) -> str:
    # Written as SQLAlchemy writes instants there (six digits), so that texts compare as instants do.
    shift = f", '{element.microseconds / 1_000_000:+.3f} seconds'" if element.microseconds else ""
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now'{shift}) || '000')"


@compiles(DatabaseNow, "mysql")
def _mysql_now(element: DatabaseNow, _compiler: SQLCompiler, **_options: object) -> str:
    if not element.microseconds:
        return "UTC_TIMESTAMP(6)"
    return f"(UTC_TIMESTAMP(6) + INTERVAL {element.microseconds} MICROSECOND)"
