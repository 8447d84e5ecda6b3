"""Batches: rows of deferred work, with what they hold of a day's cap until they are settled, each exactly once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import and_, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from gateway.domain.batches import Batch, BatchState
from gateway.storage import schema
from gateway.storage.batch_rows import (
    NoRoom,
    Opened,
    RefusedError,
    TooManyOpen,
    count_running,
    delete_settled,
    let_go,
    mine,
    open_batch,
    read_batch,
    undo,
    unsettled,
)
from gateway.storage.calls import ledger_row
from gateway.storage.notices import announce

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.calls import CallRecord
    from gateway.storage.database import Database

TURN_SECONDS = 20.0
"""A provider is asked about a batch once in so many seconds."""
LISTED_AT_ONCE = 100
MOST_WATCHED = 1_000


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
            return await self._database.transact(
                lambda connection: open_batch(connection, batch, cap, most_open)
            )
        except RefusedError as refused:
            return refused.verdict

    async def sending(self, project: str, number: str, at: datetime) -> bool:
        """Note, before the provider is asked for the first time, that from now on it may have the batch.

        False when it is not there any more: `release_unsent` took it for one whose process had died.
        """
        table = schema.batches
        begun = update(table).where(unsettled(project, number)).values(sent_at=at)

        async def work(connection: AsyncConnection) -> bool:
            return bool((await connection.execute(begun)).rowcount)

        return await self._database.transact(work)

    async def sent(self, project: str, number: str, provider_id: str) -> bool:
        """Note the provider's name of a batch that has none yet; saying it again is True too.

        False when the batch is not there (any more), bears another name, or the name is another batch's.
        """
        table = schema.batches
        free = or_(table.c.provider_id.is_(None), table.c.provider_id == provider_id)
        named = update(table).where(mine(project, number), free).values(provider_id=provider_id)

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
        refused = and_(unsettled(project, number), schema.batches.c.provider_id.is_(None))
        return await self._database.transact(lambda connection: undo(connection, project, refused))

    async def count_open(self, project: str, now: datetime) -> int:
        """How many of the project's batches are running, as the limit counts them."""
        async with self._database.connect() as connection:
            return await count_running(connection, project, now)

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
        query = select(table).where(mine(project, number), table.c.created_at >= since)
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            # To the letter: MariaDB would not mind blanks at the end.
            return read_batch(row) if row is not None and row["number"] == number else None

    async def take_turn(
        self, project: str, number: str, now: datetime, seconds: float = TURN_SECONDS
    ) -> bool:
        """Whether the asker may ask the provider about a running batch: one in so many seconds of business time."""
        table = schema.batches
        due = or_(table.c.polled_at.is_(None), table.c.polled_at <= now - timedelta(seconds=seconds))
        turn = update(table).where(unsettled(project, number), due).values(polled_at=now)

        async def work(connection: AsyncConnection) -> bool:
            return bool((await connection.execute(turn)).rowcount)

        return await self._database.transact(work)

    async def settle(self, batch: Batch, record: CallRecord, notice: str | None = None) -> bool:
        """Write how a batch ended and its ledger row; its cost takes the place of what it held. All of it once.

        Args:
            batch: With its final `state`, `outcomes` and `settled_at`.
            record: Of the batch's project and day.
            notice: Name of the notice to leave, if the project wants to be told; None leaves none.

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
        running = unsettled(batch.project, batch.number)
        end = {"state": batch.state.value, "outcomes": batch.outcomes, "settled_at": batch.settled_at}

        async def work(connection: AsyncConnection) -> bool:
            query = select(table.c.reserved).where(running).with_for_update()
            reserved = await connection.scalar(query)
            if reserved is None:
                return False
            await connection.execute(update(table).where(running).values(end))
            await connection.execute(insert(schema.calls).values(ledger_row(record)))
            await let_go(connection, batch.project, batch.day, reserved, cost=record.cost)
            if notice is not None:
                await announce(connection, batch, notice)
            return True

        return await self._database.transact(work)

    async def running(
        self, projects: Collection[str], unasked_since: datetime, limit: int = MOST_WATCHED
    ) -> Sequence[Batch]:
        """Give running batches of these projects about which no provider was asked since then, the longest first."""
        table = schema.batches
        asked = func.coalesce(table.c.polled_at, table.c.created_at)
        query = select(table).where(
            table.c.project.in_(sorted(projects)),
            table.c.state == BatchState.RUNNING.value,
            asked <= unasked_since,
        )
        async with self._database.connect() as connection:
            rows = await connection.execute(query.order_by(asked, table.c.number).limit(limit))
            return tuple(read_batch(row) for row in rows.mappings())

    # --- upkeep -----------------------------------------------------------------------------------------------------

    async def unsettled_before(self, instant: datetime, limit: int = LISTED_AT_ONCE) -> Sequence[Batch]:
        """Give batches created before `instant` that nobody has collected, oldest first, over all projects."""
        table = schema.batches
        query = select(table).where(table.c.settled_at.is_(None), table.c.created_at < instant)
        async with self._database.connect() as connection:
            rows = await connection.execute(query.order_by(table.c.created_at).limit(limit))
            return tuple(read_batch(row) for row in rows.mappings())

    async def release_unsent(self, before: datetime) -> Sequence[Batch]:
        """Delete batches created before `before` that were certainly never sent, and let go of what they held.

        Over all projects. Their processes died first; one that is only slow finds out when it begins `sending`.
        """
        table = schema.batches
        unsent = and_(table.c.sent_at.is_(None), table.c.provider_id.is_(None), table.c.settled_at.is_(None))
        query = select(table).where(unsent, table.c.created_at < before).limit(LISTED_AT_ONCE)
        async with self._database.connect() as connection:
            found = [read_batch(row) for row in (await connection.execute(query)).mappings()]
        return [batch for batch in found if await self._release(batch, unsent)]

    async def _release(self, batch: Batch, unsent: ColumnElement[bool]) -> bool:
        which = and_(mine(batch.project, batch.number), unsent)
        return await self._database.transact(lambda connection: undo(connection, batch.project, which))

    async def delete_older_than(self, instant: datetime) -> int:
        """Delete settled batches created before `instant`; gives how many. For retention, over all projects."""
        return await delete_settled(self._database, schema.batches.c.created_at < instant)
