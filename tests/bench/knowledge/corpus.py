"""The documents: each file is one, or two that differ in what stands in braces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

_FOLDER = Path(__file__).parent / "documents"
_CHOICE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")


class Paper(msgspec.Struct, frozen=True):
    """A document as it is uploaded."""

    name: str
    text: str


def papers() -> tuple[Paper, ...]:
    """All documents, in the order of their files."""
    return tuple(paper for path in sorted(_FOLDER.glob("*.md")) for paper in _editions(path.read_text()))


def _editions(written: str) -> Iterator[Paper]:
    """What a file holds: its first line is the document's name."""
    chosen = {_CHOICE.sub(rf"\{edition}", written) for edition in (1, 2)}
    for whole in sorted(chosen):
        name, _, text = whole.partition("\n\n")
        yield Paper(name, text)
