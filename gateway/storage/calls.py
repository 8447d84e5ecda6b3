"""The ledger: every call's row written once, and the day's spending that follows from the rows, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from functools import cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select, tuple_
from sqlalchemy.exc import DBAPIError, IntegrityError

from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.usage import Usage
from gateway.storage import reservations, schema
from gateway.storage.conversations import ConversationPair, append_pair
from gateway.storage.database import transact
from gateway.storage.outages import DeadlockError, LostError
from gateway.storage.reservations import Held, RefusedError, Reservation, Reserved, Spent
from gateway.storage.upserts import insert_adding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Insert, RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database
    from gateway.storage.prepared import Row

RESERVATION_SECONDS = 60.0
"""Lease of a reservation in the database."""
ORPHAN_SECONDS = 60.0
"""So long an orphan belongs to whoever took it."""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is written when a call has ended.

    Attributes:
        pair: The conversation's pair that is written in the same transaction.
        reserved_in_database: Its reservation is (or may be) in the database and ends with this.

    """

    record: CallRecord
    pair: ConversationPair | None = None
    reserved_in_database: bool = False


class Calls:
    """Ledger, spending and reservations in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held = database.hold()

    async def close(self) -> None:
        """Give the held connection back."""
        await self._held.close()

    # --- the ledger -------------------------------------------------------------------------------------------------

    async def commit(self, entries: Sequence[LedgerEntry], *, again: bool = False) -> int:
        """Write rows, spending, pairs and the ends of reservations in one transaction; gives how many rows were new.

        A request id that is in the ledger already changes nothing but that its reservation ends, so that a commit
        whose answer was lost may be repeated; with `again` this is looked up first instead of found out.

        Raises:
            StoreAwayError: Written or not: repeat with `again`.

        """
        unique = list({entry.record.request_id: entry for entry in reversed(entries)}.values())
        unique.reverse()
        if not unique:
            return 0

        if not again and not any(entry.pair is not None or entry.reserved_in_database for entry in unique):
            try:
                await self._held.write(_rows(self._database.dialect, unique))
            except (DeadlockError, LostError, DBAPIError):
                # Undone, perhaps carried out, or refused: the longer way finds out, and looks first.
                again = True
            else:
                return len(unique)

        async def work(connection: AsyncConnection) -> int:
            fresh = await self._fresh(connection, unique) if again else unique
            await _write(connection, fresh, unique)
            return len(fresh)

        for _ in range(3):
            try:
                return await transact(self._held.begin, work)
            except IntegrityError:
                # Some are there: from a lost answer, or another process imports the same.
                again = True
        return await transact(self._held.begin, work)

    async def find_call(self, project: str, request_id: str) -> CallRecord | None:
        """Give a project's ledger row."""
        table = schema.calls
        query = select(table).where(table.c.project == project, table.c.request_id == request_id)
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            return None if row is None else read_call(row)

    async def recent_calls(self, project: str | None = None, limit: int = 100) -> Sequence[CallRecord]:
        """Give the newest rows, newest first: a project's, or (for operators) all."""
        table = schema.calls
        if project is None:
            query = select(table).order_by(table.c.started_at.desc())
        else:
            query = select(table).where(table.c.project == project)
            query = query.order_by(table.c.day.desc(), table.c.started_at.desc())
        async with self._database.connect() as connection:
            rows = await connection.execute(query.limit(limit))
            return tuple(read_call(row) for row in rows.mappings())

    # --- spending ---------------------------------------------------------------------------------------------------

    async def spent(self, project: str, day: date) -> int:
        """Micro-dollars of a project's day: settled, and held by batches."""
        return (await self.spent_many([(project, day)]))[project, day]

    async def spent_many(self, days: Iterable[tuple[str, date]]) -> Mapping[tuple[str, date], int]:
        """`spent` of several days in one reading; a day without spending is 0."""
        wanted = sorted(set(days))
        if not wanted:
            return {}
        table = schema.spending
        query = select(table.c.project, table.c.day, table.c.settled + table.c.batches)
        async with self._database.connect() as connection:
            found = await connection.execute(query.where(tuple_(table.c.project, table.c.day).in_(wanted)))
            totals = {(project, day): total for project, day, total in found}
        return {key: totals.get(key, 0) for key in wanted}

    # --- reservations -----------------------------------------------------------------------------------------------

    async def reserve(
        self,
        reservation: Reservation,
        cap: int | None,
        *,
        strict: bool = False,
        lease_seconds: float = RESERVATION_SECONDS,
    ) -> Reserved | Spent | Held:
        """Hold an amount of the day's cap (None: no cap), at any concurrency over any number of processes.

        Admitted while settled + batches + reserved + amount ≤ cap, and (not if `strict`) always when nothing is
        reserved and settled + batches < cap. Asking again with the same request id changes nothing.

        Raises:
            StoreAwayError: Held or not: ask again, or `release_reservations`.

        """

        async def work(connection: AsyncConnection) -> Reserved:
            return await reservations.reserve(connection, reservation, cap, lease_seconds, strict=strict)

        try:
            return await self._database.transact(work)
        except RefusedError as refused:
            return refused.verdict

    async def renew_reservations(
        self, living: Sequence[Reservation], *, lease_seconds: float = RESERVATION_SECONDS
    ) -> None:
        """Keep the reservations of running calls; those that are missing (held elsewhere until now) are written.

        What is in the ledger already is not held again.
        """
        if not living:
            return

        async def work(connection: AsyncConnection) -> None:
            await reservations.renew(connection, living, lease_seconds)

        await self._database.transact(work)

    async def release_reservations(self, project: str, request_ids: Iterable[str]) -> None:
        """Let go of what calls that spent nothing held; what is not held is passed over."""
        wanted = [(project, request_id) for request_id in request_ids]
        if not wanted:
            return

        async def work(connection: AsyncConnection) -> None:
            await reservations.release(connection, wanted)

        await self._database.transact(work)

    async def orphan_reservations(
        self, limit: int = 100, *, lease_seconds: float = ORPHAN_SECONDS
    ) -> Sequence[Reservation]:
        """Give reservations whose process died (the lease has passed, on the database's clock).

        Each is handed to one asker at a time, who commits a ledger entry for it (with `reserved_in_database`).
        """

        async def work(connection: AsyncConnection) -> Sequence[Reservation]:
            return await reservations.orphans(connection, limit, lease_seconds)

        return await self._database.transact(work)

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _fresh(
        self, connection: AsyncConnection, entries: Sequence[LedgerEntry]
    ) -> Sequence[LedgerEntry]:
        # By id alone: a removed project's row bears another name by now, and is there all the same.
        table = schema.calls
        ids = [entry.record.request_id for entry in entries]
        there = set(await connection.scalars(select(table.c.request_id).where(table.c.request_id.in_(ids))))
        return [entry for entry in entries if entry.record.request_id not in there]


