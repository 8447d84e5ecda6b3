"""Which way each character of a line runs: the Unicode bidirectional algorithm, for text without controls.

`plain.py` takes every embedding, override and isolate out, so a line is one sequence at one level: the rules on
explicit levels (X1 to X10) have nothing to do, and what remains is P2 to P3, W1 to W7, N0 to N2, I1 to I2 and L2.
Rule names in comments are those of Unicode's annex 9.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

_STRONG: Final = {"L": 0, "R": 1, "AL": 1}
_NEUTRAL: Final = frozenset(("B", "S", "WS", "ON"))
_BRACKETS: Final = "()[]{}⌈⌉⌊⌋⟦⟧⟨⟩⟪⟫〈〉《》「」『』【】〔〕（）［］｛｝"  # noqa: RUF001 - some do look alike
_CLOSING: Final = dict(zip(_BRACKETS[::2], _BRACKETS[1::2], strict=True))
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}
_MOST_OPEN: Final = 63


def base_level(text: str) -> int:
    """Give 1 for a text that runs from right to left, by its first letter; else 0 (P2, P3)."""
    for character in text:
        level = _STRONG.get(unicodedata.bidirectional(character))
        if level is not None:
            return level
    return 0


def levels(text: str, base: int) -> list[int]:
    """Give each character's level: even runs left to right, odd right to left."""
    kinds = [unicodedata.bidirectional(character) or "L" for character in text]
    # What has no shape of its own is passed over, and goes with what is before it.
    places = [place for place, kind in enumerate(kinds) if kind != "BN"]
    seen = [kinds[place] for place in places]
    outer = "R" if base else "L"
    _weak(seen, outer)
    _brackets(seen, [text[place] for place in places], outer)
    _neutral(seen, outer)
    resolved = [base] * len(text)
    for place, kind in zip(places, seen, strict=True):
        resolved[place] = _implicit(kind, base)
    for place, kind in enumerate(kinds):
        if kind == "BN" and place:
            resolved[place] = resolved[place - 1]
    return resolved


def visual_order(of: Sequence[int]) -> list[int]:
    """Give the places of runs, whose levels are given, from left to right (L2)."""
    order = list(range(len(of)))
    for level in range(max(of, default=0), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and of[order[end]] >= level:
                end += 1
            order[start:end] = reversed(order[start:end])
            start = end + 1
    return order


def _implicit(kind: str, base: int) -> int:
    if base:  # I2
        return base if kind == "R" else base + 1
    return {"L": 0, "R": 1}.get(kind, 2)  # I1


def _weak(kinds: list[str], outer: str) -> None:
    before, letter = outer, outer
    for place, kind in enumerate(kinds):
        if kind == "NSM":  # W1
            kinds[place] = before
        elif kind == "EN" and letter == "AL":  # W2
            kinds[place] = "AN"
        elif kind in _STRONG:
            letter = kind
        before = kinds[place]
    for place, kind in enumerate(kinds):
        if kind == "AL":  # W3
            kinds[place] = "R"
    for place in range(1, len(kinds) - 1):  # W4
        left, kind, right = kinds[place - 1 : place + 2]
        if left == right and ((left == "EN" and kind in ("ES", "CS")) or (left == "AN" and kind == "CS")):
            kinds[place] = left
    _terminators(kinds)
    letter = outer
    for place, kind in enumerate(kinds):
        if kind in ("ES", "ET", "CS"):  # W6
            kinds[place] = "ON"
        elif kind == "EN" and letter == "L":  # W7
            kinds[place] = "L"
        elif kind in ("L", "R"):
            letter = kind


def _terminators(kinds: list[str]) -> None:  # W5
    start = 0
    while start < len(kinds):
        end = start
        while end < len(kinds) and kinds[end] == "ET":
            end += 1
        if end > start and "EN" in (kinds[start - 1 : start] + kinds[end : end + 1]):
            kinds[start:end] = ["EN"] * (end - start)
        start = end + 1


def _brackets(kinds: list[str], text: list[str], outer: str) -> None:  # N0
    for opening, closing in _pairs(kinds, text):
        inner = {_direction(kind) for kind in kinds[opening + 1 : closing]}
        if outer in inner:
            direction = outer
        elif inner & {"L", "R"}:
            # The other way only if what is before runs that way too.
            directions = (_direction(kind) for kind in reversed(kinds[:opening]))
            before = next((one for one in directions if one), outer)
            direction = before if before in inner else outer
        else:
            continue
        kinds[opening] = kinds[closing] = direction


def _pairs(kinds: list[str], text: list[str]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    opened: list[tuple[str, int]] = []
    for place, (kind, character) in enumerate(zip(kinds, text, strict=True)):
        if kind != "ON":
            continue
        if character in _CLOSING:
            if len(opened) == _MOST_OPEN:
                return []
            opened.append((character, place))
        elif character in _OPENING:
            for depth in range(len(opened) - 1, -1, -1):
                if opened[depth][0] == _OPENING[character]:
                    pairs.append((opened[depth][1], place))
                    del opened[depth:]
                    break
    return sorted(pairs)


def _direction(kind: str) -> str:
    return "R" if kind in ("R", "EN", "AN") else "L" if kind == "L" else ""


def _neutral(kinds: list[str], outer: str) -> None:
    start = 0
    while start < len(kinds):
        end = start
        while end < len(kinds) and kinds[end] in _NEUTRAL:
            end += 1
        if end > start:
            before = _direction(kinds[start - 1]) if start else outer
            after = _direction(kinds[end]) if end < len(kinds) else outer
            kinds[start:end] = [before if before == after else outer] * (end - start)  # N1, N2
        start = end + 1
