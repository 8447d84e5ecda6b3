"""The stores behind the two vector indexes, as their tests use them: several indexes on one store, other processes,
and vectors whose likeness is known.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.ports import Match, VectorIndex
from gateway.vectors.pgvector import PgvectorIndex
from gateway.vectors.sqlite import SqliteIndex

KINDS = ("sqlite", pytest.param("pgvector", marks=pytest.mark.postgres))
ROOT = Path(__file__).parents[2]
DIMENSIONS = 24
ROUNDING = 2e-3
"""Half floats have 11 bits: what a similarity may differ by."""

Answer = TypeVar("Answer")
Vectors = NDArray[np.float32]


class IndexStore:
    """One store; `index` is the first index on it, `open` gives others, as other processes would have."""

    def __init__(self, kind: str, place: str) -> None:
        self.recipe = kind, place
        self._opened: list[VectorIndex] = []
        self.index = self.open()

    def open(self) -> VectorIndex:
        index = make_index(*self.recipe)
        self._opened.append(index)
        return index

    async def close(self) -> None:
        for index in self._opened:
            await index.close()


def make_index(kind: str, place: str) -> VectorIndex:
    return SqliteIndex(Path(place)) if kind == "sqlite" else PgvectorIndex(place)


def open_store(request: pytest.FixtureRequest, kind: str) -> IndexStore:
    if kind == "sqlite":
        return IndexStore(kind, str(request.getfixturevalue("tmp_path")))
    return IndexStore(kind, request.getfixturevalue("vector_url"))


def directions(count: int, seed: int = 1, dimensions: int = DIMENSIONS) -> Vectors:
    """So many unit vectors, always the same for a seed."""
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    units: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units


def as_bytes(rows: Vectors) -> list[bytes]:
    return [row.astype("<f4").tobytes() for row in rows]


def texts(rows: Vectors, name: str = "brano") -> list[str]:
    return [f"{name} {number}" for number in range(1, len(rows) + 1)]


async def write(
    index: VectorIndex, project: str, document: int, version: int, rows: Vectors, *, name: str = "brano"
) -> None:
    await index.write(project, document, version, texts(rows, name), as_bytes(rows))


async def ask(
    index: VectorIndex,
    project: str,
    live: Mapping[int, int],
    vector: Vectors,
    *,
    most: int = 5,
    floor: float = -1.0,
) -> list[tuple[int, int]]:
    """Document and passage of what is found."""
    found = await index.search(project, live, vector.astype("<f4").tobytes(), most, floor)
    return [(match.document, match.passage) for match in found]


def brute_force(
    documents: Mapping[int, Vectors], vector: Vectors, most: int, floor: float = -1.0
) -> list[Match]:
    """What an exact index gives; texts as `write` gives them."""
    every = [
        Match(document, number, f"brano {number}", float(row @ vector))
        for document, rows in documents.items()
        for number, row in enumerate(rows, start=1)
    ]
    good = [match for match in every if match.similarity >= floor]
    return sorted(good, key=lambda match: (-match.similarity, match.document, match.passage))[:most]


def assert_like(found: Sequence[Match], expected: Sequence[Match]) -> None:
    """The same matches in the same order, but for similarities that rounding can't tell apart."""
    assert [match.similarity for match in found] == pytest.approx(
        [match.similarity for match in expected], abs=ROUNDING
    )
    similarity_of = {(match.document, match.passage): match.similarity for match in expected}
    for match, other in zip(found, expected, strict=True):
        named = similarity_of.get((match.document, match.passage), other.similarity)
        assert match.similarity == pytest.approx(named, abs=ROUNDING), (found, expected)
        assert match.text == f"brano {match.passage}"


def run_elsewhere(program: str, store: IndexStore) -> subprocess.Popen[str]:
    """Start a process that runs the body of an async function, in which `index` is an index on the store."""
    body = textwrap.indent(textwrap.dedent(program), "    ")
    source = (
        "import asyncio, os, sys, time\n"
        "from tests.contract.indexes import *\n"
        f"async def main(index):\n{body}\n"
        f"asyncio.run(main(make_index(*{store.recipe!r})))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def told_by(process: subprocess.Popen[str]) -> str:
    """What a process prints until it ends; it must end well."""
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0
    return output


async def within(seconds: float, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat an attempt until it no longer fails; what it gave."""
    until = time.monotonic() + seconds
    while True:
        try:
            return await attempt()
        except Exception:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)


async def soon(seconds: float, question: Callable[[], Awaitable[Any]], wanted: object) -> None:
    """Repeat a question until it has the wanted answer."""
    until = time.monotonic() + seconds
    while (answer := await question()) != wanted:
        assert time.monotonic() < until, answer
        await asyncio.sleep(0.1)
