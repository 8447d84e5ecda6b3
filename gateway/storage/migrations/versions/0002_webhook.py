"""Notices of ended batches: where they go, what is to be told, and who tells it. Batches that were never sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"

PROJECT = sa.String(63)
INSTANT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
BLOB = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")


def upgrade() -> None:
    """Every statement bears repeating: on MySQL an interrupted migration is run again from its beginning."""
    _add("projects", _may("notice_url", sa.String(2048)))
    _add("projects", _may("notice_secret", BLOB))
    _table(
        "notices",
        _must("project", PROJECT),
        _must("id", sa.String(32)),
        _must("batch", sa.String(32)),
        _must("state", sa.String(16)),
        _must("total", sa.Integer()),
        _must("created_at", INSTANT),
        _may("due_at", INSTANT),
        _must("attempts", sa.Integer()),
        _may("outcome", sa.String(32)),
        _may("attempted_at", INSTANT),
        _may("delivered_at", INSTANT),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_notices")),
        sa.UniqueConstraint("project", "batch", name=op.f("uq_notices_project_batch")),
    )
    _table(
        "duties",
        _must("name", sa.String(32)),
        _must("holder", sa.String(64)),
        _must("until", INSTANT),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_duties")),
    )
    _index("notices", "created_at")
    _index("notices", "due_at")
    _index("batches", "sent_at")


def _must(name: str, kind: TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _may(name: str, kind: TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _add(table: str, column: sa.Column[Any]) -> None:
    there = {each["name"] for each in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in there:
        op.add_column(table, column)


def _table(name: str, *items: SchemaItem) -> None:
    op.create_table(
        name,
        *items,
        if_not_exists=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _index(table: str, column: str) -> None:
    # MySQL has no "if not exists" for an index.
    name = f"ix_{table}_{column}"
    if name not in {each["name"] for each in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(op.f(name), table, [column])
