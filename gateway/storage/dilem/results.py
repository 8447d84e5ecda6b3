"""Results and the votes on them, read and written only with their owner and their age in the WHERE clause."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import and_, select, update

from gateway.storage import schema

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database


class Vote(msgspec.Struct, frozen=True):
    """What an owner said of a result; nothing yet is None."""

    helpful: bool | None
    reason: str | None


class Results:
    """Results in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def vote_on(self, identity: int, result_id: str, after: datetime) -> Vote | None:
        """Give the vote on an identity's result that is younger than `after`; None without such a result."""
        table = schema.dilem_results
        query = select(table.c.helpful, table.c.reason).where(_mine(identity, result_id, after))
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else Vote(row.helpful, row.reason)

    async def vote(self, identity: int, result_id: str, after: datetime, vote: Vote) -> bool:
        """Put a vote in place of the former; False without such a result."""
        change = update(schema.dilem_results).where(_mine(identity, result_id, after))
        change = change.values(helpful=vote.helpful, reason=vote.reason)

        async def work(connection: AsyncConnection) -> bool:
            return bool((await connection.execute(change)).rowcount)

        return await self._database.transact(work)


def _mine(identity: int, result_id: str, after: datetime) -> ColumnElement[bool]:
    table = schema.dilem_results
    return and_(table.c.id == result_id, table.c.identity == identity, table.c.created_at > after)
