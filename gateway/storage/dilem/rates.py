"""What an address did in an hour or a day, counted in the database: exact over workers and nodes.

Every function works in an open transaction, which undoes what it counted if it is undone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import and_, case, select, update

from gateway.storage import schema
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

HOUR_SECONDS = 3_600
DAY_SECONDS = 86_400


class Window(msgspec.Struct, frozen=True):
    """An hour or a day of business time (UTC) in which something is counted.

    Attributes:
        name: What is counted, and of whom.
        seconds: Its length.
        number: Its place since the epoch.

    """

    name: str
    seconds: int
    number: int

    @classmethod
    def at(cls, name: str, seconds: int, now: datetime) -> Window:
        """Give the window that `now` falls in."""
        return cls(name, seconds, int(now.timestamp()) // seconds)

    @property
    def ends_at(self) -> datetime:
        """The first instant of the next one."""
        return datetime.fromtimestamp((self.number + 1) * self.seconds, UTC)


async def take(connection: AsyncConnection, window: Window, limit: int) -> bool:
    """Count one more unless `limit` is reached, at any concurrency; whether it was counted."""
    table = schema.dilem_rates
    more = update(table).where(_row(window), table.c.n < limit).values(n=table.c.n + 1)
    if (await connection.execute(more)).rowcount:
        return True
    row = {"name": window.name, "window": window.number, "n": 0, "ends_at": window.ends_at}
    await connection.execute(insert_missing(connection.dialect.name, table).values(row))
    return bool((await connection.execute(more)).rowcount)


async def full(connection: AsyncConnection, window: Window, limit: int) -> bool:
    """Whether `limit` is reached."""
    n = await connection.scalar(select(schema.dilem_rates.c.n).where(_row(window)))
    return (n or 0) >= limit


async def give_back(connection: AsyncConnection, window: Window) -> None:
    """Count one less, never less than none."""
    table = schema.dilem_rates
    less = case((table.c.n > 0, table.c.n - 1), else_=0)
    await connection.execute(update(table).where(_row(window)).values(n=less))


def _row(window: Window) -> ColumnElement[bool]:
    table = schema.dilem_rates
    return and_(table.c.name == window.name, table.c.window == window.number)
