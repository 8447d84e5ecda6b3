"""Dilem: identities, their cases, what was said in them, votes, reports and counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

revision = "0004"
down_revision = "0003"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
DIGEST = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql")
CASE_ID = sa.String(80)


def upgrade() -> None:
    """Every statement bears repeating: on MySQL an interrupted migration is run again from its beginning."""
    _table(
        "dilem_identities",
        _must("id", ROW_ID, autoincrement=True),
        _must("token", DIGEST),
        _must("created_at", INSTANT),
        _must("expires_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dilem_identities")),
        sa.UniqueConstraint("token", name=op.f("uq_dilem_identities_token")),
        sqlite_autoincrement=True,
    )
    _table(
        "dilem_cases",
        _must("identity", sa.BigInteger(), autoincrement=False),
        _must("case_id", CASE_ID),
        _must("admitted_at", INSTANT),
        _must("admitted_day", sa.Date()),
        _must("address", sa.String(64)),
        sa.Column("completed_at", INSTANT),
        _must("turns", sa.Integer()),
        sa.Column("holder", sa.String(64)),
        sa.Column("lock_until", INSTANT),
        sa.PrimaryKeyConstraint("identity", "case_id", name=op.f("pk_dilem_cases")),
    )
    _table(
        "dilem_exchanges",
        _must("identity", sa.BigInteger(), autoincrement=False),
        _must("case_id", CASE_ID),
        _must("request_id", sa.String(64)),
        _must("turn", sa.Integer()),
        _must("request", LONG_TEXT),
        _must("response", LONG_TEXT),
        _must("created_at", INSTANT),
        sa.PrimaryKeyConstraint("identity", "case_id", "request_id", name=op.f("pk_dilem_exchanges")),
    )
    _table(
        "dilem_results",
        _must("id", sa.String(32)),
        _must("identity", sa.BigInteger()),
        _must("payload", LONG_TEXT),
        sa.Column("helpful", sa.Boolean()),
        sa.Column("reason", sa.String(32)),
        _must("created_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dilem_results")),
    )
    _table(
        "dilem_reports",
        _must("identity", sa.BigInteger(), autoincrement=False),
        _must("request_id", sa.String(32)),
        _must("digest", DIGEST),
        _must("payload", LONG_TEXT),
        _must("created_at", INSTANT),
        sa.PrimaryKeyConstraint("identity", "request_id", name=op.f("pk_dilem_reports")),
    )
    _table(
        "dilem_counters",
        _must("name", sa.String(32)),
        _must("value", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_dilem_counters")),
    )
    _table(
        "dilem_rates",
        _must("name", sa.String(96)),
        _must("window", sa.BigInteger(), autoincrement=False),
        _must("n", sa.Integer()),
        _must("ends_at", INSTANT),
        sa.PrimaryKeyConstraint("name", "window", name=op.f("pk_dilem_rates")),
    )
    _index("dilem_identities", "expires_at")
    _index("dilem_cases", "identity", "admitted_day")
    _index("dilem_cases", "lock_until")
    _index("dilem_exchanges", "created_at")
    _index("dilem_results", "identity")
    _index("dilem_results", "created_at")
    _index("dilem_reports", "created_at")
    _index("dilem_rates", "ends_at")
    _first_row()


def _must(name: str, kind: TypeEngine[Any], **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **options)


def _table(name: str, *items: SchemaItem, **options: Any) -> None:
    op.create_table(
        name,
        *items,
        if_not_exists=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        **options,
    )


def _index(table: str, *columns: str) -> None:
    # MySQL has no "if not exists" for an index.
    name = f"ix_{table}_{'_'.join(columns)}"
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
    if name not in there:
        op.create_index(op.f(name), table, list(columns))


def _first_row() -> None:
    counters = sa.table("dilem_counters", sa.column("name", sa.String), sa.column("value", sa.BigInteger))
    connection = op.get_bind()
    if connection.scalar(sa.select(sa.func.count()).select_from(counters)) == 0:
        connection.execute(sa.insert(counters).values(name="completed", value=0))
