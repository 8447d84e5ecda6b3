"""Rows of the knowledge's documents: what a version is while it is written, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, select

from gateway.domain.knowledge import Document, Uploaded
from gateway.storage import schema
from gateway.storage.columns import database_now
from gateway.storage.upserts import insert_missing

if TYPE_CHECKING:
    from sqlalchemy import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

LISTED = tuple(column for column in schema.documents.c if column.name not in {"project", "text"})
"""The columns of a document without its text."""


class Draft(msgspec.Struct, frozen=True):
    """A version of a document that is being written."""

    project: str
    document: int
    version: int


class Stale(msgspec.Struct, frozen=True):
    """A version that the index may hold and no document names."""

    project: str
    document: int
    version: int


class Full(msgspec.Struct, frozen=True):
    """The project has as many documents as it may."""


class Gone(msgspec.Struct, frozen=True):
    """The document was removed, or replaced, while the version was written: it can't be published."""


class Published(msgspec.Struct, frozen=True):
    """The version is live; `stale` is the one before it, which the index may forget."""

    uploaded: Uploaded
    stale: Stale | None


class Removed(msgspec.Struct, frozen=True):
    """The document is gone, now or (`document` is None) since an earlier removal that could not be completed."""

    document: Document | None
    stale: tuple[Stale, ...]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a document is going to be."""

    name: str
    text: str
    passages: int
    embedder: str
    uploaded_at: datetime


async def abandon_documents(connection: AsyncConnection, project: str) -> None:
    """Delete the documents of a project that is being removed, in an open transaction.

    Their versions are stale from now on, in case the index can't be told.
    """
    documents, stale = schema.documents, schema.stale_passages
    mine = documents.c.project == project
    live = select(documents.c.project, documents.c.id, documents.c.version, database_now()).where(
        mine, documents.c.version.is_not(None)
    )
    missing = insert_missing(connection.dialect.name, stale)
    await connection.execute(missing.from_select(["project", "document", "version", "at"], live))
    await connection.execute(delete(documents).where(mine))
    await connection.execute(delete(schema.knowledge).where(schema.knowledge.c.project == project))


def document_row(content: Content, version: int) -> dict[str, Any]:
    """Make the columns of a published version."""
    row = msgspec.structs.asdict(content)
    return row | {"version": version, "characters": len(content.text)}


def document_of(draft: Draft, content: Content) -> Document:
    """Make the noun of a published version."""
    return Document(
        id=draft.document,
        name=content.name,
        version=draft.version,
        passages=content.passages,
        characters=len(content.text),
        embedder=content.embedder,
        uploaded_at=content.uploaded_at,
    )


def read_document(row: RowMapping) -> Document:
    """Make the noun of a row."""
    return Document(**{name: row[name] for name in Document.__struct_fields__})
