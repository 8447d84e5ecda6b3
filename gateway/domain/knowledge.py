"""A project's own documents, and where an answer says it has them from."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

MOST_PASSAGES = 5
"""Passages put before a question."""
MAX_DOCUMENTS = 200
MAX_DOCUMENT_CHARACTERS = 500_000
MAX_DOCUMENT_NAME = 200
_UNFIT_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def blank(text: str) -> bool:
    """Whether nothing of a text can be seen: there are only blanks, control and formatting characters, or none."""
    return not any(character.isprintable() and not character.isspace() for character in text)


def unfit_name(name: str) -> bool:
    """Whether a document's name holds control characters, or marks that turn the direction of writing around."""
    return _UNFIT_IN_NAMES.search(name) is not None


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


class Shelf(msgspec.Struct, frozen=True):
    """A project's live documents, all of one moment, in the order of their ids.

    Attributes:
        version: Another number whenever a document has come, gone or changed; 0 before the first.

    """

    version: int = 0
    documents: tuple[Document, ...] = ()

    @property
    def passages(self) -> int:
        """Passages of all documents together."""
        return sum(document.passages for document in self.documents)


class Uploaded(msgspec.Struct, frozen=True):
    """A document as it is kept now; `replaced` says that it took the place of one of the same name."""

    document: Document
    replaced: bool


class KnowledgeState(msgspec.Struct, frozen=True, kw_only=True):
    """What a project's knowledge is at one moment, for whoever switches it on in an application.

    Attributes:
        reader: Who makes vectors of the texts: `openai`, `locale` (this machine) or `prova` (the sandbox's).
        ready: The reader can be asked (it has its key).
        outdated: Documents whose vectors are another reader's, or lost: they are not searched until they are made
            anew.

    """

    documents: int
    passages: int
    reader: str
    ready: bool
    outdated: int
