"""The audit: who changed what, written in the transaction that changes it. It holds no secret."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import insert, select, update

from gateway.storage import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.tenants import Operator
    from gateway.storage.database import Database

THE_INSTALLATION = 1
"""`id` of the one row."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `before` and `after` are JSON."""

    id: int
    at: datetime
    operator: str
    action: str
    subject: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None


async def begin_change(connection: AsyncConnection) -> None:
    """Count the change and take the configuration's lock, so that changes follow each other. Goes first."""
    table = schema.installation
    await connection.execute(
        update(table).where(table.c.id == THE_INSTALLATION).values(revision=table.c.revision + 1)
    )


async def record_change(
    connection: AsyncConnection,
    by: Operator,
    at: datetime,
    action: str,
    subject: str,
    *,
    before: msgspec.Struct | None = None,
    after: msgspec.Struct | None = None,
) -> None:
    """Write the audit row of a change in its transaction.

    Args:
        connection: The transaction.
        by: Who.
        at: When.
        action: `noun.verb`, as `project.add`.
        subject: Name of what was changed.
        before: What it was, without secrets.
        after: What it is.

    """
    row = {
        "operator": by.name,
        "at": at,
        "action": action,
        "subject": subject,
        "before": before,
        "after": after,
    }
    await connection.execute(insert(schema.audit).values(row))


async def read_audit(
    database: Database, limit: int = 100, before_id: int | None = None
) -> Sequence[AuditEntry]:
    """Give the newest entries, newest first; `before_id` continues a page."""
    table = schema.audit
    query = select(table).order_by(table.c.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(table.c.id < before_id)
    async with database.connect() as connection:
        rows = await connection.execute(query)
        return tuple(AuditEntry(**row) for row in rows.mappings())


class Audit:
    """Entries about what changes nothing in the configuration but must be seen all the same."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, by: Operator, at: datetime, action: str, subject: str, about: str) -> None:
        """Write that somebody did something; `about` names it further (a request's id), never a content."""

        async def work(connection: AsyncConnection) -> None:
            await record_change(connection, by, at, action, subject, after=_About(about))

        await self._database.transact(work)


class _About(msgspec.Struct, frozen=True):
    about: str
