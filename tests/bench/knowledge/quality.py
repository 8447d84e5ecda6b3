"""`make bench ARGS=--knowledge`: how often each embedder finds the right passage, and one where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
import msgspec
import numpy as np
import numpy.typing as npt

from gateway.domain.knowledge import MOST_PASSAGES
from gateway.knowledge.lexical import LexicalEmbedder
from gateway.knowledge.local import LocalEmbedder
from gateway.knowledge.retrieval import CANDIDATES, choose, search_floor
from gateway.knowledge.splitting import split
from gateway.ports import Embedder, Match
from tests.bench.knowledge.corpus import papers
from tests.bench.knowledge.questions import OFF_TOPIC, QUESTIONS, Kind, Question

HEADINGS = ("embedder", "floor", "terms", "top-1", "top-5", *(f"{kind}" for kind in Kind), "off-topic")
AROUND = (-0.08, -0.04, -0.02, 0.0, 0.02, 0.04, 0.08)
"""Floors that are shown beside the one chosen."""
_NOWHERE = 1_000

Matrix = npt.NDArray[np.float32]


class Figures(msgspec.Struct, frozen=True):
    """One embedder at one floor.

    Attributes:
        places: For each question, at which place the right passage was; `_NOWHERE` if at none.
        off_topic: Share of the off-topic questions that get passages.

    """

    floor: float
    terms: bool
    places: tuple[int, ...]
    off_topic: float

    def within(self, most: int, kind: Kind | None = None) -> float:
        """Share of the questions whose passage was among the first so many."""
        asked = [
            place
            for place, question in zip(self.places, QUESTIONS, strict=True)
            if kind in (None, question.kind)
        ]
        return sum(place < most for place in asked) / len(asked)

    def cells(self, embedder: str) -> tuple[str, ...]:
        """The row's words; for a kind of question top-1 and top-5."""
        kinds = [f"{self.within(1, kind):.2f} / {self.within(MOST_PASSAGES, kind):.2f}" for kind in Kind]
        return (
            embedder,
            f"{self.floor:.2f}",
            "yes" if self.terms else "no",
            f"{self.within(1):.2f}",
            f"{self.within(MOST_PASSAGES):.2f}",
            *kinds,
            f"{self.off_topic:.2f}",
        )


class Reading(msgspec.Struct, frozen=True):
    """What an embedder makes of documents and questions.

    Attributes:
        passages: With the name of the document of each.

    """

    passages: Sequence[tuple[str, str]]
    similarities: Matrix
    off_topic: Matrix

    @classmethod
    async def of(cls, embedder: Embedder) -> Reading:
        """Have everything read."""
        passages = [(paper.name, passage) for paper in papers() for passage in split(paper.text)]
        vectors = _matrix((await embedder.embed_passages([text for _, text in passages])).vectors)
        asked = [(await embedder.embed_question(question.text)).vectors[0] for question in QUESTIONS]
        besides = [(await embedder.embed_question(text)).vectors[0] for text in OFF_TOPIC]
        return cls(passages, _matrix(asked) @ vectors.T, _matrix(besides) @ vectors.T)

    def figures(self, floor: float, *, terms: bool) -> Figures:
        """Look for everything; `terms` lets passages with the question's codes come first."""
        places = tuple(
            self._place(question, row, floor, terms=terms)
            for question, row in zip(QUESTIONS, self.similarities, strict=True)
        )
        return Figures(floor, terms, places, float((self.off_topic.max(axis=1) >= floor).mean()))

    def _place(self, question: Question, row: Matrix, floor: float, *, terms: bool) -> int:
        asked = question.text if terms else ""
        least = search_floor(asked, floor)
        order = [int(number) for number in np.argsort(-row, kind="stable") if row[number] >= least]
        matches = [
            Match(0, number, self.passages[number][1], float(row[number])) for number in order[:CANDIDATES]
        ]
        chosen = choose(asked, matches, floor)
        right = (
            place for place, match in enumerate(chosen) if _answers(*self.passages[match.passage], question)
        )
        return next(right, _NOWHERE)


def measure_quality(*, curve: bool) -> None:
    """Print the table; with `curve` the floors around the chosen ones too."""
    rows = [HEADINGS, *asyncio.run(_rows(curve=curve))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    count = sum(len(split(paper.text)) for paper in papers())
    click.echo(
        f"\n{len(papers())} documents, {count} passages, {len(QUESTIONS)} questions, {len(OFF_TOPIC)} off-topic"
    )


async def _rows(*, curve: bool) -> list[tuple[str, ...]]:
    local = LocalEmbedder()
    embedders: list[Embedder] = [LexicalEmbedder(), *([local] if local.ready else [])]
    rows = []
    for embedder in embedders:
        reading = await Reading.of(embedder)
        floors = [embedder.floor + step for step in AROUND] if curve else [embedder.floor]
        rows += [
            reading.figures(floor, terms=terms).cells(embedder.name)
            for floor in floors
            for terms in ((True,) if curve else (False, True))
        ]
    await local.aclose()
    return rows


def _answers(document: str, passage: str, question: Question) -> bool:
    return document == question.document and question.phrase in passage


def _matrix(vectors: Sequence[bytes]) -> Matrix:
    return np.stack([np.frombuffer(vector, "<f4") for vector in vectors])
