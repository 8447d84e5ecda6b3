"""What administrators look at: sums of the ledger and its pages. Read only, and bounded however long the ledger is.

A page of the ledger looks through at most `SCANNED_AT_ONCE` rows: a filter that nothing fits is told how far it was
looked, instead of reading ten million rows.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, func, literal_column, select, true, tuple_

from gateway.domain.calls import CallRecord, Outcome
from gateway.storage import schema
from gateway.storage.batch_rows import read_batch
from gateway.storage.calls import read_call
from gateway.storage.traffic import HourlyTraffic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.batches import Batch
    from gateway.storage.database import Database

SCANNED_AT_ONCE = 100_000
FIRST_DAY, LAST_DAY = date(1970, 1, 2), date(9999, 12, 30)
BEFORE_MIDNIGHT, AFTER_MIDNIGHT = timedelta(hours=14), timedelta(hours=36)
"""How far around a date's UTC midnight its instants are, in whatever time zone it is a day."""


class Spending(msgspec.Struct, frozen=True):
    """A project's day, in micro-dollars: settled, held by running calls, held by batches."""

    project: str
    day: date
    settled: int
    reserved: int
    batches: int


class Position(msgspec.Struct, frozen=True):
    """A place in the ledger: rows older than this one follow."""

    day: date
    at: datetime
    request_id: str


class LedgerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows; None means any. `first` and `last` are days of the projects, both included."""

    project: str | None = None
    recipe: str | None = None
    outcome: Outcome | None = None
    first: date | None = None
    last: date | None = None
    request: str | None = None


class Belongings(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with a project that is removed: how much of each."""

    keys: int
    variants: int
    conversations: int
    documents: int
    batches: int
    open_batches: int


class ShelfLine(msgspec.Struct, frozen=True):
    """A project's documents in one line."""

    project: str
    documents: int
    passages: int
    newest: datetime


class LedgerPage(msgspec.Struct, frozen=True):
    """Rows, newest first; `older` is where the next page begins, None at the end."""

    rows: tuple[CallRecord, ...]
    older: Position | None


class Reports:
    """Readings for the panel."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.traffic = HourlyTraffic(database)

    async def spending(self, first: date, last: date) -> Sequence[Spending]:
        """Give every project's spending of these days."""
        table = schema.spending
        query = select(
            table.c.project, table.c.day, table.c.settled, table.c.reserved, table.c.batches
        ).where(table.c.day.between(first, last))
        async with self._database.connect() as connection:
            return tuple(Spending(*row) for row in await connection.execute(query))

    async def durations(self, since: datetime, most: int = 5_000) -> Sequence[int]:
        """Give how many milliseconds the newest answered calls took, at most so many of them, sorted."""
        table = schema.calls
        query = (
            select(table.c.duration_ms)
            .where(table.c.started_at >= since, table.c.outcome == Outcome.OK.value, table.c.batch.is_(None))
            .order_by(table.c.started_at.desc())
            .limit(most)
        )
        async with self._database.connect() as connection:
            return sorted(await connection.scalars(query))

    async def page(self, wanted: LedgerFilter, after: Position | None, size: int) -> LedgerPage:
        """Give a page of the ledger: the newest rows that fit, or those older than `after`."""
        table = schema.calls
        async with self._database.connect() as connection:
            bound = await _scan_bound(connection, wanted, after)
            query = select(table).where(*_conditions(wanted, after))
            if bound is not None:
                query = query.where(_not_older(wanted, bound))
            found = await connection.execute(_newest_first(query, wanted).limit(size + 1))
            rows = tuple(read_call(row) for row in found.mappings())
        if len(rows) > size:
            last = rows[size - 1]
            return LedgerPage(rows[:size], Position(last.day, last.started_at, last.request_id))
        return LedgerPage(rows, bound)

    async def all_rows(self, wanted: LedgerFilter, size: int = 1_000) -> AsyncIterator[CallRecord]:
        """Give every row that fits, newest first, read page by page."""
        after: Position | None = None
        while True:
            page = await self.page(wanted, after, size)
            for row in page.rows:
                yield row
            if page.older is None:
                return
            after = page.older

    async def call(self, request_id: str) -> CallRecord | None:
        """Give one row."""
        table = schema.calls
        async with self._database.connect() as connection:
            row = (
                (await connection.execute(select(table).where(table.c.request_id == request_id)))
                .mappings()
                .one_or_none()
            )
            return None if row is None else read_call(row)

    async def batches(
        self, project: str | None, state: str | None, before: datetime | None, size: int
    ) -> Sequence[Batch]:
        """Give batches, newest first, without their answers."""
        table = schema.batches
        columns = [column for column in table.c if column.name != "outcomes"]
        query = select(*columns, literal_column("'[]'").label("outcomes"))
        if project is not None:
            query = query.where(table.c.project == project)
        if state is not None:
            query = query.where(table.c.state == state)
        if before is not None:
            query = query.where(table.c.created_at < before)
        async with self._database.connect() as connection:
            rows = await connection.execute(query.order_by(table.c.created_at.desc()).limit(size))
            return tuple(read_batch({**row, "outcomes": ()}) for row in rows.mappings())

    async def batch_costs(self, numbers: Sequence[tuple[str, str]]) -> dict[str, int]:
        """Give what settled batches cost, by their requests' ids: pairs of project and request id."""
        table = schema.calls
        query = select(table.c.request_id, table.c.cost).where(
            tuple_(table.c.project, table.c.request_id).in_(sorted(numbers))
        )
        if not numbers:
            return {}
        async with self._database.connect() as connection:
            return {row.request_id: row.cost for row in await connection.execute(query)}

    async def belongings(self, project: str) -> Belongings:
        """Give what would go with a project."""
        keys, variants, documents = schema.project_keys, schema.recipe_versions, schema.documents
        counts = {
            "keys": (keys, keys.c.revoked_at.is_(None)),
            "variants": (variants, variants.c.live.is_(True)),
            "conversations": (schema.conversations, true()),
            "documents": (documents, documents.c.version.is_not(None)),
            "batches": (schema.batches, true()),
            "open_batches": (schema.batches, schema.batches.c.settled_at.is_(None)),
        }
        found = {}
        async with self._database.snapshot() as connection:
            for name, (table, condition) in counts.items():
                query = select(func.count()).select_from(table).where(table.c.project == project, condition)
                found[name] = await connection.scalar(query) or 0
        return Belongings(**found)

    async def shelves(self) -> Sequence[ShelfLine]:
        """Give the projects that have documents, by name."""
        table = schema.documents
        query = (
            select(
                table.c.project,
                func.count(),
                func.sum(table.c.passages),
                func.max(table.c.uploaded_at, type_=table.c.uploaded_at.type),
            )
            .where(table.c.version.is_not(None))
            .group_by(table.c.project)
            .order_by(table.c.project)
        )
        async with self._database.connect() as connection:
            rows = await connection.execute(query)
            return tuple(ShelfLine(row[0], int(row[1]), int(row[2]), row[3]) for row in rows)


