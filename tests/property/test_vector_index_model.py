"""Whatever is written and forgotten in whatever order, an index gives what a plain model of it gives."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.vectors.arithmetic import unit, unit_rows
from tests.contract.indexes import (
    KINDS,
    ROUNDING,
    IndexStore,
    Vectors,
    as_bytes,
    assert_like,
    brute_force,
    directions,
    open_store,
    write,
)

_examples = count()

PROJECTS, DOCUMENTS, VERSIONS = st.sampled_from(["a", "b"]), st.integers(1, 3), st.integers(1, 3)
SHAPES = st.tuples(st.integers(1, 6), st.integers(0, 5), st.sampled_from([4, 4, 4, 7]))
"""Passages, seed, dimensions."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PROJECTS, DOCUMENTS, VERSIONS, SHAPES),
        st.tuples(st.just("forget"), PROJECTS, DOCUMENTS, st.none() | VERSIONS),
        st.tuples(st.just("forget project"), PROJECTS),
        st.tuples(
            st.just("search"),
            PROJECTS,
            st.dictionaries(DOCUMENTS, VERSIONS),
            st.integers(0, 12),
            st.sampled_from([-1.0, -0.1, 0.3]),
            SHAPES,
        ),
    ),
    min_size=4,
    max_size=25,
)


class _Run:
    """Two indexes on one store and the model, in projects of their own."""

    def __init__(self, store: IndexStore) -> None:
        self.indexes = [store.open(), store.open()]
        self.suffix = f"-{next(_examples)}"
        self.model: dict[tuple[str, int, int], Vectors] = {}

    async def take(self, number: int, step: tuple[Any, ...]) -> None:
        index = self.indexes[number % 2]
        match step:
            case "write", project, document, version, (passages, seed, dimensions):
                rows = directions(passages, seed, dimensions)
                await write(index, project + self.suffix, document, version, rows)
                self.model[project, document, version] = rows
            case "forget", project, document, version:
                await index.forget(project + self.suffix, document, version)
                self._drop(lambda key: key[:2] == (project, document) and version in {None, key[2]})
            case "forget project", project:
                await index.forget_project(project + self.suffix)
                self._drop(lambda key: key[0] == project)
            case "search", project, live, most, floor, (_, seed, dimensions):
                question = directions(1, 100 + seed, dimensions)[0]
                found = await index.search(
                    project + self.suffix, live, as_bytes(question[None])[0], most, floor
                )
                there = self._live(project, live, dimensions)
                likely = brute_force(there, question, most)
                assert_like(found, likely[: len(found)])
                # Rounding may lift one over the floor, or push one under it.
                clearly, perhaps = (
                    sum(match.similarity >= floor + slack for match in likely)
                    for slack in (ROUNDING, -ROUNDING)
                )
                assert clearly <= len(found) <= perhaps
                assert all(match.similarity >= floor for match in found)
                held = {one for one, version in live.items() if (project, one, version) in self.model}
                assert await index.held(project + self.suffix, live) == held
                for key, rows in self.model.items():
                    stored = await index.passages(key[0] + self.suffix, *key[1:])
                    assert len(stored) == len(rows)

    def _drop(self, matches: Any) -> None:
        for key in [key for key in self.model if matches(key)]:
            del self.model[key]

    def _live(self, project: str, live: dict[int, int], dimensions: int) -> dict[int, Vectors]:
        found = {document: self.model.get((project, document, version)) for document, version in live.items()}
        return {
            document: rows
            for document, rows in found.items()
            if rows is not None and rows.shape[1] == dimensions
        }

    async def close(self) -> None:
        for index in self.indexes:
            for project in ("a", "b"):
                await index.forget_project(project + self.suffix)
            await index.close()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> IndexStore:
    return open_store(request, request.param)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_an_index_does_what_the_model_does(store: IndexStore, steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        both = _Run(store)
        try:
            for number, step in enumerate(steps):
                await both.take(number, step)
        finally:
            await both.close()

    asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(vectors=st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=5))
def test_any_bytes_are_made_unit_vectors_or_zeros(vectors: list[bytes]) -> None:
    rows = unit_rows(vectors)
    assert rows.shape == (len(vectors), 4)
    for vector, row in zip(vectors, rows, strict=True):
        length = float((row.astype("f8") ** 2).sum())
        assert length == pytest.approx(1.0, abs=1e-5) or not row.any()
        assert (unit(vector) == row).all()
