"""Graphs (HNSW) for the projects that have outgrown the exact scan: partial indexes, one for each project.

They are made and dropped in the background. A search is right with or without one: what a process knows about them may
be old, and only the time it takes depends on it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.errors import StoreAwayError
from gateway.vectors.pgvector.connections import ANSWER_SECONDS, TROUBLE, what, within
from gateway.vectors.pgvector.schema import TABLE
from gateway.vectors.pgvector.wall import inside

if TYPE_CHECKING:
    from gateway.vectors.pgvector.connections import Connections
    from gateway.vectors.pgvector.driver import Connection

ABOVE_PASSAGES = 20_000
MOST_DIMENSIONS = 4_000
"""A graph over halfvec takes no longer ones."""

_KNOWN_SECONDS = 60.0
_MOST_KNOWN = 1_000
_DROP_SHARE = 2
"""A graph is dropped when its project has shrunk to less than this part of what one is made for."""
_CLOSE_SECONDS = 2.0

_VALID = "SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)), false)"
_STANDING = f"{_VALID}, (SELECT count(*) FROM {TABLE} WHERE project = $2)"  # noqa: S608 - constants
_OF_PROJECT = (
    "SELECT relname, indisvalid FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid"
    " WHERE indrelid = to_regclass($1) AND starts_with(relname, $2)"
)
_COUNT = f"SELECT dimensions, count(*) FROM {TABLE} WHERE project = $1 GROUP BY dimensions"  # noqa: S608
# PostgreSQL quotes the values itself: a statement of this kind takes no parameters.
_DEFINITION = f"""
SELECT format(
    'CREATE INDEX CONCURRENTLY %I ON {TABLE} USING hnsw ((vector::halfvec(%s)) halfvec_ip_ops)'
    ' WITH (m = 16, ef_construction = 100) WHERE project = %L AND dimensions = %s',
    $1::text, $2::int, $3::text, $2::int)
"""
_BUILDER = (
    "SET statement_timeout = 0; SET lock_timeout = 0; SET maintenance_work_mem = '256MB';"
    "SET enable_seqscan = on; SET enable_bitmapscan = on"
)

log = logging.getLogger(__name__)


class Standing(msgspec.Struct, frozen=True):
    """How a project stands.

    Attributes:
        graph: Whether it has a graph of the dimensions asked for.
        passages: How many it has, dead versions included.
        until: When this is asked anew, on the monotonic clock.

    """

    graph: bool
    passages: int
    until: float


class Graphs:
    """The graphs of one database, and who looks after them in this process.

    Args:
        connections: For everything but building.
        above: How many passages of the same dimensions a project may have without one.

    """

    def __init__(self, connections: Connections, above: int) -> None:
        self._connections = connections
        self._above = above
        self._known: dict[tuple[str, int], Standing] = {}
        self._waiting: dict[str, None] = {}
        self._keeper: asyncio.Task[None] | None = None

    async def of(self, project: str, dimensions: int, until: float) -> Standing:
        """How a project stands, as far as is known here; asked anew once in a minute, and after each write from here.

        Raises:
            StoreAwayError: PostgreSQL can't be asked.

        """
        known = self._known.get((project, dimensions))
        if known is None or time.monotonic() >= known.until:
            known = await self._connections.run(
                lambda connection: _standing(connection, project, dimensions), until
            )
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[project, dimensions] = known
        return known

    def look_after(self, project: str) -> None:
        """Make or drop a project's graphs in the background, as it needs."""
        self._forget(project)
        self._waiting[project] = None
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Give what is under way a little time; what is left undone, whoever writes next does."""
        if self._keeper is not None:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._keeper, _CLOSE_SECONDS)

    async def _keep(self) -> None:
        while self._waiting:
            project = next(iter(self._waiting))
            del self._waiting[project]
            try:
                await self._tend(project)
            except (StoreAwayError, *TROUBLE) as error:
                # The exact scan goes on meanwhile; the next write tries again.
                log.warning("the graph of a project's passages could not be made or dropped: %s", what(error))

    async def _tend(self, project: str) -> None:
        counts, standing = await self._connections.run(
            lambda connection: _survey(connection, project), within(ANSWER_SECONDS)
        )
        wanted = {
            graph_name(project, dimensions): dimensions
            for dimensions, count in counts.items()
            if count > self._above and dimensions <= MOST_DIMENSIONS
        }
        kept = {
            graph_name(project, dimensions)
            for dimensions, count in counts.items()
            if count * _DROP_SHARE > self._above
        }
        missing = {name: dimensions for name, dimensions in wanted.items() if not standing.get(name)}
        surplus = [name for name in standing if name not in kept]
        if missing or surplus:
            await self._rebuild(project, missing, surplus)

    async def _rebuild(self, project: str, missing: dict[str, int], surplus: list[str]) -> None:
        connection = await self._connections.connect()
        try:
            await connection.execute(_BUILDER)
            if not await connection.fetchval(
                "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", f"{TABLE} {project}"
            ):
                return  # another process is at it
            for name in surplus:
                await _drop(connection, name)
            for name, dimensions in missing.items():
                if not await connection.fetchval(_VALID, name):
                    await _drop(connection, name)  # what an interrupted building left
                    await connection.execute(
                        await connection.fetchval(_DEFINITION, name, dimensions, project)
                    )
        finally:
            connection.terminate()
            self._forget(project)

    def _forget(self, project: str) -> None:
        for key in [key for key in self._known if key[0] == project]:
            del self._known[key]


def graph_name(project: str, dimensions: int) -> str:
    """The name of a project's graph: no longer than names may be, and of characters that need no quotes."""
    return f"{_graphs_of(project)}{dimensions}"


def _graphs_of(project: str) -> str:
    return f"pepper_graph_{hashlib.blake2b(project.encode(), digest_size=16).hexdigest()}_"


async def _standing(connection: Connection, project: str, dimensions: int) -> Standing:
    async with inside(connection, project):
        row = await connection.fetchrow(_STANDING, graph_name(project, dimensions), project)
    graph, passages = row or (False, 0)
    return Standing(graph, passages, time.monotonic() + _KNOWN_SECONDS)


async def _survey(connection: Connection, project: str) -> tuple[dict[int, int], dict[str, bool]]:
    """Give how many passages a project has of each number of dimensions, and its graphs: whether they are whole."""
    async with inside(connection, project):
        counts = await connection.fetch(_COUNT, project)
        standing = await connection.fetch(_OF_PROJECT, TABLE, _graphs_of(project))
    return {row[0]: row[1] for row in counts}, {row[0]: row[1] for row in standing}


async def _drop(connection: Connection, name: str) -> None:
    # A name made by `graph_name`.
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
