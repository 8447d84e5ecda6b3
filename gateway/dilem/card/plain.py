"""What may be drawn of a text: what is invisible, or would govern the text around it, is taken out.

The promise of this module: what it gives has no control character, no override of direction, no pile of marks higher
than a line, and one kind of space. It interprets nothing: whatever looks like markup stays text.
"""

from __future__ import annotations

from typing import Final

import regex

MOST_MARKS: Final = 5
"""On one letter; Hebrew with points and accents takes four."""

# Everything without a shape, save what shapes its neighbours (joiners, emoji selectors and tags) or only says which
# way a neutral character runs.
_UNSEEN: Final = regex.compile(
    r"[\p{Cc}\p{Cs}\u2028\u2029\p{Default_Ignorable_Code_Point}\uFFF9-\uFFFB"
    r"--[\n\u200C\u200D\u200E\u200F\u061C\uFE0E\uFE0F\U000E0020-\U000E007F]]",
    regex.VERSION1,
)
_NEW_LINE: Final = regex.compile(r"\r\n?|[\v\f\u0085\u2028\u2029]")
_TAGS: Final = regex.compile(r"(?<!\U0001F3F4[\U000E0020-\U000E007F]{0,6})[\U000E0020-\U000E007F]")
_REPEATED: Final = regex.compile(r"([\u200C-\u200F\u061C\uFE0E\uFE0F])\1+")
_PILE: Final = regex.compile(rf"(\p{{M}}{{{MOST_MARKS}}})\p{{M}}+")
_SPACES: Final = regex.compile(r"[^\S\n\u00A0\u202F\u2007]+")
_LINES: Final = regex.compile(r" ?\n[ \n]*")
_VISIBLE: Final = regex.compile(r"[^\s\p{Default_Ignorable_Code_Point}\u2800]")


def plain_lines(text: str) -> tuple[str, ...]:
    """Give what may be drawn of a text, line by line; none when nothing of it can be seen."""
    text = _NEW_LINE.sub("\n", text).replace("\t", " ")
    text = _TAGS.sub("", _UNSEEN.sub("", text))
    text = _REPEATED.sub(r"\1", text)
    text = _PILE.sub(r"\1", text)
    text = _LINES.sub("\n", _SPACES.sub(" ", text)).strip(" \n")
    return tuple(line for line in text.split("\n") if _VISIBLE.search(line))


def plain_line(text: str) -> str:
    """Give what may be drawn of a text as one line; empty when nothing of it can be seen."""
    return " ".join(plain_lines(text))
