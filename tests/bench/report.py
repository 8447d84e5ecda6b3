"""Figures of several rounds: medians, spreads, ratios, and the table that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

HEADINGS = (
    "",
    "callers",
    "gateway",
    "per second",
    "µs of CPU",
    "core",
    "p50 ms",
    "p99 ms",
    "Pepper: times as fast",
    "CPU of a call, times Pepper's",
)
_LEFT = {0, 2}


class Round(msgspec.Struct, frozen=True):
    """One slice of one case on one gateway."""

    per_second: float
    cpu_micros: float
    """Of its workers, for each unit."""
    core_share: float
    """How much of a core they had."""
    p50: float
    p99: float
    wrong: int = 0
    """Answers that were not as they should be, and the first of them."""
    example: str = ""


class Row(msgspec.Struct, frozen=True):
    """One case on one gateway, all rounds.

    Attributes:
        ours: Whether the gateway is Pepper.

    """

    case: str
    callers: int
    gateway: str
    rounds: Sequence[Round]
    ours: bool = True

    def cells(self, reference: Row | None) -> tuple[str, ...]:
        """The row's words; `reference` is the row that is compared with this one, round by round."""
        rounds = self.rounds
        faster, cheaper = "", ""
        if reference is not None:
            pairs = list(zip(reference.rounds, rounds, strict=True))
            faster = _ratio([ours.per_second / max(one.per_second, 1e-9) for ours, one in pairs])
            cheaper = _ratio([one.cpu_micros / max(ours.cpu_micros, 1e-9) for ours, one in pairs])
        return (
            self.case,
            f"{self.callers:,}",
            self.gateway,
            _spread([one.per_second for one in rounds]),
            _spread([one.cpu_micros for one in rounds]),
            f"{median(one.core_share for one in rounds):.0%}",
            f"{median(one.p50 for one in rounds):,.1f}",
            f"{median(one.p99 for one in rounds):,.1f}",
            faster,
            cheaper,
        )

    @property
    def complaint(self) -> str | None:
        """What is wrong with the row, if anything is."""
        wrong = sum(one.wrong for one in self.rounds)
        example = next((one.example for one in self.rounds if one.wrong), "")
        return f"{self.case} on {self.gateway}: {wrong} wrong answers: {example}" if wrong else None


def cells(rows: Sequence[Row], reference: str) -> list[tuple[str, ...]]:
    """All rows as words; ratios are those of the gateway `reference` to every other one in the same case."""
    references = {(row.case, row.callers): row for row in rows if row.gateway == reference}
    shown = []
    for row in rows:
        other = references.get((row.case, row.callers))
        shown.append(row.cells(None if other is row else other))
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


def _ratio(values: Sequence[float]) -> str:
    """The median, and between which two all of them are."""
    middle = median(values)
    if len(values) == 1:
        return f"{middle:.2f}"
    return f"{middle:.2f} ({min(values):.2f} to {max(values):.2f})"