async def _write(
    connection: AsyncConnection, fresh: Sequence[LedgerEntry], entries: Sequence[LedgerEntry]
) -> None:
    if fresh:
        await connection.execute(INSERT_CALLS, [ledger_row(entry.record) for entry in fresh])
    held = [(each.record.project, each.record.request_id) for each in entries if each.reserved_in_database]
    if held:
        await reservations.release(connection, held)
    if fresh:
        await _settle(connection, fresh)
    for entry in fresh:
        if entry.pair is not None:
            await append_pair(connection, entry.pair)


def _rows(dialect: str, entries: Sequence[LedgerEntry]) -> Sequence[tuple[Insert, Sequence[Row]]]:
    """Give what `_write` writes of new entries that are nothing but rows."""
    rows = [_ledger_values(entry.record) for entry in entries]
    settled = [_spending_values(each) for each in _settled(entries)]
    return (INSERT_CALLS, rows), (_adding_spending(dialect), settled)


async def _settle(connection: AsyncConnection, entries: Sequence[LedgerEntry]) -> None:
    await connection.execute(_adding_spending(connection.dialect.name), _settled(entries))


def _settled(entries: Sequence[LedgerEntry]) -> list[dict[str, Any]]:
    days: defaultdict[tuple[str, date], int] = defaultdict(int)
    for entry in entries:
        days[entry.record.project, entry.record.day] += entry.record.cost
    # In one order everywhere: processes that add to the same rows wait for each other, and not in a circle.
    return [
        {"project": project, "day": day, "settled": cost, "reserved": 0, "batches": 0}
        for (project, day), cost in sorted(days.items())
    ]


@cache
def _adding_spending(dialect: str) -> Insert:
    return insert_adding(dialect, schema.spending, ["settled"])


def ledger_row(record: CallRecord) -> dict[str, Any]:
    """Give the columns of a ledger row."""
    return dict(zip(LEDGER_COLUMNS, _ledger_values(record), strict=True))


def _place(column: str) -> str:
    """Give where in a record a ledger column's value is."""
    if column == "outcome":
        return "outcome.value"
    return f"usage.{column}" if column in Usage.__struct_fields__ else column


LEDGER_COLUMNS = schema.calls.columns.keys()
_ledger_values: Callable[[CallRecord], Row] = attrgetter(*map(_place, LEDGER_COLUMNS))
_spending_values: Callable[[dict[str, Any]], Row] = itemgetter(*schema.spending.columns.keys())
INSERT_CALLS = insert(schema.calls)


def read_call(row: RowMapping) -> CallRecord:
    """Make the noun of a ledger row."""
    fields = dict(row)
    usage = Usage(**{name: fields.pop(name) for name in Usage.__struct_fields__})
    return CallRecord(**fields | {"usage": usage, "outcome": Outcome(row["outcome"])})
