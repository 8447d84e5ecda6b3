"""How large everything is, from the roomiest card to the densest, and what may be cut on the way.

Sizes are told in hundredths of the usual ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from gateway.dilem.card.palette import Color
from gateway.dilem.card.shaping import Ink

ROOMIEST: Final = 140
DENSEST: Final = 56
STEP: Final = 4


ASCENT: Final = 1.069
DESCENT: Final = 0.293
"""Of Noto Sans, in ems: what the other fonts of the chain are drawn to go with."""
CLEAR: Final = 0.02
NO_INK: Final = Ink(0.0, 0.0)


class Room(NamedTuple):
    """A line's pixels above and below its baseline."""

    above: int
    below: int


class Style(Struct, frozen=True):
    """A text's pixels of an em, its lines' height in ems, and its colour."""

    size: int
    leading: float
    color: Color

    def room(self, ink: Ink = NO_INK) -> Room:
        """Give a line's pixels above and below its baseline, more where the ink needs more."""
        above = (self.leading - ASCENT - DESCENT) / 2 + ASCENT
        return Room(
            round(self.size * max(above, ink.above + CLEAR)),
            round(self.size * max(self.leading - above, ink.below + CLEAR)),
        )


class Styles(Struct, frozen=True, kw_only=True):
    """The styles and distances of one size; distances in pixels.

    Attributes:
        padding: Inside the chosen option's panel.
        gap: Between panel, summary and options.
        row_gap: Between options.
        near: Between what belongs together.

    """

    kicker: Style
    chosen: Style
    detail: Style
    share: Style
    heading: Style
    summary: Style
    label: Style
    description: Style
    padding: int
    gap: int
    row_gap: int
    near: int
    bar: int
    thick_bar: int


def styles(hundredths: int) -> Styles:
    """Give the styles of a size in hundredths; above 100 only the chosen option grows on."""

    def scaled(pixels: int, least: int = 0) -> int:
        return max(least, round(pixels * min(hundredths, 100) / 100))

    return Styles(
        kicker=Style(scaled(25, 20), 1.4, "hero_accent"),
        chosen=Style(max(52, round(88 * hundredths / 100)), 1.24, "hero_ink"),
        detail=Style(scaled(36, 23), 1.42, "hero_quiet"),
        share=Style(scaled(72, 44), 1.2, "hero_accent"),
        heading=Style(scaled(25, 20), 1.4, "accent"),
        summary=Style(scaled(34, 24), 1.46, "ink"),
        label=Style(scaled(34, 23), 1.34, "ink"),
        description=Style(scaled(27, 21), 1.38, "quiet"),
        padding=scaled(52),
        gap=scaled(48),
        row_gap=scaled(30),
        near=scaled(14, 8),
        bar=scaled(14, 9),
        thick_bar=scaled(26, 16),
    )


class Limits(Struct, frozen=True, kw_only=True):
    """How many lines texts may have, and at which sizes that is tried.

    Attributes:
        chosen: Of the chosen option's label.
        detail: Of its description.
        label: Of another option's label.
        description: Of another option's description; 0 leaves it out.
        summary: As many lines has a summary that is cut at least; None when it may not be cut.
        cuts: Whether the options' texts may be cut.
        largest: In hundredths.

    """

    chosen: int = 4
    detail: int = 5
    label: int = 3
    description: int = 4
    summary: int | None = None
    cuts: bool = False
    largest: int = ROOMIEST


LIMITS: Final = (
    Limits(),
    Limits(summary=6, largest=84),
    Limits(summary=4, largest=68),
    Limits(summary=4, cuts=True, chosen=3, detail=3, label=2, description=2, largest=68),
    Limits(summary=3, cuts=True, chosen=3, detail=3, label=2, description=1, largest=60),
    Limits(cuts=True, chosen=3, detail=3, label=2, description=0, largest=80),
    Limits(summary=3, cuts=True, chosen=3, detail=3, label=2, description=0, largest=80),
    Limits(summary=2, cuts=True, chosen=3, detail=2, label=1, description=0, largest=DENSEST),
    Limits(summary=1, cuts=True, chosen=1, detail=1, label=1, description=0, largest=DENSEST),
)
"""Tried in turn; the last always fits."""
