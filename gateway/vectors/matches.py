"""Which matches are given, and in which order: the same for every index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.ports import Match


def best(matches: Iterable[Match], most: int, floor: float) -> list[Match]:
    """Give the best matches, best first, none below the floor; of equal ones the earlier passage of the earlier document."""
    good = [match for match in matches if match.similarity >= floor]
    return sorted(good, key=lambda match: (-match.similarity, match.document, match.passage))[:most]


def cosine(product: float) -> float:
    """Make a cosine of the product of two unit vectors, which rounding may have left a little too large."""
    return max(-1.0, min(1.0, product))
