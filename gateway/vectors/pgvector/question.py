"""A question to PostgreSQL: which passages of a project are nearest to a vector, scanned or through the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.ports import Match
from gateway.vectors.matches import cosine
from gateway.vectors.pgvector.schema import TABLE
from gateway.vectors.pgvector.wall import inside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.vectors.pgvector.driver import Connection

# The distance of unit vectors is the negative product. It is named once: what is named twice is reckoned twice.
_SCAN = f"""
SELECT p.document, p.passage, p.text, p.vector <#> $1 AS distance
FROM unnest($2::bigint[], $3::bigint[]) AS live (document, version)
JOIN {TABLE} p ON p.project = $4 AND p.document = live.document AND p.version = live.version AND p.dimensions = $5
ORDER BY distance, p.document, p.passage LIMIT $6
"""  # noqa: S608 - a constant
# IS TRUE keeps the planner from joining: it would reckon and sort everything instead of asking the graph.
_WALK = """
SELECT document, passage, text, vector::halfvec({dimensions}) <#> $1 AS distance
FROM {table}
WHERE project = $4 AND dimensions = $5
    AND ((document, version) IN (SELECT * FROM unnest($2::bigint[], $3::bigint[]))) IS TRUE
ORDER BY distance LIMIT $6
"""
# The planner must see the project to know that the graph is of it. The graph gives more until enough of them are live.
_WALKING = (
    "SET LOCAL plan_cache_mode = force_custom_plan;"
    "SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = 200;"
    "SET LOCAL hnsw.max_scan_tuples = 100000;"
)


class Question(msgspec.Struct, frozen=True):
    """What is asked.

    Attributes:
        half: The vector, in the binary form of `halfvec`.
        most: How many passages at most.

    """

    project: str
    half: bytes
    dimensions: int
    most: int

    async def scan(self, connection: Connection, live: Mapping[int, int]) -> list[Match]:
        """Compare with every passage of some live versions."""
        return await self._ask(connection, _SCAN, live)

    async def walk(self, connection: Connection, live: Mapping[int, int]) -> list[Match]:
        """Ask the project's graph."""
        query = _WALK.format(dimensions=self.dimensions, table=TABLE)
        return await self._ask(connection, query, live, _WALKING)

    async def _ask(
        self, connection: Connection, query: str, live: Mapping[int, int], settings: str = ""
    ) -> list[Match]:
        async with inside(connection, self.project, settings):
            rows = await connection.fetch(
                query,
                self.half,
                list(live),
                list(live.values()),
                self.project,
                self.dimensions,
                self.most,
            )
        return [Match(row["document"], row["passage"], row["text"], cosine(-row["distance"])) for row in rows]


def parts(live: Mapping[int, int], count: int) -> list[dict[int, int]]:
    """Deal live versions out to so many scans."""
    dealt = [dict(list(live.items())[start::count]) for start in range(count)]
    return [part for part in dealt if part]
