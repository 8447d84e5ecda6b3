"""Reports to the operator: each written once, whatever is repeated. The table is the outbox they are read from."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import and_, func, insert, select

from gateway.storage import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report.

    Attributes:
        digest: SHA-256 of its canonical content.
        payload: The content, as JSON.

    """

    identity: int
    request_id: str
    digest: bytes
    payload: str
    created_at: datetime


class Kept(StrEnum):
    """What became of a report."""

    STORED = "stored"
    REPEATED = "repeated"
    """The same content was stored before."""
    CONFLICT = "conflict"
    """Another content was stored under this request id."""
    TOO_MANY = "too_many"
    GONE = "gone"
    """The identity is not there (any more)."""


class Reports:
    """Reports in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, report: Report, since: datetime, most: int) -> Kept:
        """Store a report unless the identity has stored `most` after `since`; at any concurrency, once.

        Raises:
            StoreAwayError: Stored or not: add it again.

        """
        table, identities = schema.dilem_reports, schema.dilem_identities
        theirs = table.c.identity == report.identity

        async def work(connection: AsyncConnection) -> Kept:
            # The identity's lock: its reports come one after the other, so that the count is exact.
            lock = select(identities.c.id).where(identities.c.id == report.identity).with_for_update()
            if await connection.scalar(lock) is None:
                return Kept.GONE
            same = select(table.c.digest).where(theirs, table.c.request_id == report.request_id)
            digest = await connection.scalar(same)
            if digest is not None:
                return Kept.REPEATED if digest == report.digest else Kept.CONFLICT
            recent = select(func.count()).select_from(table).where(and_(theirs, table.c.created_at > since))
            if (await connection.scalar(recent) or 0) >= most:
                return Kept.TOO_MANY
            await connection.execute(insert(table).values(msgspec.structs.asdict(report)))
            return Kept.STORED

        return await self._database.transact(work)

    async def newest(self, limit: int) -> Sequence[Report]:
        """Give the newest reports of all identities, for the operator."""
        table = schema.dilem_reports
        query = select(table).order_by(table.c.created_at.desc(), table.c.request_id).limit(limit)
        async with self._database.connect() as connection:
            return tuple(Report(**row) for row in (await connection.execute(query)).mappings())
