"""Budget held in the database, while the gate does not reign: one conditional UPDATE decides, whatever the concurrency.

Every function works in an open transaction. Locks are taken in one order: reservations, then spending.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import and_, case, delete, insert, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from gateway.storage import schema
from gateway.storage.columns import database_now
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

EMPTY_DAY = {"settled": 0, "reserved": 0, "batches": 0}


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may spend.

    Attributes:
        day: The project's day that pays.
        amount: Micro-dollars.
        record: Opaque bytes, given back by `orphan_reservations`: what to write in the ledger if the process dies.

    """

    project: str
    day: date
    request_id: str
    amount: int
    record: bytes


class Reserved(msgspec.Struct, frozen=True):
    """The amount is held."""


class Spent(msgspec.Struct, frozen=True):
    """Nothing is held: settled and batches have reached the cap."""


class Held(msgspec.Struct, frozen=True):
    """Nothing is held: only reservations of running calls are in the way (or, strictly, the own amount is)."""


Verdict = Reserved | Spent | Held


class RefusedError(Exception):
    """Undoes the transaction of a reservation that is not admitted."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.verdict = verdict


async def reserve(
    connection: AsyncConnection,
    reservation: Reservation,
    cap: int | None,
    lease_seconds: float,
    *,
    strict: bool = False,
) -> Reserved:
    """Hold the amount, or raise `RefusedError` (the caller undoes the transaction). See `Calls.reserve`."""
    table = schema.spending
    row = msgspec.structs.asdict(reservation) | {"lease_until": database_now(lease_seconds)}
    try:
        await connection.execute(insert(schema.reservations).values(row))
    except IntegrityError:
        # Asked before, and the answer was lost on the way.
        raise RefusedError(Reserved()) from None
    day = _day(reservation.project, reservation.day)
    spent = table.c.settled + table.c.batches
    admitted: ColumnElement[bool] = day
    if cap is not None:
        fits: ColumnElement[bool] = spent + table.c.reserved + reservation.amount <= cap
        admitted = and_(day, spent < cap, fits if strict else or_(fits, table.c.reserved == 0))
    hold = update(table).where(admitted).values(reserved=table.c.reserved + reservation.amount)
    if (await connection.execute(hold)).rowcount:
        return Reserved()
    found = await connection.scalar(select(spent).where(day))
    if found is None:
        missing = insert_missing(connection.dialect.name, table)
        key = {"project": reservation.project, "day": reservation.day}
        await connection.execute(missing.values(key | EMPTY_DAY))
        if (await connection.execute(hold)).rowcount:
            return Reserved()
        found = await connection.scalar(select(spent).where(day))
    raise RefusedError(Spent() if cap is not None and (found or 0) >= cap else Held())


async def renew(
    connection: AsyncConnection, reservations: Sequence[Reservation], lease_seconds: float
) -> None:
    """Extend leases; hold again, whatever the cap, what is missing and not in the ledger. See `Calls`."""
    table, calls = schema.reservations, schema.calls
    until = database_now(lease_seconds)
    ids = sorted(each.request_id for each in reservations)
    projects = sorted({each.project for each in reservations})
    mine = and_(table.c.project.in_(projects), table.c.request_id.in_(ids))
    await connection.execute(update(table).where(mine).values(lease_until=until))
    there = set(await connection.scalars(select(table.c.request_id).where(mine)))
    missing = [each for each in reservations if each.request_id not in there]
    if not missing:
        return
    # The days' locks first: whoever settles one of these calls holds them until its ledger row can be seen.
    days = _by_day((each.project, each.day, 0) for each in missing)
    await _add_to_days(connection, days)
    ledger = and_(calls.c.project.in_(projects), calls.c.request_id.in_(ids))
    settled = set(await connection.scalars(select(calls.c.request_id).where(ledger)))
    living = [each for each in missing if each.request_id not in settled]
    if living:
        rows = [msgspec.structs.asdict(each) | {"lease_until": until} for each in living]
        await connection.execute(insert(table).values(rows))
        await _add_to_days(connection, _by_day((each.project, each.day, each.amount) for each in living))


async def release(connection: AsyncConnection, calls: Iterable[tuple[str, str]]) -> None:
    """Let go of what is held for these calls (project and request id each); the unknown are passed over."""
    table = schema.reservations
    wanted = tuple_(table.c.project, table.c.request_id).in_(sorted(set(calls)))
    query = select(table.c.project, table.c.day, table.c.amount, table.c.request_id).where(wanted)
    found = (await connection.execute(query.order_by(table.c.request_id).with_for_update())).all()
    if not found:
        return
    gone = tuple_(table.c.project, table.c.request_id).in_([(row.project, row.request_id) for row in found])
    await connection.execute(delete(table).where(gone))
    await _add_to_days(connection, _by_day((row.project, row.day, -row.amount) for row in found))


async def orphans(connection: AsyncConnection, limit: int, lease_seconds: float) -> Sequence[Reservation]:
    """Take reservations whose lease has passed, by extending it. See `Calls`."""
    table = schema.reservations
    query = select(table).where(table.c.lease_until < database_now())
    query = query.order_by(table.c.lease_until).limit(limit).with_for_update(skip_locked=True)
    found = (await connection.execute(query)).all()
    if found:
        taken = tuple_(table.c.project, table.c.request_id).in_(
            [(row.project, row.request_id) for row in found]
        )
        await connection.execute(update(table).where(taken).values(lease_until=database_now(lease_seconds)))
    return tuple(
        Reservation(
            project=row.project, day=row.day, request_id=row.request_id, amount=row.amount, record=row.record
        )
        for row in found
    )


def _day(project: str, day: date) -> ColumnElement[bool]:
    return and_(schema.spending.c.project == project, schema.spending.c.day == day)


def _by_day(amounts: Iterable[tuple[str, date, int]]) -> Mapping[tuple[str, date], int]:
    days: defaultdict[tuple[str, date], int] = defaultdict(int)
    for project, day, amount in amounts:
        days[project, day] += amount
    return days


async def _add_to_days(connection: AsyncConnection, days: Mapping[tuple[str, date], int]) -> None:
    """Change what is held, in sorted order, never below nothing; makes rows that are missing, locks the others."""
    table = schema.spending
    missing = insert_missing(connection.dialect.name, table)
    for (project, day), amount in sorted(days.items()):
        held = table.c.reserved + amount
        change = update(table).where(_day(project, day)).values(reserved=case((held > 0, held), else_=0))
        if not (await connection.execute(change)).rowcount:
            await connection.execute(missing.values({"project": project, "day": day} | EMPTY_DAY))
            await connection.execute(change)
