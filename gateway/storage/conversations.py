"""Conversations: whole pairs of question and answer, each written once, read only with their project."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import and_, case, delete, func, insert, literal, select, update

from gateway.storage import schema
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

MOST_PAIRS = 2_000
"""Pairs looked at for one history, newest first."""
DELETED_AT_ONCE = 200
"""Conversations deleted in one transaction."""


class ConversationPair(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer, to be appended.

    Attributes:
        request_id: The call that made it: a pair is written once per call.
        replaces: The call whose pair this one takes the place of, if it is there (a repeat of a cut stream).

    """

    project: str
    conversation: str
    request_id: str
    question: str
    answer: str
    at: datetime
    replaces: str | None = None


class Pair(msgspec.Struct, frozen=True):
    """A question and its answer as stored."""

    number: int
    question: str
    answer: str
    at: datetime


class Conversations:
    """Conversations in the database. One begins with its first pair."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def exists(self, project: str, conversation: str, since: datetime) -> bool:
        """Whether the project has this conversation, touched at or after `since`."""
        table = schema.conversations
        mine = and_(table.c.project == project, table.c.id == conversation, table.c.touched_at >= since)
        async with self._database.connect() as connection:
            return bool(await connection.scalar(select(func.count()).select_from(table).where(mine)))

    async def history(
        self,
        project: str,
        conversation: str,
        since: datetime,
        most_characters: int,
        *,
        without: str | None = None,
    ) -> Sequence[Pair] | None:
        """Give the newest whole pairs that fit so many characters, oldest first; None if `exists` would be false.

        The pair of the call `without` is passed over: it is about to be replaced.
        """
        table, pairs = schema.conversations, schema.pairs
        mine = and_(table.c.project == project, table.c.id == conversation, table.c.touched_at >= since)
        ours = and_(pairs.c.project == project, pairs.c.conversation == conversation)
        if without is not None:
            ours = and_(ours, pairs.c.request_id != without)
        sizes = (
            select(pairs.c.number, func.char_length(pairs.c.question) + func.char_length(pairs.c.answer))
            if self._database.dialect == "mysql"
            else select(pairs.c.number, func.length(pairs.c.question) + func.length(pairs.c.answer))
        )
        async with self._database.snapshot() as connection:
            if not await connection.scalar(select(func.count()).select_from(table).where(mine)):
                return None
            rows = await connection.execute(
                sizes.where(ours).order_by(pairs.c.number.desc()).limit(MOST_PAIRS)
            )
            oldest, room = None, most_characters
            for number, size in rows:
                room -= size
                if room < 0:
                    break
                oldest = number
            if oldest is None:
                return ()
            query = select(pairs.c.number, pairs.c.question, pairs.c.answer, pairs.c.at)
            found = await connection.execute(
                query.where(ours, pairs.c.number >= oldest).order_by(pairs.c.number)
            )
            return tuple(Pair(*row) for row in found)

    async def append(self, pair: ConversationPair) -> None:
        """Append a pair in a transaction of its own; a pair of the same call is not written twice."""

        async def work(connection: AsyncConnection) -> None:
            await append_pair(connection, pair)

        await self._database.transact(work)

    async def delete_older_than(self, instant: datetime) -> int:
        """Delete conversations untouched since before `instant`; gives how many. For retention, over all projects."""
        table, pairs = schema.conversations, schema.pairs
        stale = select(table.c.project, table.c.id).where(table.c.touched_at < instant).limit(DELETED_AT_ONCE)

        async def work(connection: AsyncConnection) -> int:
            found = (await connection.execute(stale)).all()
            deleted = 0
            for project, conversation in found:
                # Touched meanwhile? Then it stays.
                old = and_(
                    table.c.project == project, table.c.id == conversation, table.c.touched_at < instant
                )
                gone = (await connection.execute(delete(table).where(old))).rowcount
                if gone:
                    ours = and_(pairs.c.project == project, pairs.c.conversation == conversation)
                    await connection.execute(delete(pairs).where(ours))
                deleted += gone
            return deleted

        total = 0
        while deleted := await self._database.transact(work):
            total += deleted
        return total


async def append_pair(connection: AsyncConnection, pair: ConversationPair) -> None:
    """Append a pair in an open transaction; a pair of the same call is not written twice, an empty answer never.

    A conversation begins with its first pair, if its project is still there.
    """
    if not pair.answer:
        return
    table, pairs = schema.conversations, schema.pairs
    mine = and_(table.c.project == pair.project, table.c.id == pair.conversation)
    newest = case((table.c.touched_at < pair.at, pair.at), else_=table.c.touched_at)
    grown = update(table).where(mine).values(pairs=table.c.pairs + 1, touched_at=newest)
    # The update goes first: it takes the conversation's lock, so that pairs number one after the other.
    if not (await connection.execute(grown)).rowcount:
        await _open(connection, pair)
        if not (await connection.execute(grown)).rowcount:
            return
    words = {"request_id": pair.request_id, "question": pair.question, "answer": pair.answer, "at": pair.at}
    ours = and_(pairs.c.project == pair.project, pairs.c.conversation == pair.conversation)
    calls = [pair.request_id] if pair.replaces is None else [pair.request_id, pair.replaces]
    query = select(pairs.c.request_id).where(ours, pairs.c.request_id.in_(calls))
    earlier = set(await connection.scalars(query))
    if earlier:
        if pair.request_id not in earlier:
            old = and_(ours, pairs.c.request_id == pair.replaces)
            await connection.execute(update(pairs).where(old).values(words))
        await connection.execute(update(table).where(mine).values(pairs=table.c.pairs - 1))
        return
    number = await connection.scalar(select(table.c.pairs).where(mine))
    row = words | {"project": pair.project, "conversation": pair.conversation, "number": number}
    await connection.execute(insert(pairs).values(row))


async def _open(connection: AsyncConnection, pair: ConversationPair) -> None:
    projects, table = schema.projects, schema.conversations
    values = select(
        projects.c.name,
        literal(pair.conversation),
        literal(0),
        literal(pair.at, table.c.created_at.type),
        literal(pair.at, table.c.touched_at.type),
    ).where(projects.c.name == pair.project)
    missing = insert_missing(connection.dialect.name, table)
    await connection.execute(
        missing.from_select(["project", "id", "pairs", "created_at", "touched_at"], values)
    )
