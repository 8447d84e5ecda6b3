"""The packaged fonts, and which of them draws what: no font of the machine is ever looked for.

The chain: Noto Sans, then Noto's font of each script, its symbols, Chinese with Japanese and Korean, its emoji, which
are of one colour and so follow the card's palette, and its rarer signs. What none of them draws becomes a tidy box.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Final

import regex
import uharfbuzz as hb

MEDIUM: Final = 400
SEMIBOLD: Final = 600
BOLD: Final = 700

EMOJI_SCALE: Final = 0.94
"""Emoji are drawn larger than letters; this brings them to the letters' height."""

_SCRIPTS: Final = (
    "",
    "Arabic",
    "Hebrew",
    "Devanagari",
    "Bengali",
    "Gurmukhi",
    "Gujarati",
    "Oriya",
    "Tamil",
    "Telugu",
    "Kannada",
    "Malayalam",
    "Sinhala",
    "Thai",
    "Lao",
    "Khmer",
    "Myanmar",
    "Georgian",
    "Armenian",
    "Ethiopic",
    "Symbols",
)
_JAPANESE, _KOREAN, _CHINESE, _TRADITIONAL = range(4)
_KANA: Final = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_HANGUL: Final = regex.compile(r"\p{Hangul}")
_BOPOMOFO: Final = regex.compile(r"\p{Bopomofo}")
_EMOJI: Final = regex.compile(
    r"\p{Emoji_Presentation}|.\uFE0F|[0-9#*]\uFE0F?\u20E3|\p{Extended_Pictographic}(\p{Emoji_Modifier}|\uFE0F?\u200D)",
    regex.DOTALL,
)
_TEXT_SELECTOR: Final = "\ufe0e"
_RARE: Final = ("symbol2", "math")
_SHAPELESS: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}]")


class Typeface:
    """One font at one weight.

    Attributes:
        font: HarfBuzz's, with a scale of its own units.
        em: How many of its units are one em of the card's text.
        blank: The number of its space.
        pictures: Whether it draws pictures, whose spaces no text should have.

    """

    def __init__(self, face: hb.Face, weight: int, *, scale: float = 1.0, pictures: bool = False) -> None:
        self.font = hb.Font(face)
        self.font.set_variations({"wght": float(weight)})
        self.em = face.upem / scale
        self.blank: int = self.font.get_nominal_glyph(0x20) or 0
        self.pictures = pictures
        self._inks: dict[int, tuple[float, float]] = {}

    def draws(self, text: str) -> bool:
        """Tell whether it has a glyph for every character."""
        return all(self.font.get_nominal_glyph(ord(character)) is not None for character in text)

    def ink(self, glyph: int) -> tuple[float, float]:
        """Tell how far a glyph reaches above and below the baseline, in ems."""
        if glyph not in self._inks:
            extents = self.font.get_glyph_extents(glyph)
            top, height = (extents.y_bearing, extents.height) if extents else (0, 0)
            self._inks[glyph] = top / self.em, -(top + height) / self.em
        return self._inks[glyph]


class Chain:
    """The typefaces of one weight, in the order they are asked."""

    def __init__(self, weight: int, cjk: int) -> None:
        sans = (_face("manimgx_fonts", f"NotoSans{script}[wght].ttf") for script in _SCRIPTS)
        self._text = [Typeface(face, weight) for face in sans]
        self._text.append(Typeface(_face("manimgx_fonts_cjk", "NotoSansCJK-VF.otf.ttc", cjk), weight))
        self._emoji = Typeface(
            _face("manimgx_fonts", "NotoEmoji[wght].ttf"), weight, scale=EMOJI_SCALE, pictures=True
        )
        self._known: dict[str, Typeface | None] = {}

    def typeface(self, character: str) -> Typeface | None:
        """Give what draws one user-perceived character; None for what nothing draws."""
        if character not in self._known:
            self._known[character] = self._find(character)
        return self._known[character]

    def _find(self, character: str) -> Typeface | None:
        shapes = _SHAPELESS.sub("", character) or character
        first = _EMOJI.match(character) and _TEXT_SELECTOR not in character
        order = [self._emoji, *self._text] if first else [*self._text, self._emoji]
        for wanted in (shapes, shapes[:1]):
            # The rare signs are unpacked, so only when all others lack one.
            for typeface in chain(order, map(_rare, _RARE)):
                if typeface.draws(wanted):
                    return typeface
        return None


def chains(text: str) -> dict[int, Chain]:
    """Give a chain for each weight; Han characters are shaped as the language of the whole text shapes them."""
    if _KANA.search(text):
        cjk = _JAPANESE
    elif _HANGUL.search(text):
        cjk = _KOREAN
    else:
        cjk = _TRADITIONAL if _BOPOMOFO.search(text) else _CHINESE
    return {weight: Chain(weight, cjk) for weight in (MEDIUM, SEMIBOLD, BOLD)}


@cache
def _face(package: str, name: str, index: int = 0) -> hb.Face:
    # Mapped, not read: of the large one a card touches a few pages.
    return hb.Face(hb.Blob.from_file_path(str(files(package) / name)), index)


@cache
def _rare(name: str) -> Typeface:
    import pymupdf_fonts  # noqa: PLC0415 - few cards need it

    return Typeface(hb.Face(hb.Blob(pymupdf_fonts.fontbuffers[name]())), MEDIUM)
