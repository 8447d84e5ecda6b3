"""Vectors as every embedder gives them: unit length, 32-bit little-endian floats."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.floating[Any]]

_SHORTEST = 1e-6


def unit_vectors(rows: Matrix) -> tuple[bytes, ...]:
    """Rows brought to unit length.

    Raises:
        ValueError: One has no direction, or holds what is no number.

    """
    # In 64 bits, because the square of a large 32-bit number is none.
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > _SHORTEST)).all():
        raise ValueError("a vector without a direction")
    units = (wide / lengths).astype("<f4")
    return tuple(row.tobytes() for row in units)
