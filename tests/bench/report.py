"""Figures of several rounds: medians, spreads, ratios, and the table that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

HEADINGS = ("", "callers", "stores", "per second", "µs of CPU", "core", "p50 ms", "p99 ms", "CPU ratio")
_LEFT = {0, 2}


class Round(msgspec.Struct, frozen=True):
    """One slice of one case on one gateway."""

    per_second: float
    cpu_micros: float
    """Of the worker, for each unit."""
    core_share: float
    """How much of its core the worker had."""
    p50: float
    p99: float
    wrong: int = 0
    """Answers that were not as they should be, and the first of them."""
    example: str = ""


class Row(msgspec.Struct, frozen=True):
    """One case on one gateway, all rounds."""

    case: str
    callers: int
    stores: str
    rounds: Sequence[Round]

    def cells(self, first: Row | None) -> tuple[str, ...]:
        """The row's words; `first` is the row that the ratio is taken to."""
        rounds = self.rounds
        return (
            self.case,
            str(self.callers),
            self.stores,
            _spread([one.per_second for one in rounds]),
            _spread([one.cpu_micros for one in rounds]),
            f"{median(one.core_share for one in rounds):.0%}",
            f"{median(one.p50 for one in rounds):.1f}",
            f"{median(one.p99 for one in rounds):.1f}",
            "" if first is None else f"{self.cpu_micros / first.cpu_micros:.2f}",
        )

    @property
    def cpu_micros(self) -> float:
        return median(one.cpu_micros for one in self.rounds)

    @property
    def complaint(self) -> str | None:
        """What is wrong with the row, if anything is."""
        wrong = sum(one.wrong for one in self.rounds)
        example = next((one.example for one in self.rounds if one.wrong), "")
        return f"{self.case} on {self.stores}: {wrong} wrong answers: {example}" if wrong else None


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """All rows as words, ratios taken to the first row of the same case."""
    firsts: dict[tuple[str, int], Row] = {}
    shown = []
    for row in rows:
        first = firsts.setdefault((row.case, row.callers), row)
        shown.append(row.cells(None if first is row else first))
    return shown


def text_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---" if column in _LEFT else "---:" for column in range(len(HEADINGS))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (HEADINGS, rule, *rows))


def _spread(values: Sequence[float]) -> str:
    """The median, and how far the farthest round is from it."""
    middle = median(values)
    shown = f"{middle:,.0f}"
    if len(values) == 1 or not middle:
        return shown
    return f"{shown} ±{max(abs(value - middle) for value in values) / middle:.0%}"
