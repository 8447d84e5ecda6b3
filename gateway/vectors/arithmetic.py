"""Vectors as they arrive, 32-bit little-endian floats, made unit-length: a cosine is a dot product from here on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

FLOAT = np.dtype("<f4")


def unit(vector: bytes) -> Floats:
    """Give a vector its direction alone. One that has none (zeros, not a number, infinite) is zeros: like nothing."""
    row: Floats = unit_rows([vector])[0]
    return row


def unit_rows(vectors: Sequence[bytes]) -> Floats:
    """Give several vectors, a row each, likewise.

    Raises:
        ValueError: They have not the same number of dimensions, or none.

    """
    if not vectors or len({len(one) for one in vectors}) != 1 or not vectors[0]:
        raise ValueError("vectors of one document have the same number of dimensions, at least one")
    rows = np.frombuffer(b"".join(vectors), dtype=FLOAT).reshape(len(vectors), -1)
    # Through the largest component first: the squares of very large or small ones would leave the range of floats.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
        units: Floats = scaled / np.sqrt(np.vecdot(scaled, scaled))[:, None]
    units[~np.isfinite(units).all(axis=1)] = 0.0
    return units
