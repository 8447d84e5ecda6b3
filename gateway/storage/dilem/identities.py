"""Identities: known by the digest of a token, made at most so often per address, deleted long after they expired."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import delete, insert, select, tuple_, update

from gateway.storage import schema
from gateway.storage.dilem import rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Table
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database
    from gateway.storage.dilem.rates import Window

DELETED_AT_ONCE = 500
"""Rows deleted in one transaction."""


class Identity(msgspec.Struct, frozen=True):
    """Who calls, by the token shown."""

    id: int
    expires_at: datetime


class _FullError(Exception):
    """Undoes the transaction of an identity that is not made."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window


class Identities:
    """Identities in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, digest: bytes) -> Identity | None:
        """Give the identity of a token's digest, expired or not."""
        table = schema.dilem_identities
        query = select(table.c.id, table.c.expires_at).where(table.c.token == digest)
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else Identity(row.id, row.expires_at)

    async def create(
        self, digest: bytes, now: datetime, expires_at: datetime, limits: Sequence[tuple[Window, int]]
    ) -> Window | None:
        """Make an identity; None when it is made, else the window that is full (and nothing is counted)."""
        row = {"token": digest, "created_at": now, "expires_at": expires_at}

        async def work(connection: AsyncConnection) -> None:
            for window, limit in limits:
                if not await rates.take(connection, window, limit):
                    raise _FullError(window)
            await connection.execute(insert(schema.dilem_identities).values(row))

        try:
            await self._database.transact(work)
        except _FullError as full:
            return full.window
        return None

    async def renew(self, identity: int, expires_at: datetime) -> bool:
        """Let an identity live on; False when it is not there (any more)."""
        table = schema.dilem_identities

        async def work(connection: AsyncConnection) -> bool:
            longer = update(table).where(table.c.id == identity).values(expires_at=expires_at)
            return bool((await connection.execute(longer)).rowcount)

        return await self._database.transact(work)

    # --- retention --------------------------------------------------------------------------------------------------

    async def forget_expired(self, before: datetime) -> int:
        """Delete identities that expired at or before an instant, with all that is theirs but reports; gives how many."""
        table = schema.dilem_identities

        async def piece(connection: AsyncConnection) -> int:
            query = select(table.c.id).where(table.c.expires_at <= before).limit(DELETED_AT_ONCE)
            gone = list(await connection.scalars(query.with_for_update()))
            if not gone:
                return 0
            for belonging in (schema.dilem_exchanges, schema.dilem_results, schema.dilem_cases):
                await connection.execute(delete(belonging).where(belonging.c.identity.in_(gone)))
            await connection.execute(delete(table).where(table.c.id.in_(gone)))
            return len(gone)

        total = 0
        while deleted := await self._database.transact(piece):
            total += deleted
        return total

    async def forget_texts(self, before: datetime, reports_before: datetime, now: datetime) -> None:
        """Delete what was said and voted on at or before an instant, reports likewise, and windows that have ended."""
        await self._sweep(schema.dilem_exchanges, "created_at", before)
        await self._sweep(schema.dilem_results, "created_at", before)
        await self._sweep(schema.dilem_reports, "created_at", reports_before)
        await self._sweep(schema.dilem_rates, "ends_at", now)

    async def _sweep(self, table: Table, column: str, before: datetime) -> None:
        keys = list(table.primary_key)

        async def piece(connection: AsyncConnection) -> int:
            query = select(*keys).where(table.c[column] <= before).limit(DELETED_AT_ONCE)
            found = [tuple(row) for row in await connection.execute(query)]
            if found:
                await connection.execute(delete(table).where(tuple_(*keys).in_(found)))
            return len(found)

        while await self._database.transact(piece):
            pass
