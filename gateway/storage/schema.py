"""Every table, once: what the migrations build and the queries name."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem

from gateway.domain.batches import ItemOutcome
from gateway.domain.calls import Attempt
from gateway.domain.completion import Shape
from gateway.domain.usage import UnitPrice
from gateway.storage.columns import (
    BLOB,
    DIGEST,
    LONG_TEXT,
    MODEL,
    NAME,
    PROJECT,
    REQUEST,
    ROW_ID,
    Instant,
    Json,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

MYSQL_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


def _table(name: str, *items: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *items, **MYSQL_OPTIONS, **options)


# --- the configuration --------------------------------------------------------------------------------------------

installation = _table(
    "installation",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("secret_fingerprint", String(64)),
    Column("budget_epoch", BigInteger, nullable=False),
    Column("database_until", Instant()),
    Column("first_started_at", Instant()),
    Column("created_at", Instant(), nullable=False),
)
"""One row, `id` 1. `revision` counts the changes of the configuration."""

projects = _table(
    "projects",
    Column("name", PROJECT, primary_key=True),
    Column("active", Boolean, nullable=False),
    Column("permissions", Json(list[str]), nullable=False),
    Column("hourly_limit", Integer, nullable=False),
    Column("daily_budget", BigInteger),
    Column("brain", NAME),
    Column("domains", Json(tuple[str, ...]), nullable=False),
    Column("sandbox", Boolean, nullable=False),
    Column("internal", Boolean, nullable=False),
    Column("created_at", Instant(), nullable=False),
)

project_keys = _table(
    "project_keys",
    Column("id", ROW_ID, primary_key=True),
    Column("project", PROJECT, ForeignKey("projects.name"), nullable=False, index=True),
    Column("digest", DIGEST, nullable=False, unique=True),
    Column("label", NAME, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("last_used", Instant()),
    Column("revoked_at", Instant()),
    # The ledger names keys by id: none is ever given twice.
    sqlite_autoincrement=True,
)

brains = _table(
    "brains",
    Column("name", NAME, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("provider", String(32), nullable=False),
    Column("principal", MODEL, nullable=False),
    Column("economy", MODEL, nullable=False),
    Column("reasoning", String(16), nullable=False),
    Column("fallback", String(160), nullable=False),
    Column("description", Text, nullable=False),
    Column("news", Text, nullable=False),
    Column("voice", Boolean, nullable=False),
    Column("is_default", Boolean, nullable=False),
)

prices = _table(
    "prices",
    Column("model", MODEL, primary_key=True),
    Column("tiers", Json(tuple[UnitPrice, ...]), nullable=False),
    Column("day", Date, nullable=False),
)
"""What operators set; it goes before the bundled prices."""

recipe_switches = _table(
    "recipe_switches",
    Column("recipe", NAME, primary_key=True),
    Column("level", String(16)),
    Column("internet", Boolean),
    Column("knowledge", Boolean),
)

recipe_versions = _table(
    "recipe_versions",
    Column("recipe", NAME, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project", PROJECT, nullable=False, index=True),
    Column("text", LONG_TEXT, nullable=False),
    Column("live", Boolean, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("created_by", NAME, nullable=False),
)
"""`project` is '' for everybody's text. Versions of a recipe count in one row, whoever they are for."""

audit = _table(
    "audit",
    Column("id", ROW_ID, primary_key=True),
    Column("at", Instant(), nullable=False, index=True),
    Column("operator", NAME, nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("before", Json(msgspec.Raw)),
    Column("after", Json(msgspec.Raw)),
    sqlite_autoincrement=True,
)

nodes = _table(
    "nodes",
    Column("id", String(64), primary_key=True),
    Column("data_id", String(64), nullable=False),
    Column("key_value", String(255), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started_at", Instant(), nullable=False),
    Column("heartbeat_at", Instant(), nullable=False),
)

# --- what belongs to a project ------------------------------------------------------------------------------------

calls = _table(
    "calls",
    Column("request_id", REQUEST, primary_key=True),
    Column("project", PROJECT, nullable=False),
    Column("day", Date, nullable=False),
    Column("started_at", Instant(), nullable=False, index=True),
    Column("recipe", NAME, nullable=False),
    Column("recipe_version", Integer, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("key_id", BigInteger),
    Column("by", NAME),
    Column("brain", NAME, nullable=False),
    Column("provider", String(32), nullable=False),
    Column("model", MODEL, nullable=False),
    Column("fault", String(64)),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("searches", Integer, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("attempts", Json(tuple[Attempt, ...]), nullable=False),
    Column("fallback", String(160)),
    Column("truncated", Boolean, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("provider_ms", Integer, nullable=False),
    Column("batch", String(32)),
    Index(None, "project", "day", "started_at"),
    Index(None, "day"),
)
"""The ledger."""

spending = _table(
    "spending",
    Column("project", PROJECT, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("settled", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("batches", BigInteger, nullable=False),
)
"""Micro-dollars of a project's day: spent, held by running calls, held by batches that are not settled."""

reservations = _table(
    "reservations",
    Column("request_id", REQUEST, primary_key=True),
    Column("project", PROJECT, nullable=False),
    Column("day", Date, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("lease_until", Instant(), nullable=False, index=True),
    Column("record", BLOB, nullable=False),
    Index(None, "project", "day"),
)

batches = _table(
    "batches",
    Column("project", PROJECT, primary_key=True),
    Column("number", String(32), primary_key=True),
    Column("request_id", REQUEST, nullable=False),
    Column("key_id", BigInteger),
    Column("day", Date, nullable=False),
    Column("created_at", Instant(), nullable=False, index=True),
    Column("recipe", NAME, nullable=False),
    Column("recipe_version", Integer, nullable=False),
    Column("provider", String(32), nullable=False),
    Column("model", MODEL, nullable=False),
    Column("brain", NAME, nullable=False),
    Column("reasoning", String(16), nullable=False),
    Column("fallback", String(160)),
    Column("total", Integer, nullable=False),
    Column("single", Boolean, nullable=False),
    Column("shape", Json(Shape)),
    Column("documents", Json(tuple[str, ...]), nullable=False),
    Column("cited", Boolean, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("provider_id", String(255)),
    Column("sent_at", Instant()),
    Column("polled_at", Instant()),
    Column("settled_at", Instant()),
    Column("outcomes", Json(tuple[ItemOutcome, ...]), nullable=False),
    Index(None, "project", "state"),
    UniqueConstraint("provider", "provider_id"),
)
"""What the unsettled ones have `reserved` is in their day's `spending.batches`."""

conversations = _table(
    "conversations",
    Column("project", PROJECT, primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("pairs", Integer, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("touched_at", Instant(), nullable=False, index=True),
)
"""`pairs` is the number of the newest pair."""

pairs = _table(
    "pairs",
    Column("project", PROJECT, primary_key=True),
    Column("conversation", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("request_id", REQUEST, nullable=False),
    Column("question", LONG_TEXT, nullable=False),
    Column("answer", LONG_TEXT, nullable=False),
    Column("at", Instant(), nullable=False),
    UniqueConstraint("project", "request_id"),
)

__all__ = [
    "audit",
    "batches",
    "brains",
    "calls",
    "conversations",
    "installation",
    "metadata",
    "nodes",
    "pairs",
    "prices",
    "project_keys",
    "projects",
    "recipe_switches",
    "recipe_versions",
    "reservations",
    "spending",
]
