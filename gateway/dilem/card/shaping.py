"""Text into placed glyphs: cut where font or direction change, shaped by HarfBuzz, measured in ems.

The fonts aren't hinted, so a text shaped once is measured for every size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import regex
import uharfbuzz as hb

from gateway.dilem.card import bidi
from gateway.dilem.card.fonts import Chain, Typeface

MOST_IN_CHARACTER: Final = 12
"""Code points of one user-perceived character; the longest emoji takes ten. What is longer is cut."""
BOX_WIDTH: Final = 0.66
"""Of the box that stands for what no font draws."""

# A vowel sign of its own belongs to the letter before it all the same.
_CHARACTER: Final = regex.compile(r"\X\p{M}*")


class Glyph(NamedTuple):
    """One glyph, where it stands on its line: ems from the left end and above the baseline."""

    typeface: Typeface | None
    number: int
    x: float
    y: float


class Ink(NamedTuple):
    """How far a text's glyphs reach above and below the baseline, in ems, up to what a line gives."""

    above: float
    below: float


class Shaped(NamedTuple):
    """A line of glyphs from left to right, and its width in ems."""

    glyphs: tuple[Glyph, ...]
    width: float


MOST_INK: Final = Ink(1.3, 0.7)
"""Scripts that pile their signs reach so far; marks that are piled higher are cut off."""


class Text:
    """A line of plain text, however long, with what is known of each user-perceived character.

    Attributes:
        characters: The user-perceived characters.
        widths: Of each, in ems.
        ink: Of all.
        base: 1 when the text runs from right to left, else 0.

    """

    def __init__(self, text: str, chain: Chain, *, tracking: float = 0.0, base: int | None = None) -> None:
        self.base = bidi.base_level(text) if base is None else base
        self.characters = tuple(characters(text))
        self._chain = chain
        self._tracking = tracking
        self._levels = _levels(self.characters, bidi.levels(text, self.base))
        self._typefaces = _typefaces(self.characters, chain)
        self.widths = [tracking] * len(self.characters)
        self._above = self._below = 0.0
        for start, end in self._runs(0, len(self.characters)):
            for place, width in self._measure(start, end):
                self.widths[place] += width
        self.ink = Ink(min(self._above, MOST_INK.above), min(self._below, MOST_INK.below))

    def ellipsised(self, start: int, end: int) -> Text:
        """Give a part of the text as one of its own, which says that it is cut."""
        part = "".join(self.characters[start:end]).rstrip(" ,;:-")
        return Text(part + "…", self._chain, tracking=self._tracking, base=self.base)

    def shape(self, start: int, end: int) -> Shaped:
        """Set the characters from `start` to before `end` as one line."""
        runs = list(self._runs(start, end))
        glyphs: list[Glyph] = []
        x = 0.0
        for place in bidi.visual_order([self._levels[run[0]] for run in runs]):
            x = self._set(runs[place], x, glyphs)
        return Shaped(tuple(glyphs), x)

    def _runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        def kind(place: int) -> tuple[int, int]:
            return self._levels[place], id(self._typefaces[place])

        for _, places in groupby(range(start, end), kind):
            first, *others = places
            yield first, (others[-1] if others else first) + 1

    def _set(self, run: tuple[int, int], x: float, glyphs: list[Glyph]) -> float:
        start, end = run
        typeface = self._typefaces[start]
        if typeface is None:
            for _ in range(start, end):
                glyphs.append(Glyph(None, 0, x, 0.0))
                x += BOX_WIDTH + self._tracking
            return x
        buffer = self._shape(typeface, start, end)
        for info, position in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            glyphs.append(
                Glyph(
                    typeface,
                    info.codepoint,
                    x + position.x_offset / typeface.em,
                    position.y_offset / typeface.em,
                )
            )
            x += position.x_advance / typeface.em + (self._tracking if position.x_advance else 0.0)
        return x

    def _measure(self, start: int, end: int) -> Iterator[tuple[int, float]]:
        typeface = self._typefaces[start]
        if typeface is None:
            yield from ((place, BOX_WIDTH) for place in range(start, end))
            return
        owners = [place for place in range(start, end) for _ in self.characters[place]]
        buffer = self._shape(typeface, start, end)
        for info, position in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            above, below = typeface.ink(info.codepoint)
            self._above = max(self._above, above + position.y_offset / typeface.em)
            self._below = max(self._below, below - position.y_offset / typeface.em)
            yield owners[info.cluster], position.x_advance / typeface.em

    def _shape(self, typeface: Typeface, start: int, end: int) -> hb.Buffer:
        buffer = hb.Buffer()
        buffer.cluster_level = hb.BufferClusterLevel.MONOTONE_CHARACTERS
        # A mark that the font lacks is left out, rather than shown as missing.
        buffer.not_found_glyph = typeface.blank
        buffer.add_codepoints([ord(point) for one in self.characters[start:end] for point in one])
        buffer.guess_segment_properties()
        buffer.direction = "rtl" if self._levels[start] % 2 else "ltr"
        hb.shape(typeface.font, buffer)
        return buffer


def characters(text: str) -> Iterator[str]:
    """Give the user-perceived characters of a text."""
    for found in _CHARACTER.finditer(text):
        one = found.group()
        for start in range(0, len(one), MOST_IN_CHARACTER):
            yield one[start : start + MOST_IN_CHARACTER]


def _levels(of: Sequence[str], levels: list[int]) -> list[int]:
    first, found = 0, []
    for one in of:
        found.append(levels[first])
        first += len(one)
    return found


def _typefaces(of: Sequence[str], chain: Chain) -> list[Typeface | None]:
    found: list[Typeface | None] = []
    for one in of:
        before = found[-1] if found else None
        # A space belongs to the word before it, so that an alphabet isn't cut into words.
        stays = one == " " and before is not None and not before.pictures and before.draws(one)
        found.append(before if stays else chain.typeface(one))
    return found
