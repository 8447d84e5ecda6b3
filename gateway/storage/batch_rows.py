"""Rows of batches, and what changes them in an open transaction.

Locks of rows that are there are taken in one order: project, reservations, batches, spending.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, case, delete, func, insert, or_, select, tuple_, update

from gateway.domain.batches import Batch, BatchState
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.catalog import Reasoning, Target
from gateway.storage import reservations, schema
from gateway.storage.calls import ledger_row
from gateway.storage.refusals import UnknownError
from gateway.storage.reservations import EMPTY_DAY
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

NAMELESS_HOURS = 25
"""So long a batch may be looked for whose name at the provider is not known; then nobody waits for it any more."""
DELETED_AT_ONCE = 100
"""Batches deleted in one transaction: their answers may be long."""


class Opened(msgspec.Struct, frozen=True):
    """The batch is written and its amount held."""


class TooManyOpen(msgspec.Struct, frozen=True):
    """Nothing is written: the project has as many open batches as it may."""


class NoRoom(msgspec.Struct, frozen=True):
    """Nothing is written: the amount does not fit the day's cap.

    Attributes:
        spent: Micro-dollars of the day, settled and of batches.
        alone: The amount is larger than the whole cap.

    """

    spent: int
    alone: bool


class RefusedError(Exception):
    """Undoes the transaction of a batch that is not opened."""

    def __init__(self, verdict: TooManyOpen | NoRoom) -> None:
        super().__init__()
        self.verdict = verdict


async def delete_settled(database: Database, which: ColumnElement[bool]) -> int:
    """Delete settled batches piece by piece; gives how many."""
    table = schema.batches
    settled = and_(which, table.c.settled_at.is_not(None))

    async def piece(connection: AsyncConnection) -> int:
        query = select(table.c.project, table.c.number).where(settled).limit(DELETED_AT_ONCE)
        found = [(row.project, row.number) for row in await connection.execute(query)]
        if not found:
            return 0
        gone = delete(table).where(tuple_(table.c.project, table.c.number).in_(found), settled)
        return (await connection.execute(gone)).rowcount

    total = 0
    while deleted := await database.transact(piece):
        total += deleted
    return total


async def abandon(connection: AsyncConnection, project: str, label: str) -> None:
    """Delete the batches of a project that is being removed, in an open transaction.

    The provider may bill the running ones, and nobody will collect them: the ledger gets what they held, under the
    label. What that means to the project's `spending` is the caller's: all that batches held is settled.
    """
    table = schema.batches
    query = select(table).where(table.c.project == project, table.c.settled_at.is_(None)).with_for_update()
    running = [read_batch(row) for row in (await connection.execute(query)).mappings()]
    if running:
        rows = [ledger_row(_lost(batch, label)) for batch in running]
        await connection.execute(insert(schema.calls), rows)
    await connection.execute(delete(table).where(table.c.project == project))


async def open_batch(connection: AsyncConnection, batch: Batch, cap: int | None, most_open: int) -> Opened:
    """Write a batch and hold its amount; see `Batches.open`. Raises `RefusedError` and `UnknownError`."""
    # The project's lock: its opens come one after the other, so that the count is exact, and none after its removal.
    projects, table = schema.projects, schema.batches
    lock = select(projects.c.name).where(projects.c.name == batch.project, projects.c.active)
    if await connection.scalar(lock.with_for_update()) is None:
        raise UnknownError(f"there is no active project {batch.project!r}")
    if await connection.scalar(select(table.c.number).where(mine(batch.project, batch.number))):
        # Written before, and the answer was lost on the way.
        return Opened()
    if await count_running(connection, batch.project, batch.created_at) >= most_open:
        raise RefusedError(TooManyOpen())
    await reservations.release(connection, [(batch.project, batch.request_id)])
    await connection.execute(insert(table).values(_row(batch)))
    await _hold(connection, batch, cap)
    return Opened()


async def _hold(connection: AsyncConnection, batch: Batch, cap: int | None) -> None:
    """Hold the batch's amount, or raise `RefusedError`."""
    table = schema.spending
    day = _day(batch.project, batch.day)
    admitted = day
    if cap is not None:
        total = table.c.settled + table.c.batches + table.c.reserved
        admitted = and_(day, total + batch.reserved <= cap)
    hold = update(table).where(admitted).values(batches=table.c.batches + batch.reserved)
    if (await connection.execute(hold)).rowcount:
        return
    spent = select(table.c.settled + table.c.batches).where(day)
    if await connection.scalar(spent) is None:
        missing = insert_missing(connection.dialect.name, table)
        key = {"project": batch.project, "day": batch.day}
        await connection.execute(missing.values(key | EMPTY_DAY))
    # Again, if the row is there already too: it may have come after the update that did not find it.
    if (await connection.execute(hold)).rowcount:
        return
    found: int = await connection.scalar(spent) or 0
    raise RefusedError(NoRoom(found, alone=cap is not None and batch.reserved > cap))


