"""Matrices kept in memory, those asked for longest ago put away first when there are too many bytes of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.vectors.sqlite.matrix import Matrix

Key = tuple[str, int]
"""Project and dimensions: no matrix is ever shared by two projects."""


class Matrices:
    """Safe to use from several threads.

    Args:
        limit: Bytes that all matrices together may take.

    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._matrices: OrderedDict[Key, Matrix] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes that are taken."""
        with self._lock:
            return sum(matrix.size for matrix in self._matrices.values())

    def get(self, key: Key) -> Matrix | None:
        with self._lock:
            matrix = self._matrices.get(key)
            if matrix is not None:
                self._matrices.move_to_end(key)
            return matrix

    def make_room(self, size: int) -> None:
        """Put matrices away until so many bytes are free."""
        with self._lock:
            taken = sum(matrix.size for matrix in self._matrices.values())
            while self._matrices and taken + size > self.limit:
                _, matrix = self._matrices.popitem(last=False)
                taken -= matrix.size

    def put(self, key: Key, matrix: Matrix) -> None:
        """Keep a matrix for which there is room."""
        self.take(key)
        self.make_room(matrix.size)
        with self._lock:
            self._matrices[key] = matrix

    def take(self, key: Key) -> Matrix | None:
        """Give a matrix away: it is not kept any more."""
        with self._lock:
            return self._matrices.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._matrices.clear()
