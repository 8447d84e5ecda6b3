"""A project's own documents, and where an answer says it has them from."""

from __future__ import annotations

from datetime import datetime

import msgspec

MOST_PASSAGES = 5
"""Passages put before a question."""
MAX_DOCUMENTS = 200
MAX_DOCUMENT_CHARACTERS = 500_000
MAX_DOCUMENT_NAME = 200


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document of the knowledge base, without its text.

    Attributes:
        version: Names the passages that are live; it changes with every replacement.
        embedder: Name of the embedder its vectors are from.
        characters: Unicode code points of the text.

    """

    id: int
    name: str
    version: int
    passages: int
    characters: int
    embedder: str
    uploaded_at: datetime


class Source(msgspec.Struct, frozen=True):
    """A passage that an answer was given on. `similarity` is 0 to 1, two decimals on the wire."""

    document: str
    passage: int
    similarity: float


class Passage(msgspec.Struct, frozen=True):
    """A passage as it is put before the question."""

    source: Source
    text: str
