"""Cases: admitted once per credit, worked on by one turn at a time, completed once.

A turn takes the case's lock together with its credit, and every end of a turn may be written again without harm. Locks
are taken in one order: the identity's row, the counter's row, the case. The lock's lease runs on the database's clock.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from sqlalchemy import and_, delete, func, insert, select, update

from gateway.storage import schema
from gateway.storage.columns import database_now
from gateway.storage.dilem import rates
from gateway.storage.dilem.rates import Window

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Row, Select
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

COMPLETED = "completed"
"""The counter's name."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that would be worked on.

    Attributes:
        holder: The turn's request id.
        address: Of the caller; its admissions of the day are counted.
        daily_limit: Credits of an identity and day.
        address_limit: Admissions of an address and day.
        turn_limit: Turns of a case.
        capacity: Turns worked on at once, over all nodes.
        lease_seconds: So long nobody else may work on the case, if this turn's process dies.

    """

    identity: int
    case_id: str
    holder: str
    address: str
    now: datetime
    day: date
    daily_limit: int
    address_limit: int
    turn_limit: int
    capacity: int
    lease_seconds: float


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted turn: its case is locked for it."""

    identity: int
    case_id: str
    holder: str
    number: int


Refusal: TypeAlias = Literal[
    "gone", "completed", "in_progress", "turn_limit", "credits", "address", "capacity"
]
"""Why a turn is not admitted; `gone` is an identity that was deleted meanwhile."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, to be written.

    Attributes:
        undone: Nothing was sent to a provider: the turn never was, nor the credit it took. Also of a turn of which
            nobody knows whether it was admitted.
        response: None when nothing is known of it: the lock is let go of, nothing more.
        completes: The response is the case's recommendation.
        result_id: Under which a result is kept that was delivered with it.

    """

    identity: int
    case_id: str
    holder: str
    at: datetime
    turn: int = 0
    undone: bool = False
    request: str = ""
    response: str | None = None
    completes: bool = False
    result_id: str | None = None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """An identity's credits used today, a case's state, and the counter of all identities."""

    used: int
    completed_by_all: int
    admitted: bool
    completed: bool


class Cases:
    """Cases in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def admit(self, wish: Wish) -> Turn | Refusal:
        """Take the case's lock, and a credit if it is new; whatever the concurrency, never more than the limits.

        Raises:
            StoreAwayError: Admitted or not: write an `Ending` with `undone`.

        """
        return await self._database.transact(lambda connection: _admit(connection, wish))

    async def end(self, ending: Ending) -> bool:
        """Write how a turn ended; again is harmless.

        Returns:
            False when it would complete a case that another turn has completed: nothing of it is kept.

        Raises:
            StoreAwayError: Written or not: write it again.

        """
        return await self._database.transact(lambda connection: _end(connection, ending))

    async def state(self, identity: int, case_id: str | None, day: date) -> State:
        """Tell an identity's day and a case of it; nothing is changed."""
        table, counters = schema.dilem_cases, schema.dilem_counters
        async with self._database.snapshot() as connection:
            used = await connection.scalar(_used(identity, day))
            completed = await connection.scalar(select(counters.c.value).where(counters.c.name == COMPLETED))
            case = None
            if case_id is not None:
                query = select(table.c.completed_at).where(_case(identity, case_id))
                case = (await connection.execute(query)).one_or_none()
        return State(
            used=used or 0,
            completed_by_all=completed or 0,
            admitted=case is not None,
            completed=case is not None and case.completed_at is not None,
        )


# --- inside -------------------------------------------------------------------------------------------------------


async def _admit(connection: AsyncConnection, wish: Wish) -> Turn | Refusal:
    if not await _lock_identity(connection, wish.identity):
        return "gone"
    found = await _read(connection, wish.identity, wish.case_id)
    if found is None:
        return await _admit_new(connection, wish)
    if found.completed_at is not None:
        return "completed"
    if found.held:
        return "in_progress"
    if found.turns >= wish.turn_limit:
        return "turn_limit"
    await _lock_counter(connection)
    if await _is_full(connection, wish):
        return "capacity"
    number = found.turns + 1
    until = database_now(wish.lease_seconds)
    take = update(schema.dilem_cases).where(_case(wish.identity, wish.case_id))
    await connection.execute(take.values(turns=number, holder=wish.holder, lock_until=until))
    return Turn(identity=wish.identity, case_id=wish.case_id, holder=wish.holder, number=number)