def _conditions(wanted: LedgerFilter, after: Position | None) -> list[ColumnElement[bool]]:
    table = schema.calls
    conditions: list[ColumnElement[bool]] = []
    if wanted.project is not None:
        conditions.append(table.c.project == wanted.project)
    if wanted.recipe is not None:
        conditions.append(table.c.recipe == wanted.recipe)
    if wanted.outcome is not None:
        conditions.append(table.c.outcome == wanted.outcome.value)
    if wanted.first is not None:
        conditions.append(table.c.day >= wanted.first)
    if wanted.last is not None:
        conditions.append(table.c.day <= wanted.last)
    if wanted.project is None:  # the index of days does not hold the order, that of instants does
        conditions += _around(wanted)
    if wanted.request is not None:
        conditions.append(table.c.request_id == wanted.request)
    if after is not None:
        conditions.append(_older(wanted, after))
    return conditions


def _older(wanted: LedgerFilter, place: Position) -> ColumnElement[bool]:
    """What comes after a place in the order of `_newest_first`, said so that an index serves it."""
    table = schema.calls
    same = and_(table.c.started_at == place.at, table.c.request_id < place.request_id)
    earlier = and_(table.c.started_at <= place.at, (table.c.started_at < place.at) | same)
    if wanted.project is None:
        return earlier
    return and_(table.c.day <= place.day, (table.c.day < place.day) | earlier)


def _not_older(wanted: LedgerFilter, place: Position) -> ColumnElement[bool]:
    """What comes before a place, or is there: the opposite of `_older`, said for an index as well."""
    table = schema.calls
    same = and_(table.c.started_at == place.at, table.c.request_id >= place.request_id)
    later = and_(table.c.started_at >= place.at, (table.c.started_at > place.at) | same)
    if wanted.project is None:
        return later
    return and_(table.c.day >= place.day, (table.c.day > place.day) | later)


def _around(wanted: LedgerFilter) -> list[ColumnElement[bool]]:
    """The instants that the wanted days may have."""
    started = schema.calls.c.started_at
    found: list[ColumnElement[bool]] = []
    if wanted.first is not None:
        found.append(started >= _midnight(wanted.first) - BEFORE_MIDNIGHT)
    if wanted.last is not None:
        found.append(started < _midnight(wanted.last) + AFTER_MIDNIGHT)
    return found


def _midnight(day: date) -> datetime:
    """The date's UTC midnight; of the first and last dates there are, one that leaves room around it."""
    return datetime.combine(min(max(day, FIRST_DAY), LAST_DAY), datetime.min.time(), UTC)


async def _scan_bound(
    connection: AsyncConnection, wanted: LedgerFilter, after: Position | None
) -> Position | None:
    """The last row that one page may look at; None when the ledger ends before, or an index finds all by itself."""
    days = wanted.project is None and (wanted.first is not None or wanted.last is not None)
    if wanted.recipe is None and wanted.outcome is None and not days:
        return None
    table = schema.calls
    narrow = LedgerFilter(project=wanted.project, request=wanted.request)
    query = select(table.c.day, table.c.started_at, table.c.request_id)
    query = query.where(*_conditions(narrow, after), *_around(wanted))
    query = _newest_first(query, wanted).offset(SCANNED_AT_ONCE).limit(1)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Position(row.day, row.started_at, row.request_id)


def _newest_first(query: Select[Any], wanted: LedgerFilter) -> Select[Any]:
    """A project's rows go by its days, everybody's by the instant: in each case an index has them in that order."""
    table = schema.calls
    order = [table.c.started_at.desc(), table.c.request_id.desc()]
    return query.order_by(*([] if wanted.project is None else [table.c.day.desc()]), *order)
