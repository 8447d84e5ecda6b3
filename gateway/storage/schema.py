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
    Column("notice_url", String(2048)),
    Column("notice_secret", BLOB),
    Column("created_at", Instant(), nullable=False),
)
"""`notice_secret` is sealed."""

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

duties = _table(
    "duties",
    Column("name", String(32), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Instant(), nullable=False),
)
"""What one process does for all of them, and whose turn it is; on the database's clock."""

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
    Column("sent_at", Instant(), index=True),
    Column("polled_at", Instant()),
    Column("settled_at", Instant()),
    Column("outcomes", Json(tuple[ItemOutcome, ...]), nullable=False),
    Index(None, "project", "state"),
    UniqueConstraint("provider", "provider_id"),
)
"""What the unsettled ones have `reserved` is in their day's `spending.batches`. Without `sent_at` nobody was asked yet."""

notices = _table(
    "notices",
    Column("project", PROJECT, primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("batch", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("total", Integer, nullable=False),
    Column("created_at", Instant(), nullable=False, index=True),
    Column("due_at", Instant(), index=True),
    Column("attempts", Integer, nullable=False),
    Column("outcome", String(32)),
    Column("attempted_at", Instant()),
    Column("delivered_at", Instant()),
    UniqueConstraint("project", "batch"),
)
"""What a project's address is told of ended batches; `due_at` is null once it was, or was given up."""

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

# --- the knowledge base -------------------------------------------------------------------------------------------

documents = _table(
    "documents",
    Column("id", ROW_ID, primary_key=True),
    Column("project", PROJECT, nullable=False),
    Column("name", String(200), nullable=False),
    Column("version", BigInteger),
    Column("passages", Integer, nullable=False),
    Column("characters", Integer, nullable=False),
    Column("embedder", NAME, nullable=False),
    Column("uploaded_at", Instant(), nullable=False),
    Column("text", LONG_TEXT, nullable=False),
    UniqueConstraint("project", "name"),
    # Partners keep the ids: none is ever given twice.
    sqlite_autoincrement=True,
)
"""`version` names the live passages in the vector index; null while the first ones are being written."""

knowledge = _table(
    "knowledge",
    Column("project", PROJECT, primary_key=True),
    Column("version", BigInteger, nullable=False),
)
"""What a project's documents are, as a number that changes with each change of them."""

stale_passages = _table(
    "stale_passages",
    Column("project", PROJECT, primary_key=True),
    Column("document", BigInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Instant(), nullable=False, index=True),
)
"""Versions that the vector index may hold and no document names: not yet, or not any more. `at` is the database's time."""

# --- the panel ----------------------------------------------------------------------------------------------------

operators = _table(
    "operators",
    Column("id", ROW_ID, primary_key=True),
    Column("email", String(254), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("active", Boolean, nullable=False),
    Column("password", String(255)),
    Column("totp", BLOB),
    Column("totp_step", BigInteger),
    Column("recovery", Json(tuple[str, ...]), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("last_login", Instant()),
    sqlite_autoincrement=True,
)
"""`password` is an argon2id hash, `totp` a sealed secret, `totp_step` the last step that was used; `recovery` digests."""

panel_sessions = _table(
    "panel_sessions",
    Column("digest", DIGEST, primary_key=True),
    Column("operator", ROW_ID, ForeignKey("operators.id"), nullable=False, index=True),
    Column("created_at", Instant(), nullable=False),
    Column("seen_at", Instant(), nullable=False, index=True),
)

set_up_links = _table(
    "set_up_links",
    Column("digest", DIGEST, primary_key=True),
    Column("operator", ROW_ID, ForeignKey("operators.id"), nullable=False, index=True),
    Column("expires_at", Instant(), nullable=False),
)
"""Links by which a person chooses a password, once."""

login_failures = _table(
    "login_failures",
    Column("id", ROW_ID, primary_key=True),
    Column("subject", DIGEST, nullable=False),
    Column("at", Instant(), nullable=False, index=True),
    Index(None, "subject", "at"),
)
"""`subject` is a keyed digest of an address or an account."""

operator_settings = _table(
    "operator_settings",
    Column("name", String(64), primary_key=True),
    Column("value", LONG_TEXT),
    Column("sealed", BLOB),
    Column("changed_at", Instant(), nullable=False),
)
"""What operators set in the panel; secrets are `sealed`."""

alerts = _table(
    "alerts",
    Column("day", Date, primary_key=True),
    Column("kind", String(32), primary_key=True),
    Column("subject", String(128), primary_key=True),
    Column("at", Instant(), nullable=False),
    Column("sent_at", Instant()),
    Column("attempts", Integer, nullable=False),
)
"""What was noticed on a day: each is told once."""

# --- Dilem --------------------------------------------------------------------------------------------------------

dilem_identities = _table(
    "dilem_identities",
    Column("id", ROW_ID, primary_key=True),
    Column("token", DIGEST, nullable=False, unique=True),
    Column("created_at", Instant(), nullable=False),
    Column("expires_at", Instant(), nullable=False, index=True),
    # What outlives an identity by a moment must never be another's.
    sqlite_autoincrement=True,
)
"""`token` is the SHA-256 of a session's token."""

dilem_cases = _table(
    "dilem_cases",
    Column("identity", BigInteger, primary_key=True, autoincrement=False),
    Column("case_id", String(80), primary_key=True),
    Column("admitted_at", Instant(), nullable=False),
    Column("admitted_day", Date, nullable=False),
    Column("address", String(64), nullable=False),
    Column("completed_at", Instant()),
    Column("turns", Integer, nullable=False),
    Column("holder", String(64)),
    Column("lock_until", Instant(), index=True),
    Index(None, "identity", "admitted_day"),
)
"""`holder` is the turn being worked on, by its request id, while `lock_until` (the database's clock) has not passed."""

dilem_exchanges = _table(
    "dilem_exchanges",
    Column("identity", BigInteger, primary_key=True, autoincrement=False),
    Column("case_id", String(80), primary_key=True),
    Column("request_id", REQUEST, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("request", LONG_TEXT, nullable=False),
    Column("response", LONG_TEXT, nullable=False),
    Column("created_at", Instant(), nullable=False, index=True),
)

dilem_results = _table(
    "dilem_results",
    Column("id", String(32), primary_key=True),
    Column("identity", BigInteger, nullable=False, index=True),
    Column("payload", LONG_TEXT, nullable=False),
    Column("helpful", Boolean),
    Column("reason", String(32)),
    Column("created_at", Instant(), nullable=False, index=True),
)

dilem_reports = _table(
    "dilem_reports",
    Column("identity", BigInteger, primary_key=True, autoincrement=False),
    Column("request_id", String(32), primary_key=True),
    Column("digest", DIGEST, nullable=False),
    Column("payload", LONG_TEXT, nullable=False),
    Column("created_at", Instant(), nullable=False, index=True),
)
"""What users sent to the operator: an outbox, each row once."""

dilem_counters = _table(
    "dilem_counters",
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""`completed` counts the cases of all identities; its row is also the lock that admissions take in turn."""

dilem_rates = _table(
    "dilem_rates",
    Column("name", String(96), primary_key=True),
    Column("window", BigInteger, primary_key=True, autoincrement=False),
    Column("n", Integer, nullable=False),
    Column("ends_at", Instant(), nullable=False, index=True),
)
"""What an address did in an hour or a day."""

__all__ = [
    "alerts",
    "audit",
    "batches",
    "brains",
    "calls",
    "conversations",
    "dilem_cases",
    "dilem_counters",
    "dilem_exchanges",
    "dilem_identities",
    "dilem_rates",
    "dilem_reports",
    "dilem_results",
    "documents",
    "duties",
    "installation",
    "knowledge",
    "login_failures",
    "metadata",
    "nodes",
    "notices",
    "operator_settings",
    "operators",
    "pairs",
    "panel_sessions",
    "prices",
    "project_keys",
    "projects",
    "recipe_switches",
    "recipe_versions",
    "reservations",
    "set_up_links",
    "spending",
    "stale_passages",
]
