"""The panel: who administers, what they set, what they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem

revision = "0005"
down_revision = "0004"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
BLOB = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
DIGEST = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql")


def upgrade() -> None:
    """Every statement bears repeating: on MySQL an interrupted migration is run again from its beginning."""
    _table(
        "operators",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("password", sa.String(255), nullable=True),
        sa.Column("totp", BLOB, nullable=True),
        sa.Column("totp_step", sa.BigInteger(), nullable=True),
        sa.Column("recovery", LONG_TEXT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("last_login", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operators")),
        sa.UniqueConstraint("email", name=op.f("uq_operators_email")),
        sqlite_autoincrement=True,
    )
    _table(
        "panel_sessions",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("operator", ROW_ID, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_panel_sessions")),
        _of_operator("panel_sessions"),
        _index("panel_sessions", "operator"),
        _index("panel_sessions", "seen_at"),
    )
    _table(
        "set_up_links",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("operator", ROW_ID, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_set_up_links")),
        _of_operator("set_up_links"),
        _index("set_up_links", "operator"),
    )
    _table(
        "login_failures",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("subject", DIGEST, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_login_failures")),
        _index("login_failures", "at"),
        _index("login_failures", "subject", "at"),
    )
    _table(
        "operator_settings",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", LONG_TEXT, nullable=True),
        sa.Column("sealed", BLOB, nullable=True),
        sa.Column("changed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_operator_settings")),
    )
    _table(
        "alerts",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(128), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("day", "kind", "subject", name=op.f("pk_alerts")),
    )


def _of_operator(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["operator"], ["operators.id"], name=op.f(f"fk_{table}_operator"))


def _index(table: str, *columns: str) -> sa.Index:
    return sa.Index(op.f(f"ix_{table}_{'_'.join(columns)}"), *map(sa.text, columns))


def _table(name: str, *items: SchemaItem, **options: Any) -> None:
    op.create_table(
        name,
        *(item for item in items if not isinstance(item, sa.Index)),
        if_not_exists=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        **options,
    )
    # MySQL has no "if not exists" for an index.
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(name)}
    for item in items:
        if isinstance(item, sa.Index) and item.name not in there:
            op.create_index(item.name, name, [str(column) for column in item.expressions])