async def let_go(connection: AsyncConnection, project: str, day: date, amount: int, *, cost: int) -> None:
    """Put what a batch cost in the place of what it held of a project's day, in micro-dollars."""
    table = schema.spending
    rest = table.c.batches - amount
    change = {"settled": table.c.settled + cost, "batches": case((rest > 0, rest), else_=0)}
    await connection.execute(update(table).where(_day(project, day)).values(change))


async def undo(connection: AsyncConnection, project: str, which: ColumnElement[bool]) -> bool:
    """Delete one of a project's batches and let go of what it held; False if it is none of `which`."""
    table = schema.batches
    query = select(table.c.day, table.c.reserved).where(which).with_for_update()
    held = (await connection.execute(query)).one_or_none()
    if held is None:
        return False
    await connection.execute(delete(table).where(which))
    await let_go(connection, project, held.day, held.reserved, cost=0)
    return True


async def count_running(connection: AsyncConnection, project: str, now: datetime) -> int:
    """How many of a project's batches are open, as its limit counts them."""
    table = schema.batches
    running = and_(table.c.project == project, table.c.state == BatchState.RUNNING.value)
    # Else one that the provider never took, and for which nobody comes, would count for a month.
    wanted = or_(table.c.provider_id.is_not(None), table.c.created_at > now - timedelta(hours=NAMELESS_HOURS))
    return await connection.scalar(select(func.count()).select_from(table).where(running, wanted)) or 0


def mine(project: str, number: str) -> ColumnElement[bool]:
    """Whether a row is this batch."""
    return and_(schema.batches.c.project == project, schema.batches.c.number == number)


def unsettled(project: str, number: str) -> ColumnElement[bool]:
    """Whether a row is this batch, and not settled yet."""
    return and_(mine(project, number), schema.batches.c.settled_at.is_(None))


def _day(project: str, day: date) -> ColumnElement[bool]:
    return and_(schema.spending.c.project == project, schema.spending.c.day == day)


def _lost(batch: Batch, label: str) -> CallRecord:
    return CallRecord(
        request_id=batch.request_id,
        project=label,
        day=batch.day,
        started_at=batch.created_at,
        recipe=batch.recipe,
        recipe_version=batch.recipe_version,
        outcome=Outcome.LOST,
        key_id=batch.key_id,
        brain=batch.target.brain,
        provider=batch.target.provider,
        model=batch.target.model,
        cost=batch.reserved,
    )


def _row(batch: Batch) -> dict[str, Any]:
    row = msgspec.structs.asdict(batch) | msgspec.structs.asdict(batch.target)
    del row["target"]
    return row | {"state": batch.state.value, "reasoning": batch.target.reasoning.value}


def read_batch(row: RowMapping | Mapping[str, Any]) -> Batch:
    """Make the noun of a row."""
    fields = dict(row)
    target = {name: fields.pop(name) for name in Target.__struct_fields__}
    target["reasoning"] = Reasoning(target["reasoning"])
    return Batch(**fields | {"target": Target(**target), "state": BatchState(row["state"])})
