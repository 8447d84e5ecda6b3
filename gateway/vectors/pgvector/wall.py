"""A transaction that has named its project: row-level security shows and takes rows of this one alone."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gateway.vectors.pgvector.connections import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.vectors.pgvector.driver import Connection


@asynccontextmanager
async def inside(connection: Connection, project: str, settings: str = "") -> AsyncIterator[None]:
    """Run statements for a project, all or none of them.

    Args:
        settings: `SET LOCAL` statements, each with its semicolon.

    """
    # One round trip instead of three. In hexadecimal a name can't end the string it stands in.
    name = f"convert_from('\\x{project.encode().hex()}', 'UTF8')"
    begin = f"BEGIN; {settings} SELECT set_config('pepper.project', {name}, true)"
    # Soon, also before what may take long: a server that says nothing is noticed here.
    await connection.execute(begin, timeout=ANSWER_SECONDS)
    yield
    # After trouble nothing is undone here: the connection is dropped.
    await connection.execute("COMMIT")
