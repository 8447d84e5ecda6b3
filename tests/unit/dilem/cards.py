"""Results to draw: what people write, and what nobody should."""

from __future__ import annotations

from typing import Final

from gateway.dilem.contract import CardOption, CardResult


def card(summary: str, *options: tuple[str, str, float], selected: int = 0) -> CardResult:
    """A result whose options are called o0, o1 and so on."""
    return CardResult(
        summary=summary,
        selected=f"o{selected}",
        options=tuple(
            CardOption(id=f"o{number}", label=label, description=description, probability=probability)
            for number, (label, description, probability) in enumerate(options)
        ),
    )


def filled(seed: str, characters: int) -> str:
    """A text of exactly so many code points, made of one that repeats."""
    return (seed * (characters // len(seed) + 1))[:characters]


def longest(seed: str, options: int = 8) -> CardResult:
    """The largest result there may be, made of one text."""
    return card(filled(seed, 6000), *[(filled(seed, 120), filled(seed, 240), 1 / options)] * options)


USUAL: Final = card(
    "You value your afternoons above pay. Asking for the review first costs nothing.",
    ("Stay and ask for a raise", "The review is due in March anyway.", 0.62),
    ("Take the new job", "Pays 18% more, but adds nine hours of commuting a week.", 0.27),
    ("Look for a third option", "", 0.11),
)

SEEDS: Final = {
    "words": "a word or two ",
    "one word": "W",
    "new lines": "a\n",
    "spaces": "a  \t",
    "hyphens": "a-",
    "brackets": "(",
    "Arabic": "لله ",
    "Arabic in one piece": "لا",
    "widest letter": "\ufdfd",
    "Hebrew and Latin": "אa1(",
    "Han": "漢",
    "Japanese": "日本語は、「改行」が難しい。",
    "Korean": "한국어 ",
    "Devanagari": "क्षत्रिय ",
    "Khmer": "ស្ត្រី្ក្រ្ច្រ",
    "Myanmar": "မြန်မာဘာသာ",
    "Telugu": "క్ష్మ్య్ర ",
    "Thai": "ที่นี่สะดวก",
    "emoji": "👩🏽‍❤️‍💋‍👨🏿",
    "flags": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f🇮🇹",
    "selectors": "☀\ufe0f",
    "joiners": "a\u200d",
    "joined without end": "👨\u200d",
    "pile": "Z\u0335\u0301\u0302\u0303\u0304\u0310",
    "piles": "a\u0316\u0317\u0318\u0319\u031a b\u0301\u0302\u0303\u0304\u0305 ",
    "marks alone": "\u0301",
    "no font": "\U00013000",
    "controls": "\x07\x1b[31m\u202e\u2066\u2069\u202c",
    "mixed": "aЖあक1🎉ب ",
}
