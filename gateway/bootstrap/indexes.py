"""Which vector index: PostgreSQL if it is set, else the embedded one."""

from __future__ import annotations

from gateway.ports import VectorIndex
from gateway.settings import Settings


def open_index(settings: Settings) -> VectorIndex:
    """The vector index; nothing is connected yet."""
    if settings.vector_url is not None:
        from gateway.vectors.pgvector import PgvectorIndex  # noqa: PLC0415 - only one of the two is ever needed

        return PgvectorIndex(settings.vector_url)
    from gateway.vectors.sqlite import SqliteIndex  # noqa: PLC0415

    return SqliteIndex(settings.data)
