"""The knowledge base: documents, what is live of them, and passages that nobody names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

revision = "0003"
down_revision = "0002"

PROJECT = sa.String(63)
NAME = sa.String(128)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")


def upgrade() -> None:
    """Every statement bears repeating: on MySQL an interrupted migration is run again from its beginning."""
    _table(
        "documents",
        _must("id", ROW_ID, autoincrement=True),
        _must("project", PROJECT),
        _must("name", sa.String(200)),
        sa.Column("version", sa.BigInteger()),
        _must("passages", sa.Integer()),
        _must("characters", sa.Integer()),
        _must("embedder", NAME),
        _must("uploaded_at", INSTANT),
        _must("text", LONG_TEXT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_documents")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_documents_project_name")),
        sqlite_autoincrement=True,
    )
    _table(
        "knowledge",
        _must("project", PROJECT),
        _must("version", sa.BigInteger()),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_knowledge")),
    )
    _table(
        "stale_passages",
        _must("project", PROJECT),
        _must("document", sa.BigInteger(), autoincrement=False),
        _must("version", sa.BigInteger(), autoincrement=False),
        _must("at", INSTANT),
        sa.PrimaryKeyConstraint("project", "document", "version", name=op.f("pk_stale_passages")),
    )
    # MySQL has no "if not exists" for an index.
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("stale_passages")}
    if "ix_stale_passages_at" not in there:
        op.create_index(op.f("ix_stale_passages_at"), "stale_passages", ["at"])


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
