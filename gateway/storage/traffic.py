"""What is called, hour by hour. An hour that is over hardly changes: it is summed once and kept for a while, so that a
busy day costs an administrator's page no more than its last hours.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import case, func, select

from gateway.domain.calls import CallRecord, Outcome
from gateway.storage import schema
from gateway.storage.calls import read_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.storage.database import Database

HOUR = timedelta(hours=1)
OPEN = timedelta(minutes=10)
"""Calls are written when they end: for so long an hour that is over is still summed anew each time."""
KEPT_SECONDS = 600.0
"""After so long it is summed again all the same: what a store missed comes in late."""
MOST_KEPT = 100
FAILED = (Outcome.FAILED.value, Outcome.LOST.value)
NOTICES = (Outcome.NOTIFIED.value, Outcome.NOT_NOTIFIED.value)
"""Rows that are no calls."""


class Traffic(msgspec.Struct, frozen=True):
    """Calls of the hour that begins at `hour`, of one project, recipe and model; `cost` is micro-dollars."""

    hour: datetime
    project: str
    recipe: str
    model: str
    calls: int
    failed: int
    fallbacks: int
    cached: int
    cost: int


class _Sum(msgspec.Struct, frozen=True):
    until: float
    lines: tuple[Traffic, ...]


class HourlyTraffic:
    """Sums of the ledger by hour."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[datetime, _Sum] = {}

    async def of(self, hours: Sequence[datetime], now: datetime) -> Sequence[Traffic]:
        """Give what was called in the hours that begin at these instants."""
        found: list[Traffic] = []
        for hour in hours:
            kept = self._kept.get(hour)
            if kept is not None and time.monotonic() < kept.until:
                found += kept.lines
                continue
            lines = await self._sum(hour)
            if hour + HOUR + OPEN <= now:
                self._kept[hour] = _Sum(time.monotonic() + KEPT_SECONDS, lines)
            found += lines
        while len(self._kept) > MOST_KEPT:
            del self._kept[min(self._kept)]
        return tuple(found)

    async def failures(self, traffic: Sequence[Traffic], most: int) -> Sequence[CallRecord]:
        """Give the newest failed calls of what `of` gave; hours without any are not looked at."""
        table = schema.calls
        found: list[CallRecord] = []
        for hour in sorted({one.hour for one in traffic if one.failed}, reverse=True):
            if len(found) >= most:
                break
            query = (
                select(table)
                .where(
                    table.c.started_at >= hour,
                    table.c.started_at < hour + HOUR,
                    table.c.outcome.in_(FAILED),
                )
                .order_by(table.c.started_at.desc())
                .limit(most - len(found))
            )
            async with self._database.connect() as connection:
                found += [read_call(row) for row in (await connection.execute(query)).mappings()]
        return tuple(found)

    async def _sum(self, hour: datetime) -> tuple[Traffic, ...]:
        table = schema.calls
        groups = (table.c.project, table.c.recipe, table.c.model)
        query = (
            select(
                *groups,
                func.count(),
                func.sum(case((table.c.outcome.in_(FAILED), 1), else_=0)),
                func.sum(case((table.c.fallback.is_not(None), 1), else_=0)),
                func.sum(case((table.c.outcome == Outcome.CACHE.value, 1), else_=0)),
                func.sum(table.c.cost),
            )
            .where(
                table.c.started_at >= hour,
                table.c.started_at < hour + HOUR,
                table.c.outcome.not_in(NOTICES),
            )
            .group_by(*groups)
        )
        async with self._database.connect() as connection:
            rows = await connection.execute(query)
            return tuple(Traffic(hour, *row[:3], *(int(one) for one in row[3:])) for row in rows)
