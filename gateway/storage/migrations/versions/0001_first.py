"""Everything the first release keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None

PROJECT = sa.String(63)
REQUEST = sa.String(64)
NAME = sa.String(128)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
BLOB = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
DIGEST = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql")


def upgrade() -> None:
    """Every statement bears repeating: on MySQL an interrupted migration is run again from its beginning."""
    _configuration()
    _tenant_data()
    _first_row()


def _must(name: str, kind: TypeEngine[Any], *more: SchemaItem) -> sa.Column[Any]:
    return sa.Column(name, kind, *more, nullable=False)


def _may(name: str, kind: TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _counting(name: str) -> sa.Column[Any]:
    return sa.Column(name, ROW_ID, autoincrement=True, nullable=False)


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


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def _index(table: str, *columns: str) -> sa.Index:
    return sa.Index(op.f(f"ix_{table}_{'_'.join(columns)}"), *map(sa.text, columns))


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(f"uq_{table}_{'_'.join(columns)}"))


def _configuration() -> None:
    _table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        _must("revision", sa.BigInteger()),
        _may("secret_fingerprint", sa.String(64)),
        _must("budget_epoch", sa.BigInteger()),
        _may("database_until", INSTANT),
        _may("first_started_at", INSTANT),
        _must("created_at", INSTANT),
        _key("installation", "id"),
    )
    _table(
        "projects",
        _must("name", PROJECT),
        _must("active", sa.Boolean()),
        _must("permissions", LONG_TEXT),
        _must("hourly_limit", sa.Integer()),
        _may("daily_budget", sa.BigInteger()),
        _may("brain", NAME),
        _must("domains", LONG_TEXT),
        _must("sandbox", sa.Boolean()),
        _must("internal", sa.Boolean()),
        _must("created_at", INSTANT),
        _key("projects", "name"),
    )
    _table(
        "project_keys",
        _counting("id"),
        _must("project", PROJECT),
        _must("digest", DIGEST),
        _must("label", NAME),
        _must("created_at", INSTANT),
        _may("last_used", INSTANT),
        _may("revoked_at", INSTANT),
        _key("project_keys", "id"),
        _unique("project_keys", "digest"),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_project_keys_project")),
        _index("project_keys", "project"),
        sqlite_autoincrement=True,
    )
    _table(
        "brains",
        _must("name", NAME),
        _must("position", sa.Integer()),
        _must("provider", sa.String(32)),
        _must("principal", NAME),
        _must("economy", NAME),
        _must("reasoning", sa.String(16)),
        _must("fallback", sa.String(160)),
        _must("description", sa.Text()),
        _must("news", sa.Text()),
        _must("voice", sa.Boolean()),
        _must("is_default", sa.Boolean()),
        _key("brains", "name"),
    )
    _table(
        "prices",
        _must("model", NAME),
        _must("tiers", LONG_TEXT),
        _must("day", sa.Date()),
        _key("prices", "model"),
    )
    _table(
        "recipe_switches",
        _must("recipe", NAME),
        _may("level", sa.String(16)),
        _may("internet", sa.Boolean()),
        _may("knowledge", sa.Boolean()),
        _key("recipe_switches", "recipe"),
    )
    _table(
        "recipe_versions",
        _must("recipe", NAME),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        _must("project", PROJECT),
        _must("text", LONG_TEXT),
        _must("live", sa.Boolean()),
        _must("created_at", INSTANT),
        _must("created_by", NAME),
        _key("recipe_versions", "recipe", "version"),
        _index("recipe_versions", "project"),
    )
    _table(
        "audit",
        _counting("id"),
        _must("at", INSTANT),
        _must("operator", NAME),
        _must("action", sa.String(64)),
        _must("subject", sa.String(255)),
        _may("before", LONG_TEXT),
        _may("after", LONG_TEXT),
        _key("audit", "id"),
        _index("audit", "at"),
        sqlite_autoincrement=True,
    )
    _table(
        "nodes",
        _must("id", sa.String(64)),
        _must("data_id", sa.String(64)),
        _must("key_value", sa.String(255)),
        _must("host", sa.String(255)),
        _must("pid", sa.Integer()),
        _must("started_at", INSTANT),
        _must("heartbeat_at", INSTANT),
        _key("nodes", "id"),
    )


def _tenant_data() -> None:
    _table(
        "calls",
        _must("request_id", REQUEST),
        _must("project", PROJECT),
        _must("day", sa.Date()),
        _must("started_at", INSTANT),
        _must("recipe", NAME),
        _must("recipe_version", sa.Integer()),
        _must("outcome", sa.String(16)),
        _may("key_id", sa.BigInteger()),
        _may("by", NAME),
        _must("brain", NAME),
        _must("provider", sa.String(32)),
        _must("model", NAME),
        _may("fault", sa.String(64)),
        _must("input_tokens", sa.BigInteger()),
        _must("output_tokens", sa.BigInteger()),
        _must("cache_read_tokens", sa.BigInteger()),
        _must("cache_write_tokens", sa.BigInteger()),
        _must("searches", sa.Integer()),
        _must("cost", sa.BigInteger()),
        _must("attempts", LONG_TEXT),
        _may("fallback", sa.String(160)),
        _must("truncated", sa.Boolean()),
        _must("duration_ms", sa.Integer()),
        _must("provider_ms", sa.Integer()),
        _may("batch", sa.String(32)),
        _key("calls", "request_id"),
        _index("calls", "project", "day", "started_at"),
        _index("calls", "day"),
        _index("calls", "started_at"),
    )
    _table(
        "spending",
        _must("project", PROJECT),
        _must("day", sa.Date()),
        _must("settled", sa.BigInteger()),
        _must("reserved", sa.BigInteger()),
        _must("batches", sa.BigInteger()),
        _key("spending", "project", "day"),
    )
    _table(
        "reservations",
        _must("request_id", REQUEST),
        _must("project", PROJECT),
        _must("day", sa.Date()),
        _must("amount", sa.BigInteger()),
        _must("lease_until", INSTANT),
        _must("record", BLOB),
        _key("reservations", "request_id"),
        _index("reservations", "lease_until"),
        _index("reservations", "project", "day"),
    )
    _table(
        "batches",
        _must("project", PROJECT),
        _must("number", sa.String(32)),
        _must("request_id", REQUEST),
        _may("key_id", sa.BigInteger()),
        _must("day", sa.Date()),
        _must("created_at", INSTANT),
        _must("recipe", NAME),
        _must("recipe_version", sa.Integer()),
        _must("provider", sa.String(32)),
        _must("model", NAME),
        _must("brain", NAME),
        _must("reasoning", sa.String(16)),
        _may("fallback", sa.String(160)),
        _must("total", sa.Integer()),
        _must("single", sa.Boolean()),
        _may("shape", LONG_TEXT),
        _must("documents", LONG_TEXT),
        _must("cited", sa.Boolean()),
        _must("reserved", sa.BigInteger()),
        _must("state", sa.String(16)),
        _may("provider_id", sa.String(255)),
        _may("sent_at", INSTANT),
        _may("polled_at", INSTANT),
        _may("settled_at", INSTANT),
        _must("outcomes", LONG_TEXT),
        _key("batches", "project", "number"),
        _index("batches", "created_at"),
        _index("batches", "project", "state"),
        _unique("batches", "provider", "provider_id"),
    )
    _table(
        "conversations",
        _must("project", PROJECT),
        _must("id", sa.String(64)),
        _must("pairs", sa.Integer()),
        _must("created_at", INSTANT),
        _must("touched_at", INSTANT),
        _key("conversations", "project", "id"),
        _index("conversations", "touched_at"),
    )
    _table(
        "pairs",
        _must("project", PROJECT),
        _must("conversation", sa.String(64)),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        _must("request_id", REQUEST),
        _must("question", LONG_TEXT),
        _must("answer", LONG_TEXT),
        _must("at", INSTANT),
        _key("pairs", "project", "conversation", "number"),
        _unique("pairs", "project", "request_id"),
    )


def _first_row() -> None:
    now = (
        "UTC_TIMESTAMP(6)"
        if op.get_bind().dialect.name == "mysql"
        else "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
    )
    op.execute(
        "INSERT INTO installation (id, revision, budget_epoch, created_at) "  # noqa: S608 - our own words
        f"SELECT 1, 1, 0, {now} FROM (SELECT 1 AS one) AS once "
        "WHERE NOT EXISTS (SELECT 1 FROM installation WHERE id = 1)"
    )