async def _admit_new(connection: AsyncConnection, wish: Wish) -> Turn | Refusal:
    await _lock_counter(connection)
    if (await connection.scalar(_used(wish.identity, wish.day)) or 0) >= wish.daily_limit:
        return "credits"
    window = _admissions(wish.address, wish.now)
    if await rates.full(connection, window, wish.address_limit):
        return "address"
    if await _is_full(connection, wish):
        return "capacity"
    await rates.take(connection, window, wish.address_limit)
    row = {
        "identity": wish.identity,
        "case_id": wish.case_id,
        "admitted_at": wish.now,
        "admitted_day": wish.day,
        "address": wish.address,
        "turns": 1,
        "holder": wish.holder,
        "lock_until": database_now(wish.lease_seconds),
    }
    await connection.execute(insert(schema.dilem_cases).values(row))
    return Turn(identity=wish.identity, case_id=wish.case_id, holder=wish.holder, number=1)


async def _end(connection: AsyncConnection, ending: Ending) -> bool:
    if not await _lock_identity(connection, ending.identity):
        return True
    if ending.completes:
        await _lock_counter(connection)
    found = await _read(connection, ending.identity, ending.case_id)
    if found is None or (ending.undone and found.holder != ending.holder):
        return True
    if ending.undone:
        await _undo(connection, ending, found)
        return True
    if ending.response is None or await _is_written(connection, ending):
        await _unlock(connection, ending)
        return True
    if ending.completes and found.completed_at is not None:
        await _unlock(connection, ending)
        return False
    await _write(connection, ending)
    await _unlock(connection, ending)
    return True


async def _undo(connection: AsyncConnection, ending: Ending, found: Row[Any]) -> None:
    case = _case(ending.identity, ending.case_id)
    if found.turns == 1:
        await connection.execute(delete(schema.dilem_cases).where(case))
        await rates.give_back(connection, _admissions(found.address, found.admitted_at))
        return
    back = update(schema.dilem_cases).where(case)
    await connection.execute(back.values(turns=found.turns - 1, holder=None, lock_until=None))


async def _write(connection: AsyncConnection, ending: Ending) -> None:
    said = {
        "identity": ending.identity,
        "case_id": ending.case_id,
        "request_id": ending.holder,
        "turn": ending.turn,
        "request": ending.request,
        "response": ending.response,
        "created_at": ending.at,
    }
    await connection.execute(insert(schema.dilem_exchanges).values(said))
    if not ending.completes:
        return
    completed = update(schema.dilem_cases).where(_case(ending.identity, ending.case_id))
    await connection.execute(completed.values(completed_at=ending.at))
    counters = schema.dilem_counters
    one_more = update(counters).where(counters.c.name == COMPLETED).values(value=counters.c.value + 1)
    await connection.execute(one_more)
    if ending.result_id is not None:
        row = {
            "id": ending.result_id,
            "identity": ending.identity,
            "payload": ending.response,
            "created_at": ending.at,
        }
        await connection.execute(insert(schema.dilem_results).values(row))


async def _is_written(connection: AsyncConnection, ending: Ending) -> bool:
    table = schema.dilem_exchanges
    mine = and_(table.c.identity == ending.identity, table.c.case_id == ending.case_id)
    query = select(func.count()).select_from(table).where(mine, table.c.request_id == ending.holder)
    return bool(await connection.scalar(query))


async def _unlock(connection: AsyncConnection, ending: Ending) -> None:
    """Let go of the lock, if it is still this turn's."""
    mine = and_(_case(ending.identity, ending.case_id), schema.dilem_cases.c.holder == ending.holder)
    await connection.execute(update(schema.dilem_cases).where(mine).values(holder=None, lock_until=None))


async def _lock_identity(connection: AsyncConnection, identity: int) -> bool:
    """Make the identity's turns come one after the other; False when it is not there."""
    table = schema.dilem_identities
    query = select(table.c.id).where(table.c.id == identity).with_for_update()
    return await connection.scalar(query) is not None


async def _lock_counter(connection: AsyncConnection) -> None:
    """Make admissions of all identities come one after the other, so that what they count together is exact."""
    table = schema.dilem_counters
    await connection.execute(select(table.c.value).where(table.c.name == COMPLETED).with_for_update())


async def _is_full(connection: AsyncConnection, wish: Wish) -> bool:
    table = schema.dilem_cases
    running = select(func.count()).select_from(table).where(table.c.lock_until > database_now())
    return (await connection.scalar(running) or 0) >= wish.capacity


async def _read(connection: AsyncConnection, identity: int, case_id: str) -> Row[Any] | None:
    table = schema.dilem_cases
    held = (table.c.lock_until > database_now()).label("held")
    query = select(table, held).where(_case(identity, case_id))
    return (await connection.execute(query)).one_or_none()


def _used(identity: int, day: date) -> Select[int]:
    table = schema.dilem_cases
    mine = and_(table.c.identity == identity, table.c.admitted_day == day)
    return select(func.count()).select_from(table).where(mine)


def _case(identity: int, case_id: str) -> ColumnElement[bool]:
    return and_(schema.dilem_cases.c.identity == identity, schema.dilem_cases.c.case_id == case_id)


def _admissions(address: str, at: datetime) -> Window:
    return Window.at(f"admissions {address}", rates.DAY_SECONDS, at)
