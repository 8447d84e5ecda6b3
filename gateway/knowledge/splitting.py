"""A document's text cut into passages: whole sentences where there are any, each under the headings it stands under.

The promise of this module: of what can be seen in a text nothing is lost, no passage is blank or longer than
`MOST_PASSAGE_CHARACTERS`, the same text gives the same passages, and no text takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from semantic_text_splitter import MarkdownSplitter

from gateway.domain.knowledge import blank

MOST_PASSAGE_CHARACTERS = 1_200
"""Code points of a passage, with the headings and the end of the passage before it."""
_CORE_CHARACTERS = (750, 900)
"""A passage's own text is full from the first on and never longer than the second."""
_MOST_CONTEXT = 150
"""Code points of the headings."""
_MOST_OVERLAP = 140
"""Code points repeated from the passage before."""
_MOST_WITH_HEADING = 1_030
"""Code points of a passage's own text with a heading that the splitter has cut off it."""
_WINDOW_CHARACTERS = 4_000
"""The splitter looks at no more at a time: given 500,000 characters without a blank it would take seconds."""

UNSEEN = re.compile("[\u00ad\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+")
"""Formatting that nobody sees: soft hyphens, marks that turn the direction of writing around, hidden letters."""
_UNFIT = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]+")
"""Control characters and what is no character; PostgreSQL holds no NUL."""
_WIDE = re.compile(r"[^\S\n]{5,}")
_BLANK_LINES = re.compile(r"\n{3,}")
_HEADING = re.compile(
    r"""^(?:
        \ {0,3}(?P<marks>\#{1,6})[ \t]+(?P<title>[^\n]{1,120}?)[ \t]*\#*
      | (?P<part>(?:Parte|Titolo|Allegato)[ ][^\W_]{1,6}\b[^\n]{0,90})
      | (?P<chapter>(?:Capo|Capitolo|Sezione)[ ][^\W_]{1,6}\b[^\n]{0,90})
      | (?P<article>(?:Art\.|Articolo)[ ]?\d{1,4}\b[^\n]{0,90})
    )$""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
"""A line that says what follows it is about: Markdown's, or the ones Italian rules and contracts are made of."""
_PLAIN_LEVELS = {"part": 7, "chapter": 8, "article": 9}
_SENTENCE_END = re.compile(r"(?<=[.!?…;:])\s+(?=\S)|\n+(?=\S)")
_GAP = re.compile(r"\s+(?=\S)")

_splitter = MarkdownSplitter(_CORE_CHARACTERS)


class _Heading(NamedTuple):
    start: int
    level: int
    title: str


def split(text: str) -> tuple[str, ...]:
    """Cut a text into passages, in their order; there are none in a text that is blank.

    A text of 500,000 characters takes some tens of milliseconds of processor time: call it in a thread.
    """
    clean = cleaned(text)
    headings = _headings(clean)
    ahead = next(headings, None)
    passages: list[str] = []
    above: list[_Heading] = []
    before = ""
    for start, core in _pieces(clean):
        begun = False
        while ahead and ahead.start <= start:
            _stand_under(above, ahead)
            begun = ahead.start == start
            ahead = next(headings, None)
        context = _context(above[:-1] if begun else above)
        overlap = "" if begun else _end_of(before)
        if len(context) + len(overlap) + len(core) > MOST_PASSAGE_CHARACTERS:
            overlap = ""
        passages.append(f"{context}{overlap}{core}")
        before = core
    return tuple(passages)


def cleaned(text: str) -> str:
    """A text without what can't be stored or seen, its lines ended one way and its blanks kept short."""
    text = _UNFIT.sub(" ", UNSEEN.sub("", text))
    text = "\n".join([line.rstrip() for line in text.splitlines()])
    return _BLANK_LINES.sub("\n\n", _WIDE.sub("    ", text))


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """As the splitter cuts them, but a heading stays with what it is about."""
    held, held_from = "", 0
    for start, core in _cores(text):
        if held and len(held) + len(core) > _MOST_WITH_HEADING:
            yield held_from, held
            held = ""
        held_from = held_from if held else start
        held = f"{held}\n\n{core}" if held else core
        if _HEADING.sub("", core).strip():
            yield held_from, held
            held = ""
    if held:
        yield held_from, held


def _cores(text: str) -> Iterator[tuple[int, str]]:
    """Pieces of the text with their places, none of them blank, all visible text in them."""
    place = 0
    while place < len(text):
        pieces = _splitter.chunk_indices(text[place : place + _WINDOW_CHARACTERS])
        ended = place + _WINDOW_CHARACTERS >= len(text)
        if len(pieces) > 1 and not ended:
            # The last one was cut by the window: it is looked at again, whole.
            cut, _ = pieces.pop()
        else:
            cut = _WINDOW_CHARACTERS
        for start, piece in pieces:
            if not blank(piece):
                yield place + start, piece
        place += cut


def _headings(text: str) -> Iterator[_Heading]:
    for match in _HEADING.finditer(text):
        if match["marks"]:
            start, level, title = match.start("marks"), len(match["marks"]), match["title"]
        else:
            kind = str(match.lastgroup)
            start, level, title = match.start(), _PLAIN_LEVELS[kind], match[kind]
        yield _Heading(start, level, title.strip())


def _stand_under(above: list[_Heading], heading: _Heading) -> None:
    """Let a heading take the place of those it ends."""
    while above and above[-1].level >= heading.level:
        above.pop()
    above.append(heading)


def _context(above: list[_Heading]) -> str:
    """The headings that a passage stands under, as many of the nearest as there is room for."""
    context = ""
    for heading in reversed(above):
        longer = f"{heading.title} / {context}" if context else heading.title
        if len(longer) > _MOST_CONTEXT:
            break
        context = longer
    return f"{context}\n\n" if context else ""


def _end_of(piece: str) -> str:
    """The last sentences of a piece as far as there is room, or at least its last words; a word is never cut."""
    end = piece[-_MOST_OVERLAP:]
    if len(piece) <= _MOST_OVERLAP:
        return f"{end}\n" if end else ""
    for gap in (_SENTENCE_END, _GAP):
        if found := gap.search(end):
            return f"{end[found.end() :]}\n"
    return ""
