"""`PgvectorIndex`: the index that every node shares.

A project's live versions are scanned, exactly; one with very many passages has a graph (`graphs.py`), and is asked
through it. Every statement runs in a transaction that has named its project (`schema.py`).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from gateway.domain.errors import StoreAwayError
from gateway.ports import VectorIndex
from gateway.vectors.arithmetic import FLOAT, unit, unit_rows
from gateway.vectors.matches import best
from gateway.vectors.pgvector.connections import ANSWER_SECONDS, Connections, within
from gateway.vectors.pgvector.graphs import ABOVE_PASSAGES, Graphs
from gateway.vectors.pgvector.question import Question, parts
from gateway.vectors.pgvector.schema import TABLE
from gateway.vectors.pgvector.wall import inside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from gateway.ports import Match
    from gateway.vectors.arithmetic import Floats
    from gateway.vectors.pgvector.driver import Connection

WRITE_SECONDS = 20.0
TURN_SECONDS = 4.0
MOST_WRITERS = 4
"""Writings at once of one process: searches are never without a connection because of them. Whoever has not had a turn
soon is told that the store is away."""
MOST_LANES = 4
LANE_PASSAGES = 2_500
"""A scan of more passages is shared by several connections, hence processor cores, up to the most. PostgreSQL's own
parallel workers take longer to start than such a scan takes."""

_NUL, _REPLACEMENT = "\x00", "\N{REPLACEMENT CHARACTER}"
_WRITING = f"SET LOCAL statement_timeout = {int(WRITE_SECONDS * 1000)};"
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended($1, $2))"
_INSERT = (
    f"INSERT INTO {TABLE} (project, document, version, passage, dimensions, text, vector)"  # noqa: S608 - a constant
    " VALUES ($1, $2, $3, $4, $5, $6, $7)"
)
_FORGET = f"DELETE FROM {TABLE} WHERE project = $1"  # noqa: S608
_PASSAGES = f"SELECT text FROM {TABLE} WHERE project = $1 AND document = $2 AND version = $3 ORDER BY passage"  # noqa: S608
# LIMIT: one look into the primary key for each, never the project's passages all together.
_HELD = f"""
SELECT live.document FROM unnest($1::bigint[], $2::bigint[]) AS live (document, version) CROSS JOIN LATERAL
(SELECT FROM {TABLE} WHERE project = $3 AND document = live.document AND version = live.version LIMIT 1) AS p
"""  # noqa: S608


class PgvectorIndex(VectorIndex):
    """An index in PostgreSQL; nothing is connected before the first use, and the table is made by it.

    Args:
        url: `postgresql://user:password@host:5432/db`, with the options of libpq.
        graph_above: How many passages a project may have without a graph.

    """

    def __init__(self, url: str, *, graph_above: int = ABOVE_PASSAGES) -> None:
        self._connections = Connections(url)
        self._graphs = Graphs(self._connections, graph_above)
        self._writers = asyncio.Semaphore(MOST_WRITERS)

    @override
    async def write(
        self, project: str, document: int, version: int, passages: Sequence[str], vectors: Sequence[bytes]
    ) -> None:
        if len(passages) != len(vectors):
            raise ValueError("every passage has a vector")
        halves = await asyncio.to_thread(lambda: _halves(unit_rows(vectors)))
        dimensions = len(vectors[0]) // FLOAT.itemsize

        def rows() -> Iterator[tuple[Any, ...]]:
            for number, (passage, half) in enumerate(zip(passages, halves, strict=True), start=1):
                yield project, document, version, number, dimensions, _text(passage), half

        async def work(connection: Connection) -> None:
            async with inside(connection, project, _WRITING):
                await connection.execute(_ONE_AT_A_TIME, project, document)
                await connection.execute(
                    f"{_FORGET} AND document = $2 AND version = $3", project, document, version
                )
                await connection.executemany(_INSERT, rows())

        async with self._turn():
            await self._connections.run(work, within(WRITE_SECONDS))
        self._graphs.look_after(project)

    @override
    async def forget(self, project: str, document: int, version: int | None = None) -> None:
        async def work(connection: Connection) -> None:
            async with inside(connection, project):
                await connection.execute(
                    f"{_FORGET} AND document = $2 AND ($3::bigint IS NULL OR version = $3)",
                    project,
                    document,
                    version,
                )

        await self._connections.run(work, within(ANSWER_SECONDS))

    @override
    async def forget_project(self, project: str) -> None:
        async def work(connection: Connection) -> None:
            async with inside(connection, project, _WRITING):
                await connection.execute(_FORGET, project)

        await self._connections.run(work, within(WRITE_SECONDS))
        self._graphs.look_after(project)

    @override
    async def search(
        self, project: str, live: Mapping[int, int], vector: bytes, most: int, floor: float
    ) -> Sequence[Match]:
        if not live or most < 1:
            return ()
        question = unit(vector)
        until = within(ANSWER_SECONDS)
        ask = Question(project, _halves(question[None])[0], question.size, most)
        found: Sequence[Match] = ()
        standing = await self._graphs.of(project, question.size, until)
        if standing.graph:
            found = await self._connections.run(partial(ask.walk, live=live), until)
        if len(found) < most:
            dealt = parts(live, max(1, min(MOST_LANES, standing.passages // LANE_PASSAGES)))
            scans = (self._connections.run(partial(ask.scan, live=part), until) for part in dealt)
            found = [match for matches in await asyncio.gather(*scans) for match in matches]
        return best(found, most, floor)

    @override
    async def held(self, project: str, live: Mapping[int, int]) -> frozenset[int]:
        async def work(connection: Connection) -> frozenset[int]:
            async with inside(connection, project):
                rows = await connection.fetch(_HELD, list(live), list(live.values()), project)
            return frozenset(row["document"] for row in rows)

        if not live:
            return frozenset()
        return await self._connections.run(work, within(ANSWER_SECONDS))

    @override
    async def passages(self, project: str, document: int, version: int) -> Sequence[str]:
        async def work(connection: Connection) -> Sequence[str]:
            async with inside(connection, project):
                rows = await connection.fetch(_PASSAGES, project, document, version)
            return tuple(row["text"] for row in rows)

        return await self._connections.run(work, within(ANSWER_SECONDS))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._writers.acquire()
        except TimeoutError:
            raise StoreAwayError("too many writings to PostgreSQL at once") from None
        try:
            yield
        finally:
            self._writers.release()

    @override
    async def ping(self) -> None:
        await self._connections.run(
            lambda connection: connection.fetchval("SELECT 1"), within(ANSWER_SECONDS)
        )

    @override
    async def close(self) -> None:
        await self._graphs.close()
        await self._connections.close()


def _halves(units: Floats) -> list[bytes]:
    """Rows in the binary form of `halfvec`: dimensions and nothing, 16 bits each, then half floats, big end first."""
    head = np.array([units.shape[1], 0], dtype=">u2").tobytes()
    return [head + row.tobytes() for row in units.astype(">f2")]


def _text(passage: str) -> str:
    """A passage that PostgreSQL takes: no NUL, no half of a surrogate pair."""
    return passage.replace(_NUL, _REPLACEMENT).encode("utf-8", "replace").decode()
