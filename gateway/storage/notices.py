"""Notices in the database: what is to be told of ended batches, each row written with the batch's own end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, select, update

from gateway.domain.batches import Batch, BatchState
from gateway.domain.notices import WITHDRAWN, Delivery, Notice
from gateway.storage import schema
from gateway.storage.calls import ledger_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.calls import CallRecord
    from gateway.storage.database import Database

DELETED_AT_ONCE = 1_000


class Notices:
    """Notices that wait, and what became of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, projects: Collection[str], now: datetime) -> Sequence[Notice]:
        """Give of each of these projects the notice that has been due for the longest, if one is."""
        table = schema.notices
        place = func.row_number().over(partition_by=table.c.project, order_by=(table.c.due_at, table.c.id))
        waiting = and_(table.c.project.in_(sorted(projects)), table.c.due_at <= now)
        ranked = select(table, place.label("place")).where(waiting).subquery()
        query = select(*(ranked.c[column.name] for column in table.c)).where(ranked.c.place == 1)
        async with self._database.connect() as connection:
            rows = await connection.execute(query)
            return tuple(_read(row) for row in rows.mappings())

    async def address(self, project: str) -> tuple[str, bytes] | None:
        """Where an active project is told, and the sealed secret that signs it; None if nowhere."""
        table = schema.projects
        query = select(table.c.notice_url, table.c.notice_secret).where(table.c.name == project)
        query = query.where(table.c.active, table.c.notice_url.is_not(None))
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
            return None if row is None else (row.notice_url, row.notice_secret)

    async def told(
        self, notice: Notice, delivery: Delivery, record: CallRecord, *, at: datetime, again: datetime | None
    ) -> bool:
        """Write what came of one more attempt, and its ledger row, which costs nothing.

        Args:
            notice: As it was before the attempt.
            record: Of the notice's project.
            at: When it was tried.
            again: When it is to be tried again, if it failed; None when it is given up.

        Returns:
            False when somebody else wrote this attempt first, or the notice or its project is not there any more.

        """
        projects, table = schema.projects, schema.notices
        # Before the project's removal, or not at all: its ledger rows are made anonymous then.
        lock = select(projects.c.name).where(projects.c.name == notice.project, projects.c.active)
        mine = and_(_mine(notice), table.c.attempts == notice.attempts, table.c.due_at.is_not(None))
        end = {
            "attempts": notice.attempts + 1,
            "outcome": delivery.outcome,
            "attempted_at": at,
            "delivered_at": at if delivery.delivered else None,
            "due_at": None if delivery.delivered else again,
        }

        async def work(connection: AsyncConnection) -> bool:
            if await connection.scalar(lock.with_for_update()) is None:
                return False
            if not (await connection.execute(update(table).where(mine).values(end))).rowcount:
                return False
            await connection.execute(insert(schema.calls).values(ledger_row(record)))
            return True

        return await self._database.transact(work)

    async def recent(self, project: str, limit: int = 100) -> Sequence[Notice]:
        """Give a project's newest notices, newest first."""
        table = schema.notices
        query = select(table).where(table.c.project == project)
        query = query.order_by(table.c.created_at.desc(), table.c.id).limit(limit)
        async with self._database.connect() as connection:
            return tuple(_read(row) for row in (await connection.execute(query)).mappings())

    async def delete_older_than(self, instant: datetime) -> int:
        """Delete notices made before `instant`; gives how many. For retention, over all projects."""
        table = schema.notices

        async def piece(connection: AsyncConnection) -> int:
            query = select(table.c.project, table.c.id).where(table.c.created_at < instant)
            found = (await connection.execute(query.limit(DELETED_AT_ONCE))).all()
            for project, name in found:
                await connection.execute(delete(table).where(table.c.project == project, table.c.id == name))
            return len(found)

        total = 0
        while deleted := await self._database.transact(piece):
            total += deleted
        return total


async def announce(connection: AsyncConnection, batch: Batch, name: str) -> None:
    """Leave a notice of a batch that ends in this transaction, if its project wants to be told."""
    projects = schema.projects
    wanted = select(projects.c.name).where(
        projects.c.name == batch.project, projects.c.notice_url.is_not(None)
    )
    if await connection.scalar(wanted) is None:
        return
    row = {
        "project": batch.project,
        "id": name,
        "batch": batch.number,
        "state": batch.state.value,
        "total": batch.total,
        "created_at": batch.settled_at,
        "due_at": batch.settled_at,
        "attempts": 0,
    }
    await connection.execute(insert(schema.notices).values(row))


async def withdraw(connection: AsyncConnection, project: str) -> None:
    """Tell nothing more of what waits, in an open transaction: the project has no address any more."""
    table = schema.notices
    waiting = update(table).where(table.c.project == project, table.c.due_at.is_not(None))
    await connection.execute(waiting.values(due_at=None, outcome=WITHDRAWN))


def _mine(notice: Notice) -> ColumnElement[bool]:
    return and_(schema.notices.c.project == notice.project, schema.notices.c.id == notice.id)


def _read(row: RowMapping) -> Notice:
    return Notice(**dict(row) | {"state": BatchState(row["state"])})
