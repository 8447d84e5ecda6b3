"""Duties: what one process does for all that share the database, and whose they are just now.

A duty is a lease on the database's clock: whoever holds it keeps asking for it, and who dies loses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, or_, select, update

from gateway.storage import schema
from gateway.storage.columns import database_now
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database


class Duties:
    """Who does what for all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, name: str, holder: str, seconds: float) -> bool:
        """Take a duty that is free, or keep it, for so many seconds from now; False while it is somebody else's.

        Raises:
            StoreAwayError: Taken or not: ask again.

        """
        table = schema.duties
        until = database_now(seconds)
        theirs = select(table.c.name).where(
            table.c.name == name, table.c.holder != holder, table.c.until > database_now()
        )
        free = or_(table.c.holder == holder, table.c.until <= database_now())
        taken = update(table).where(table.c.name == name, free).values(holder=holder, until=until)
        # Who only waits writes nothing.
        async with self._database.connect() as connection:
            if await connection.scalar(theirs) is not None:
                return False

        async def work(connection: AsyncConnection) -> bool:
            if (await connection.execute(taken)).rowcount:
                return True
            first = insert_missing(connection.dialect.name, table)
            row = {"name": name, "holder": holder, "until": until}
            return bool((await connection.execute(first.values(row))).rowcount)

        return await self._database.transact(work)

    async def leave(self, name: str, holder: str) -> None:
        """Let go of a duty; one that is somebody else's is passed over."""
        table = schema.duties

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(table).where(table.c.name == name, table.c.holder == holder))

        await self._database.transact(work)
