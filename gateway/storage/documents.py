"""Documents of the knowledge base: rows that name which passages in the vector index are live, flipped in one commit.

What the index may hold without a document that names it stands in `stale_passages` from before it is written until it
is forgotten, so that a crash leaves nothing for ever. Locks of rows that are there are taken in one order: project,
documents, stale passages, knowledge.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, exists, func, insert, select, update

from gateway.domain.knowledge import Shelf, Uploaded
from gateway.storage import schema
from gateway.storage.audit import record_change
from gateway.storage.columns import database_now
from gateway.storage.document_rows import (
    LISTED,
    Content,
    Draft,
    Full,
    Gone,
    Published,
    Removed,
    Stale,
    document_of,
    document_row,
    read_document,
)
from gateway.storage.refusals import UnknownError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.knowledge import Document
    from gateway.domain.tenants import Operator
    from gateway.storage.database import Database

WRITING_SECONDS = 3_600.0
"""A version that is not published after so long never will be: its passages may be forgotten."""
VERSION_BITS = 63
LISTED_AT_ONCE = 200


class Documents:
    """Documents in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- reading ----------------------------------------------------------------------------------------------------

    async def version(self, project: str) -> int:
        """Give the number of the project's knowledge as it is now; 0 before the first document."""
        table = schema.knowledge
        async with self._database.connect() as connection:
            query = select(table.c.version).where(table.c.project == project)
            return await connection.scalar(query) or 0

    async def shelf(self, project: str) -> Shelf:
        """Give the project's live documents and their version, of one moment."""
        table, knowledge = schema.documents, schema.knowledge
        query = select(*LISTED).where(table.c.project == project, table.c.version.is_not(None))
        async with self._database.snapshot() as connection:
            version = await connection.scalar(
                select(knowledge.c.version).where(knowledge.c.project == project)
            )
            rows = await connection.execute(query.order_by(table.c.id))
            return Shelf(version or 0, tuple(read_document(row) for row in rows.mappings()))

    async def text(self, project: str, document: int) -> tuple[Document, str] | None:
        """Give a live document with its text."""
        table = schema.documents
        query = select(*LISTED, table.c.text).where(_mine(project, document), table.c.version.is_not(None))
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            return None if row is None else (read_document(row), row["text"])

    async def knows(self, project: str, document: int) -> bool:
        """Whether `remove` has anything to do: a live document, or what a removal that was cut short has left."""
        table, stale = schema.documents, schema.stale_passages
        row = select(table.c.version).where(_mine(project, document))
        async with self._database.connect() as connection:
            found = (await connection.execute(row)).one_or_none()
            if found is not None:
                return found.version is not None
            left = select(stale.c.version).where(stale.c.project == project, stale.c.document == document)
            return (await connection.execute(left.limit(1))).first() is not None

    # --- writing a version ------------------------------------------------------------------------------------------

    async def begin(self, project: str, name: str, most: int, at: datetime) -> Draft | Full:
        """Begin a version of the document of this name; a new name gets its row, which nobody sees before `publish`.

        Raises:
            UnknownError: The project was disabled or removed meanwhile.

        """

        async def work(connection: AsyncConnection) -> Draft | Full:
            await _lock_project(connection, project)
            table = schema.documents
            query = select(table.c.id, table.c.version).where(
                table.c.project == project, table.c.name == name
            )
            found = (await connection.execute(query.with_for_update())).one_or_none()
            if (found is None or found.version is None) and await _count(connection, project) >= most:
                return Full()
            document = found.id if found else await _insert(connection, project, name, at)
            draft = Draft(project, document, secrets.randbits(VERSION_BITS))
            await _note_stale(connection, draft.project, draft.document, draft.version)
            return draft

        return await self._database.transact(work)

    async def publish(
        self,
        draft: Draft,
        content: Content,
        most: int,
        *,
        instead_of: int | None = None,
        by: Operator | None = None,
    ) -> Published | Full | Gone:
        """Make a written version the live one, in one commit with the knowledge's version.

        Args:
            most: Documents that the project may have.
            instead_of: The version that must be live until then; None for any.
            by: The operator whose change it is, for the audit; None for a partner's.

        Raises:
            UnknownError: The project was disabled or removed meanwhile.
            StoreAwayError: Published or not: its passages must stay until `stale` says otherwise.

        """

        async def work(connection: AsyncConnection) -> Published | Full | Gone:
            await _lock_project(connection, draft.project)
            before = await _get(connection, draft.project, draft.document)
            if before is None or not await _still_drafted(connection, draft):
                return Gone()
            if instead_of is not None and before.version != instead_of:
                return Gone()
            if before.version is None and await _count(connection, draft.project) >= most:
                return Full()
            await connection.execute(
                update(schema.documents)
                .where(_mine(draft.project, draft.document))
                .values(document_row(content, draft.version))
            )
            await connection.execute(delete(schema.stale_passages).where(_stale(draft)))
            old = None
            if before.version is not None:
                old = Stale(draft.project, draft.document, before.version)
                await _note_stale(connection, old.project, old.document, old.version)
            await _count_change(connection, draft.project)
            document = document_of(draft, content)
            if by is not None:
                subject = f"{draft.project}: {content.name}"
                await record_change(
                    connection, by, content.uploaded_at, "document.add", subject, after=document
                )
            return Published(Uploaded(document, replaced=old is not None), old)

        return await self._database.transact(work)

    async def remove(
        self, project: str, document: int, at: datetime, *, by: Operator | None = None
    ) -> Removed | None:
        """Delete a live document; None when the project has none of this id.

        What a removal left that was cut short between the stores is given again.
        """

        async def work(connection: AsyncConnection) -> Removed | None:
            table = schema.documents
            found = await connection.execute(
                select(*LISTED).where(_mine(project, document)).with_for_update()
            )
            row = found.mappings().one_or_none()
            if row is None:
                left = await _stale_of(connection, project, document)
                return Removed(None, left) if left else None
            if row["version"] is None:
                return None
            await connection.execute(delete(table).where(_mine(project, document)))
            await _note_stale(connection, project, document, row["version"])
            await _count_change(connection, project)
            gone = read_document(row)
            if by is not None:
                subject = f"{project}: {gone.name}"
                await record_change(connection, by, at, "document.remove", subject, before=gone)
            return Removed(gone, await _stale_of(connection, project, document))

        return await self._database.transact(work)

    # --- passages that nobody names -----------------------------------------------------------------------------------

    async def stale(self, seconds: float = WRITING_SECONDS, limit: int = LISTED_AT_ONCE) -> Sequence[Stale]:
        """Give what has been stale for longer than so many seconds, oldest first, over all projects."""
        table = schema.stale_passages
        query = select(table.c.project, table.c.document, table.c.version)
        query = query.where(table.c.at < database_now(-seconds)).order_by(table.c.at).limit(limit)
        async with self._database.connect() as connection:
            return tuple(Stale(*row) for row in await connection.execute(query))

    async def forgotten(self, stale: Stale | Draft) -> None:
        """Note that the index has forgotten a version; a document that never had another goes with it."""
        table, waiting = schema.documents, schema.stale_passages
        others = exists().where(waiting.c.project == stale.project, waiting.c.document == stale.document)

        async def work(connection: AsyncConnection) -> None:
            mine = _mine(stale.project, stale.document)
            await connection.execute(select(table.c.id).where(mine).with_for_update())
            await connection.execute(delete(waiting).where(_stale(stale)))
            await connection.execute(delete(table).where(mine, table.c.version.is_(None), ~others))

        await self._database.transact(work)


