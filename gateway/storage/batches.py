"""Batches: rows of deferred work, with what they hold of a day's cap until they are settled, each exactly once.

Locks of rows that are there are taken in one order: project, reservations, batches, spending.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, case, delete, func, insert, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from gateway.domain.batches import Batch, BatchState
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.catalog import Reasoning, Target
from gateway.storage import reservations, schema
from gateway.storage.calls import ledger_row
from gateway.storage.refusals import UnknownError
from gateway.storage.reservations import EMPTY_DAY
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

TURN_SECONDS = 20.0
"""A provider is asked about a batch once in so many seconds."""
LISTED_AT_ONCE = 100
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


class _RefusedError(Exception):
    """Undoes the transaction of a batch that is not opened."""

    def __init__(self, verdict: TooManyOpen | NoRoom) -> None:
        super().__init__()
        self.verdict = verdict


class Batches:
    """Batches in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- handing in -------------------------------------------------------------------------------------------------

    async def open(self, batch: Batch, cap: int | None, most_open: int) -> Opened | TooManyOpen | NoRoom:
        """Write a batch and hold its amount of the day's cap (None: no cap), at any concurrency.

        Admitted while the project has less than `most_open` running batches and settled + batches + reserved + amount
        ≤ cap. What the database held for the call that hands it in (by its request id) becomes the batch's. Asking
        again with the same number changes nothing.

        Raises:
            UnknownError: The project was disabled or removed meanwhile.
            StoreAwayError: Written or not: ask again, or `cancel`.

        """
        try:
            return await self._database.transact(lambda connection: _open(connection, batch, cap, most_open))
        except _RefusedError as refused:
            return refused.verdict

    async def sent(self, project: str, number: str, provider_id: str) -> bool:
        """Note the provider's name of a batch that has none yet; saying it again is True too.

        False when the batch is not there (any more), bears another name, or the name is another batch's.
        """
        table = schema.batches
        free = or_(table.c.provider_id.is_(None), table.c.provider_id == provider_id)
        named = update(table).where(_mine(project, number), free).values(provider_id=provider_id)

        async def work(connection: AsyncConnection) -> bool:
            return bool((await connection.execute(named)).rowcount)

        try:
            return await self._database.transact(work)
        except IntegrityError:
            return False

    async def cancel(self, project: str, number: str) -> bool:
        """Delete a batch that the provider clearly refused, and let go of what it held.

        False when it is not there, has ended, or the provider has it.
        """
        table = schema.batches
        refused = and_(_unsettled(project, number), table.c.provider_id.is_(None))

        async def work(connection: AsyncConnection) -> bool:
            query = select(table.c.day, table.c.reserved).where(refused).with_for_update()
            held = (await connection.execute(query)).one_or_none()
            if held is None:
                return False
            await connection.execute(delete(table).where(refused))
            await _let_go(connection, project, held.day, held.reserved, cost=0)
            return True

        return await self._database.transact(work)

    async def count_open(self, project: str) -> int:
        """How many of the project's batches are running."""
        async with self._database.connect() as connection:
            return await _count_open(connection, project)

    async def held_ids(self, provider: str) -> frozenset[str]:
        """Give the provider's names of all batches known here, running or ended.

        Over all projects, because whose a provider's batch is must be ruled out for each of them before an ambiguous
        submission is said to be it. Only the names are read, and they never leave the matching.
        """
        table = schema.batches
        query = select(table.c.provider_id)
        query = query.where(table.c.provider == provider, table.c.provider_id.is_not(None))
        async with self._database.connect() as connection:
            return frozenset(await connection.scalars(query))

    # --- collecting -------------------------------------------------------------------------------------------------

    async def get(self, project: str, number: str, since: datetime) -> Batch | None:
        """Give a project's batch that was created at or after `since`."""
        table = schema.batches
        query = select(table).where(_mine(project, number), table.c.created_at >= since)
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            # To the letter: MariaDB would not mind blanks at the end.
            return _read(row) if row is not None and row["number"] == number else None

    async def take_turn(
        self, project: str, number: str, now: datetime, seconds: float = TURN_SECONDS
    ) -> bool:
        """Whether the asker may ask the provider about a running batch: one in so many seconds of business time."""
        table = schema.batches
        due = or_(table.c.polled_at.is_(None), table.c.polled_at <= now - timedelta(seconds=seconds))
        turn = update(table).where(_unsettled(project, number), due).values(polled_at=now)

        async def work(connection: AsyncConnection) -> bool:
            return bool((await connection.execute(turn)).rowcount)

        return await self._database.transact(work)

    async def settle(self, batch: Batch, record: CallRecord) -> bool:
        """Write how a batch ended and its ledger row; its cost takes the place of what it held. All of it once.

        Args:
            batch: With its final `state`, `outcomes` and `settled_at`.
            record: Of the batch's project and day.

        Returns:
            False when it was settled before, or is not there.

        Raises:
            StoreAwayError: Settled or not: ask again, and False then means that it is.

        """
        if batch.state is BatchState.RUNNING or batch.settled_at is None:
            raise ValueError("a batch that has not ended")
        if (record.project, record.day) != (batch.project, batch.day):
            raise ValueError("a ledger row of another project or day")
        table = schema.batches
        unsettled = _unsettled(batch.project, batch.number)
        end = {"state": batch.state.value, "outcomes": batch.outcomes, "settled_at": batch.settled_at}

        async def work(connection: AsyncConnection) -> bool:
            query = select(table.c.reserved).where(unsettled).with_for_update()
            reserved = await connection.scalar(query)
            if reserved is None:
                return False
            await connection.execute(update(table).where(unsettled).values(end))
            await connection.execute(insert(schema.calls).values(ledger_row(record)))
            await _let_go(connection, batch.project, batch.day, reserved, cost=record.cost)
            return True

        return await self._database.transact(work)

    # --- upkeep -----------------------------------------------------------------------------------------------------

    async def unsettled_before(self, instant: datetime, limit: int = LISTED_AT_ONCE) -> Sequence[Batch]:
        """Give batches created before `instant` that nobody has collected, oldest first, over all projects."""
        table = schema.batches
        query = select(table).where(table.c.settled_at.is_(None), table.c.created_at < instant)
        async with self._database.connect() as connection:
            rows = await connection.execute(query.order_by(table.c.created_at).limit(limit))
            return tuple(_read(row) for row in rows.mappings())

    async def delete_older_than(self, instant: datetime) -> int:
        """Delete settled batches created before `instant`; gives how many. For retention, over all projects."""
        return await delete_settled(self._database, schema.batches.c.created_at < instant)


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
    running = [_read(row) for row in (await connection.execute(query)).mappings()]
    if running:
        rows = [ledger_row(_lost(batch, label)) for batch in running]
        await connection.execute(insert(schema.calls), rows)
    await connection.execute(delete(table).where(table.c.project == project))


