"""A text into lines of a width: broken where its script allows it, anywhere if it must be, and cut with an ellipsis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import regex
from msgspec import Struct

from gateway.dilem.card.shaping import Ink, Shaped, Text

LEAST_CUT: Final = 0.7
"""Of a line's width is left to what ends after a word."""
# In the classes of Unicode's annex 14. Korean is broken at its spaces alone, which reads better.
_HYPHENS: Final = regex.compile(r"[\p{Pd}/]")
_UNSPACED: Final = regex.compile(
    r"[\p{Line_Break=ID}\p{Line_Break=CJ}\p{Line_Break=SA}\p{Line_Break=EB}\p{Line_Break=RI}]"
)
_THAI_LAO_FIRST: Final = r"\u0E2F\u0E30\u0E32\u0E33\u0E45\u0E46\u0EB0\u0EB2\u0EB3\u0EC6"
_THAI_LAO_LAST: Final = r"\u0E40-\u0E44\u0EC0-\u0EC4"
_NEVER_FIRST: Final = regex.compile(
    r"[\p{Line_Break=CL}\p{Line_Break=CP}\p{Line_Break=EX}\p{Line_Break=IS}\p{Line_Break=SY}\p{Line_Break=NS}"
    r"\p{Line_Break=CJ}\p{Line_Break=IN}\p{Line_Break=PO}\p{Pf}" + _THAI_LAO_FIRST + "]"
)
_NEVER_LAST: Final = regex.compile(
    r"[\p{Line_Break=OP}\p{Line_Break=PR}\p{Line_Break=GL}\p{Pi}" + _THAI_LAO_LAST + "]"
)


class Line(Struct, frozen=True):
    """One line, set.

    Attributes:
        shaped: Its glyphs.
        right: Whether it stands at the right end of its place.

    """

    shaped: Shaped
    right: bool


class Paragraphs:
    """Texts that follow each other, to be broken into lines of one size.

    Args:
        texts: Each begins a new line.

    Attributes:
        ink: Of all lines, so that all are equally high.
        right: Whether the first runs from right to left.

    """

    def __init__(self, texts: Sequence[Text]) -> None:
        self._texts = tuple((text, _breaks(text.characters)) for text in texts)
        self._known: dict[tuple[float, int, bool], tuple[list[Line], bool]] = {}
        self.ink = Ink(
            max((text.ink.above for text in texts), default=0.0),
            max((text.ink.below for text in texts), default=0.0),
        )
        self.right = bool(texts) and texts[0].base == 1
        self._longest_word = max((_longest_word(*one) for one in self._texts), default=0.0)

    def __bool__(self) -> bool:
        """Tell whether there is anything to break."""
        return bool(self._texts)

    def broken(self, width: float, most: int, *, even: bool = False) -> tuple[list[Line], bool]:
        """Give at most so many lines of at most so many ems, and whether they hold all of the text.

        Args:
            width: Ems.
            most: Lines.
            even: Whether the lines shall be as long as each other, without being more.

        """
        wanted = width, most, even
        if wanted not in self._known:
            self._known[wanted] = self._evenly(width, most) if even else self._greedily(width, most)
        return self._known[wanted]

    def _greedily(self, width: float, most: int) -> tuple[list[Line], bool]:
        lines: list[Line] = []
        narrow = True
        for number, (text, breaks) in enumerate(self._texts, 1):
            start, end = 0, len(text.characters)
            while start < end:
                stop, shaped = _fill(text, breaks, start, width)
                # One character may be wider than a line.
                narrow = narrow and shaped.width <= width
                goes_on = stop < end or number < len(self._texts)
                if goes_on and len(lines) == most - 1:
                    return [*lines, Line(_cut(text, breaks, start, stop, width), text.base == 1)], False
                lines.append(Line(shaped, text.base == 1))
                start = stop
        return lines, narrow

    def _evenly(self, width: float, most: int) -> tuple[list[Line], bool]:
        lines, whole = self.broken(width, most)
        if not whole or len(lines) < 2:
            return lines, whole
        narrow, wide = max(width / 2, self._longest_word), width
        while wide - narrow > width / 64:
            middle = (narrow + wide) / 2
            tried, whole = self._greedily(middle, len(lines))
            if whole:
                wide, lines = middle, tried
            else:
                narrow = middle
        return lines, True


def _breaks(characters: Sequence[str]) -> list[bool]:
    """Tell before which characters a line may begin."""
    allowed = [False] * len(characters)
    for place in range(1, len(characters)):
        before, here = characters[place - 1], characters[place]
        if here == " ":
            continue
        if before == " ":
            allowed[place] = True
        elif _HYPHENS.fullmatch(before):
            allowed[place] = place > 1 and characters[place - 2].isalnum() and here.isalpha()
        elif _UNSPACED.match(before) or _UNSPACED.match(here):
            allowed[place] = not (_NEVER_FIRST.match(here) or _NEVER_LAST.match(before))
    return allowed


def _longest_word(text: Text, breaks: Sequence[bool]) -> float:
    longest = word = 0.0
    for character, width, begins in zip(text.characters, text.widths, breaks, strict=True):
        word = width if begins or character == " " else word + width
        longest = max(longest, word)
    return longest


def _fill(text: Text, breaks: Sequence[bool], start: int, width: float) -> tuple[int, Shaped]:
    """Give where the next line begins, and the line up to there."""
    characters, widths = text.characters, text.widths
    end, taken = start, 0.0
    # Spaces at the end of a line take no place on it.
    while end < len(characters) and (taken + widths[end] <= width or characters[end] == " "):
        taken += widths[end]
        end += 1
    end = max(end, start + 1)
    while True:
        if end < len(characters):
            end = next((place for place in range(end, start, -1) if breaks[place]), end)
        visible = end
        while visible > start + 1 and characters[visible - 1] == " ":
            visible -= 1
        shaped = text.shape(start, visible)
        # A letter may take another form at the end of a line, and so another width.
        if shaped.width <= width or visible == start + 1:
            return end, shaped
        end = visible - 1


def _cut(text: Text, breaks: Sequence[bool], start: int, stop: int, width: float) -> Shaped:
    """Give the line that begins there, ending in an ellipsis: after a word, if that costs little."""
    shaped, stop = _ellipsis(text, start, stop, width)
    if stop < len(text.characters) and not breaks[stop]:
        word = next((place for place in range(stop, start, -1) if breaks[place]), start)
        shorter, _ = _ellipsis(text, start, word, width)
        if word > start and shorter.width > width * LEAST_CUT:
            return shorter
    return shaped


def _ellipsis(text: Text, start: int, stop: int, width: float) -> tuple[Shaped, int]:
    while True:
        cut = text.ellipsised(start, stop)
        shaped = cut.shape(0, len(cut.characters))
        if shaped.width <= width or stop == start:
            return shaped, stop
        stop -= 1
