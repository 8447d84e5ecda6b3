"""The live passages of one project in memory, as one matrix: asked with one multiplication.

One call into NumPy for a whole project, not one for each document: every call gives the interpreter's lock away and
waits to get it back. The multiplication is `vecdot`, which has no threads of its own that would fight with other
workers for the cores.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from gateway.ports import Match
from gateway.vectors.arithmetic import FLOAT
from gateway.vectors.matches import best, cosine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.vectors.arithmetic import Floats
    from gateway.vectors.sqlite.file import Content, State, Version

END = np.dtype("<u4")


class Texts(msgspec.Struct, frozen=True):
    """The passages of one version: UTF-8, one after the other, and where each ends."""

    ends: Any  # an array of END
    texts: bytes

    @classmethod
    def pack(cls, passages: Sequence[str]) -> Texts:
        """Put passages together; half a surrogate pair, which UTF-8 has no place for, becomes a question mark."""
        encoded = [passage.encode("utf-8", "replace") for passage in passages]
        return cls(np.cumsum([len(one) for one in encoded], dtype=END), b"".join(encoded))

    @classmethod
    def read(cls, ends: bytes, texts: bytes) -> Texts:
        """Take stored passages.

        Raises:
            sqlite3.DatabaseError: They are damaged.

        """
        if not ends or len(ends) % END.itemsize:
            raise damaged()
        found = np.frombuffer(ends, dtype=END)
        if int(found[-1]) != len(texts):
            raise damaged()
        return cls(found, texts)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.ends.nbytes) + len(self.texts)

    def passage(self, index: int) -> str:
        """One of them, counted from 0."""
        start = int(self.ends[index - 1]) if index else 0
        return self.texts[start : int(self.ends[index])].decode("utf-8", "replace")


class Matrix:
    """Some versions of a project's documents, all of the same number of dimensions.

    Args:
        state: What the project had in the file when this was read.
        live: Which versions were asked for; what is not in the file is not in the matrix.
        versions: Those that are, in their order.
        read: Gives a version's content.
        earlier: A matrix of the same project and dimensions: what it holds is not read again.

    Attributes:
        size: In bytes.

    Raises:
        sqlite3.Error: The file can't be used, or is damaged.

    """

    def __init__(
        self,
        state: State,
        live: Mapping[int, int],
        versions: Sequence[Version],
        read: Callable[[int], Content],
        *,
        dimensions: int,
        earlier: Matrix | None = None,
    ) -> None:
        self.state = state
        self.live = dict(live)
        self._documents = [version.document for version in versions]
        self._starts = np.cumsum([0, *(version.passages for version in versions)])
        self._vectors: Floats = np.empty((int(self._starts[-1]), dimensions), dtype=np.float32)
        self._texts: list[Texts] = []
        self._places: dict[int, int] = {}
        for place, version in enumerate(versions):
            rows = self._vectors[self._starts[place] : self._starts[place + 1]]
            texts = None if earlier is None else earlier.copy(version.id, rows)
            if texts is None:
                texts = _fill(rows, read(version.id))
            self._places[version.id] = place
            self._texts.append(texts)
        self.size = self._vectors.nbytes + sum(texts.size for texts in self._texts)

    def copy(self, version: int, rows: Floats) -> Texts | None:
        """Put the vectors of the version with an id into some rows, and give its texts; None if it is not here."""
        place = self._places.get(version)
        if place is None:
            return None
        rows[:] = self._vectors[self._starts[place] : self._starts[place + 1]]
        return self._texts[place]

    def nearest(self, question: Floats, most: int, floor: float) -> list[Match]:
        """Give the passages that resemble a question most, best first, none below the floor."""
        similarities: NDArray[np.float32] = np.vecdot(self._vectors, question)
        rows = np.arange(similarities.size)
        if most < similarities.size:
            rows = np.argpartition(similarities, -most)[-most:]
        return best([self._match(int(row), float(similarities[row])) for row in rows], most, floor)

    def _match(self, row: int, similarity: float) -> Match:
        place = int(np.searchsorted(self._starts, row, side="right")) - 1
        index = row - int(self._starts[place])
        return Match(
            self._documents[place],
            index + 1,
            self._texts[place].passage(index),
            cosine(similarity),
        )


def matrix_bytes(versions: Sequence[Version], dimensions: int) -> int:
    """How much memory a matrix of these takes."""
    return sum(
        version.passages * (dimensions * FLOAT.itemsize + END.itemsize) + version.text_bytes
        for version in versions
    )


def damaged() -> sqlite3.DatabaseError:
    """What is said of a row that can't have been written so."""
    return sqlite3.DatabaseError("a stored version is damaged")


def _fill(rows: Floats, content: Content) -> Texts:
    texts = Texts.read(content.ends, content.texts)
    if len(content.vectors) != rows.nbytes or len(texts) != len(rows):
        raise damaged()
    rows[:] = np.frombuffer(content.vectors, dtype=FLOAT).reshape(rows.shape)
    return texts