# --- inside -------------------------------------------------------------------------------------------------------


async def _open(connection: AsyncConnection, batch: Batch, cap: int | None, most_open: int) -> Opened:
    # The project's lock: its opens come one after the other, so that the count is exact, and none after its removal.
    projects, table = schema.projects, schema.batches
    lock = select(projects.c.name).where(projects.c.name == batch.project, projects.c.active)
    if await connection.scalar(lock.with_for_update()) is None:
        raise UnknownError(f"there is no active project {batch.project!r}")
    if await connection.scalar(select(table.c.number).where(_mine(batch.project, batch.number))):
        # Written before, and the answer was lost on the way.
        return Opened()
    if await _count_open(connection, batch.project) >= most_open:
        raise _RefusedError(TooManyOpen())
    await reservations.release(connection, [(batch.project, batch.request_id)])
    await connection.execute(insert(table).values(_row(batch)))
    await _hold(connection, batch, cap)
    return Opened()


async def _hold(connection: AsyncConnection, batch: Batch, cap: int | None) -> None:
    """Hold the batch's amount, or raise `_RefusedError`."""
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
    raise _RefusedError(NoRoom(found, alone=cap is not None and batch.reserved > cap))


async def _let_go(connection: AsyncConnection, project: str, day: date, amount: int, *, cost: int) -> None:
    table = schema.spending
    rest = table.c.batches - amount
    change = {"settled": table.c.settled + cost, "batches": case((rest > 0, rest), else_=0)}
    await connection.execute(update(table).where(_day(project, day)).values(change))


async def _count_open(connection: AsyncConnection, project: str) -> int:
    table = schema.batches
    running = and_(table.c.project == project, table.c.state == BatchState.RUNNING.value)
    return await connection.scalar(select(func.count()).select_from(table).where(running)) or 0


def _mine(project: str, number: str) -> ColumnElement[bool]:
    return and_(schema.batches.c.project == project, schema.batches.c.number == number)


def _unsettled(project: str, number: str) -> ColumnElement[bool]:
    return and_(_mine(project, number), schema.batches.c.settled_at.is_(None))


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


def _read(row: RowMapping) -> Batch:
    fields = dict(row)
    target = {name: fields.pop(name) for name in Target.__struct_fields__}
    target["reasoning"] = Reasoning(target["reasoning"])
    return Batch(**fields | {"target": Target(**target), "state": BatchState(row["state"])})