# --- inside ---------------------------------------------------------------------------------------------------------


async def _lock_project(connection: AsyncConnection, project: str) -> None:
    """Take the project's lock: its changes come one after the other, and none after its removal."""
    projects = schema.projects
    lock = select(projects.c.name).where(projects.c.name == project, projects.c.active)
    if await connection.scalar(lock.with_for_update()) is None:
        raise UnknownError(f"there is no active project {project!r}")


async def _count(connection: AsyncConnection, project: str) -> int:
    table = schema.documents
    live = and_(table.c.project == project, table.c.version.is_not(None))
    return await connection.scalar(select(func.count()).select_from(table).where(live)) or 0


async def _insert(connection: AsyncConnection, project: str, name: str, at: datetime) -> int:
    row: dict[str, Any] = {
        "project": project,
        "name": name,
        "passages": 0,
        "characters": 0,
        "embedder": "",
        "uploaded_at": at,
        "text": "",
    }
    key = (await connection.execute(insert(schema.documents).values(row))).inserted_primary_key
    return int(key[0]) if key else 0


async def _get(connection: AsyncConnection, project: str, document: int) -> Any:
    table = schema.documents
    query = select(table.c.id, table.c.version).where(_mine(project, document)).with_for_update()
    return (await connection.execute(query)).one_or_none()


async def _still_drafted(connection: AsyncConnection, draft: Draft) -> bool:
    """Whether a draft may be published: what nobody has published in time may be forgotten at any moment."""
    table = schema.stale_passages
    query = select(table.c.version).where(_stale(draft), table.c.at > database_now(-WRITING_SECONDS))
    return await connection.scalar(query.with_for_update()) is not None


async def _note_stale(connection: AsyncConnection, project: str, document: int, version: int) -> None:
    row = {"project": project, "document": document, "version": version, "at": database_now()}
    await connection.execute(insert(schema.stale_passages).values(row))


async def _stale_of(connection: AsyncConnection, project: str, document: int) -> tuple[Stale, ...]:
    table = schema.stale_passages
    query = select(table.c.project, table.c.document, table.c.version)
    query = query.where(table.c.project == project, table.c.document == document)
    return tuple(Stale(*row) for row in await connection.execute(query))


async def _count_change(connection: AsyncConnection, project: str) -> None:
    """Change the knowledge's version: at random, so that a removed project's namesake never has an earlier one's."""
    table, version = schema.knowledge, secrets.randbits(VERSION_BITS) or 1
    changed = update(table).where(table.c.project == project).values(version=version)
    if not (await connection.execute(changed)).rowcount:
        await connection.execute(insert(table).values(project=project, version=version))


def _mine(project: str, document: int) -> ColumnElement[bool]:
    return and_(schema.documents.c.project == project, schema.documents.c.id == document)


def _stale(stale: Stale | Draft) -> ColumnElement[bool]:
    table = schema.stale_passages
    return and_(
        table.c.project == stale.project,
        table.c.document == stale.document,
        table.c.version == stale.version,
    )
