"""Vectors of questions asked lately: a question asked again is not read, and not paid, a second time."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TypeAlias

MOST_BYTES = 16 * 1024 * 1024
_ENTRY_BYTES = 400
"""What an entry weighs besides its vector, roughly."""

_Key: TypeAlias = tuple[str, str, bytes]


class QuestionCache:
    """Forgets what was used least lately once it holds too much. A project never meets another's questions.

    Args:
        most_bytes: What it holds at most.

    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._vectors: OrderedDict[_Key, bytes] = OrderedDict()

    def get(self, project: str, embedder: str, question: str) -> bytes | None:
        """The vector that this embedder made of the question, if it is still kept."""
        key = _key(project, embedder, question)
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, project: str, embedder: str, question: str, vector: bytes) -> None:
        """Keep a vector."""
        key = _key(project, embedder, question)
        self._drop(key)
        self._vectors[key] = vector
        self._held_bytes += len(vector) + _ENTRY_BYTES
        while self._held_bytes > self._most_bytes:
            self._drop(next(iter(self._vectors)))

    def forget_project(self, project: str) -> None:
        """Drop what a project has asked."""
        for key in [key for key in self._vectors if key[0] == project]:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        vector = self._vectors.pop(key, None)
        if vector is not None:
            self._held_bytes -= len(vector) + _ENTRY_BYTES


def _key(project: str, embedder: str, question: str) -> _Key:
    # A digest, so that a long question weighs no more than a short one, and none is kept in words.
    return project, embedder, hashlib.blake2b(question.encode(), digest_size=20).digest()
