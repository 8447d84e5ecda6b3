"""Alerts in the database: a row for each thing, day and way, so that over all nodes it is told once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, select, update

from gateway.domain.alerts import AFTER_SECONDS, SUBJECT_CHARACTERS, AlertKind, Channel, Pending
from gateway.storage import schema
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date, datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database


class Alerts:
    """What was noticed, and what became of telling it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(
        self, kind: AlertKind, subject: str, day: date, channels: Collection[Channel], at: datetime
    ) -> None:
        """Have something told on these ways, unless it was noted for them that day already."""
        table = schema.alerts
        rows = [
            {
                "day": day,
                "kind": _kind(kind, channel),
                "subject": subject[:SUBJECT_CHARACTERS],
                "at": at,
                "attempts": 0,
            }
            for channel in channels
        ]

        async def work(connection: AsyncConnection) -> None:
            missing = insert_missing(connection.dialect.name, table)
            for row in rows:
                await connection.execute(missing.values(row))

        await self._database.transact(work)

    async def pending(self, since: date) -> Sequence[Pending]:
        """Give what was noted since that day and is neither told nor given up."""
        table = schema.alerts
        query = select(table).where(
            table.c.day >= since, table.c.sent_at.is_(None), table.c.attempts < len(AFTER_SECONDS)
        )
        async with self._database.connect() as connection:
            rows = (await connection.execute(query.order_by(table.c.at))).mappings()
            return tuple(
                Pending(
                    day=row["day"],
                    kind=AlertKind(row["kind"].partition(":")[0]),
                    channel=Channel(row["kind"].partition(":")[2]),
                    subject=row["subject"],
                    at=row["at"],
                    attempts=row["attempts"],
                )
                for row in rows
            )

    async def take(self, pending: Pending) -> bool:
        """Count an attempt before it is made; False when somebody else makes it."""
        table = schema.alerts
        mine = and_(_mine(pending), table.c.sent_at.is_(None), table.c.attempts == pending.attempts)

        async def work(connection: AsyncConnection) -> bool:
            taken = update(table).where(mine).values(attempts=pending.attempts + 1)
            return bool((await connection.execute(taken)).rowcount)

        return await self._database.transact(work)

    async def told(self, pending: Pending, at: datetime) -> None:
        """Note that it was told."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(update(schema.alerts).where(_mine(pending)).values(sent_at=at))

        await self._database.transact(work)

    async def give_up(self, pending: Pending) -> None:
        """Tell it no more: it isn't true any longer."""

        async def work(connection: AsyncConnection) -> None:
            given_up = update(schema.alerts).where(_mine(pending)).values(attempts=len(AFTER_SECONDS))
            await connection.execute(given_up)

        await self._database.transact(work)

    async def forget(self, before: date) -> None:
        """Delete what was noted before that day."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(schema.alerts).where(schema.alerts.c.day < before))

        await self._database.transact(work)


def _kind(kind: AlertKind, channel: Channel) -> str:
    return f"{kind.value}:{channel.value}"


def _mine(pending: Pending) -> ColumnElement[bool]:
    table = schema.alerts
    return and_(
        table.c.day == pending.day,
        table.c.kind == _kind(pending.kind, pending.channel),
        table.c.subject == pending.subject,
    )
