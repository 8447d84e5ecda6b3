"""How long a search among a project's passages takes, in both vector indexes: `python -m tests.bench --only vectors`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import click
import numpy as np
import pytest

from gateway.ports import VectorIndex
from gateway.vectors.pgvector import PgvectorIndex
from gateway.vectors.pgvector.graphs import graph_name
from gateway.vectors.sqlite import SqliteIndex
from tests.bench import loops
from tests.bench.machine import description, load_average
from tests.services import Postgres

NAME = "vectors"
DIMENSIONS = 1_536
PASSAGE = "Il consiglio comunale si è riunito in seduta ordinaria. " * 18
PER_DOCUMENT = 500
SCANNED, WALKED = 10_000, 25_000
"""Passages of a project that is scanned, and of one that PostgreSQL has a graph for."""
GRAPH_SECONDS = 900


def measure_vectors(*, quick: bool) -> None:
    click.echo(f"{description()}; load before the start {load_average()}; {DIMENSIONS} dimensions")
    click.echo(
        f"{'':28} {'passages':>9} {'write ms':>9} {'first ms':>9} {'p50 ms':>8} {'p90 ms':>8} {'CPU ms':>7}"
    )
    searches = 40 if quick else 200
    with tempfile.TemporaryDirectory(prefix="pepper-bench-") as folder:
        loops.run(_measure("SQLite, exact", SqliteIndex(Path(folder)), SCANNED, searches))
    with _postgres() as server:
        if server is None:
            return
        url = server.create_database()
        loops.run(_measure("PostgreSQL, exact", PgvectorIndex(url), SCANNED, searches))
        if not quick:
            loops.run(
                _measure("PostgreSQL, graph", PgvectorIndex(url), WALKED, searches, server=server, url=url)
            )


@contextmanager
def _postgres() -> Iterator[Postgres | None]:
    with ExitStack() as ending:
        try:
            server = Postgres()
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:
            click.echo(f"left out: {missing}")
            yield None
            return
        ending.callback(server.remove)
        server.start()
        yield server


async def _measure(
    name: str,
    index: VectorIndex,
    passages: int,
    searches: int,
    *,
    server: Postgres | None = None,
    url: str = "",
) -> None:
    """One line: a project of so many passages, searched by one caller.

    Args:
        server: With it, its graph of the project is waited for.

    """
    numbers, project = np.random.default_rng(1), f"bench-{passages}"
    live = dict.fromkeys(range(1, passages // PER_DOCUMENT + 1), 1)
    began = time.perf_counter()
    for document in live:
        rows = numbers.standard_normal((PER_DOCUMENT, DIMENSIONS)).astype("<f4")
        await index.write(project, document, 1, [PASSAGE] * PER_DOCUMENT, [row.tobytes() for row in rows])
    written = (time.perf_counter() - began) / len(live)
    if server is not None:
        await _graph(server, url, graph_name(project, DIMENSIONS))
    questions = numbers.standard_normal((searches + 1, DIMENSIONS)).astype("<f4")
    taken = []
    cpu = 0.0
    for number, question in enumerate(questions):
        if number == 1:
            cpu = time.process_time()
        began = time.perf_counter()
        found = await index.search(project, live, question.tobytes(), 5, -1.0)
        taken.append((time.perf_counter() - began) * 1e3)
        assert len(found) == 5
    spent = (time.process_time() - cpu) / searches * 1e3
    first, *rest = taken
    p90 = sorted(rest)[int(len(rest) * 0.9)]
    click.echo(
        f"{name:28} {passages:>9,} {written * 1e3:>9.0f} {first:>9.1f} {median(rest):>8.1f} {p90:>8.1f} {spent:>7.1f}"
    )
    await index.close()


async def _graph(server: Postgres, url: str, graph: str) -> None:
    until = time.monotonic() + GRAPH_SECONDS
    valid = f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{graph}')"
    while await asyncio.to_thread(server.tell, valid, url.rpartition("/")[2]) != "t":
        if time.monotonic() > until:
            message = "no graph was made"
            raise TimeoutError(message)
        await asyncio.sleep(0.5)
    await asyncio.sleep(1)
