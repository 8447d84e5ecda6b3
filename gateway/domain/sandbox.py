"""The sandbox's trigger words: what a partner writes into a text to make something happen, `[[prova:…]]`.

The grammar is here because two floors read it: the chain raises the contract's errors, the provider `prova` does the
rest. A word that is not understood is text like any other.
"""

from __future__ import annotations

import re

import msgspec

SANDBOX_PROVIDER = "prova"
"""The value of `meta.provider` for a sandbox project."""
LONGEST_SILENCE_SECONDS = 300.0
MOST_PIECES = 10_000
MOST_ATTEMPTS = 100
MOST_TOKENS = 10_000_000
MOST_SEARCHES = 100
LONGEST_DEFERRAL_SECONDS = 86_400.0

_WORD = re.compile(r"\[\[prova:([a-z_]{1,40})(?::([0-9.:]{1,30}))?\]\]")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class Triggers(msgspec.Struct, frozen=True, kw_only=True):
    """The trigger words of one text.

    Attributes:
        codes: Words without a number (`budget_esaurito`, `troncata`), in their order; most are codes of the contract.
        silence: `lento:S`: seconds before the first piece.
        pieces: `pezzi:N`: into how many pieces the answer falls.
        cut_after: `taglio:N`: after how many pieces the connection breaks.
        failing_attempts: `tentativi:N`: how many attempts fail before one answers.
        tokens: `usa:IN:OUT`: what the answer says it consumed.
        searches: `ricerca:N`: how often the web is searched, if the call may.
        deferral: `differito:S`: seconds until deferred work is ready.

    """

    codes: tuple[str, ...] = ()
    silence: float = 0.0
    pieces: int | None = None
    cut_after: int | None = None
    failing_attempts: int = 0
    tokens: tuple[int, int] | None = None
    searches: int = 0
    deferral: float = 0.0


def triggers(text: str) -> Triggers:
    """Find the trigger words of a text; of a word with a number the last one counts, and no number beyond its limit."""
    if "[[prova:" not in text:
        return Triggers()
    codes: list[str] = []
    numbered: dict[str, tuple[float, ...]] = {}
    for word, arguments in _WORD.findall(text):
        if not arguments:
            codes.append(word)
        elif all(map(_NUMBER.fullmatch, parts := arguments.split(":"))):
            numbered[word] = tuple(map(float, parts))
    pieces = _count(numbered.get("pezzi"), MOST_PIECES)
    return Triggers(
        codes=tuple(codes),
        silence=min(_single(numbered.get("lento")) or 0.0, LONGEST_SILENCE_SECONDS),
        pieces=max(pieces, 1) if pieces is not None else None,
        cut_after=_count(numbered.get("taglio"), MOST_PIECES),
        failing_attempts=_count(numbered.get("tentativi"), MOST_ATTEMPTS) or 0,
        tokens=_pair(numbered.get("usa")),
        searches=_count(numbered.get("ricerca"), MOST_SEARCHES) or 0,
        deferral=min(_single(numbered.get("differito")) or 0.0, LONGEST_DEFERRAL_SECONDS),
    )


def without_triggers(text: str) -> str:
    """Give the text as if the trigger words were not there."""
    return _WORD.sub("", text).strip() if "[[prova:" in text else text.strip()


def _single(numbers: tuple[float, ...] | None) -> float | None:
    return numbers[0] if numbers and len(numbers) == 1 else None


def _count(numbers: tuple[float, ...] | None, most: int) -> int | None:
    number = _single(numbers)
    return None if number is None else min(int(number), most)


def _pair(numbers: tuple[float, ...] | None) -> tuple[int, int] | None:
    if not numbers or len(numbers) != 2:
        return None
    return min(int(numbers[0]), MOST_TOKENS), min(int(numbers[1]), MOST_TOKENS)
