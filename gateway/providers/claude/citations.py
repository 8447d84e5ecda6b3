"""Where an answer comes from: Claude's citations as the domain's, in the order of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.domain.completion import Citation, PageCitation, WebCitation

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Location(msgspec.Struct):
    """Any kind of citation; pages count from 1."""

    type: str
    cited_text: str = ""
    document_index: int = -1
    start_page_number: int = 0
    url: str | None = None
    title: str | None = None


_decode = msgspec.json.Decoder(_Location).decode


class Citations:
    """Collects them as they come.

    A passage that Claude cites twice in a row within one block is told once; the same in another block rests another
    passage of the answer on it, and is told again.

    Args:
        documents: Full names of the documents sent, as citations count them; the titles in the answer may be cut, or
            the same for two.

    """

    def __init__(self, documents: tuple[str, ...]) -> None:
        self._documents = documents
        self._told: list[Citation] = []
        self._last: Citation | None = None

    @property
    def told(self) -> tuple[Citation, ...]:
        """All of them so far."""
        return tuple(self._told)

    def block(self, raws: Iterable[msgspec.Raw] | None) -> None:
        """Begin a block of text, with the citations it has already."""
        self._last = None
        for raw in raws or ():
            self.add(raw)

    def add(self, raw: msgspec.Raw) -> None:
        """Add one of the current block; kinds that are not known, and broken ones, say nothing."""
        try:
            location = _decode(raw)
        except msgspec.DecodeError:
            return
        citation = self._citation(location)
        if citation is not None and citation != self._last:
            self._told.append(citation)
            self._last = citation

    def _citation(self, location: _Location) -> Citation | None:
        text = location.cited_text
        match location.type:
            case "page_location" if location.start_page_number > 0:
                if 0 <= location.document_index < len(self._documents):
                    document = self._documents[location.document_index]
                    return PageCitation(document, location.start_page_number, text)
                return None
            case "web_search_result_location" if location.url:
                return WebCitation(location.url, location.title or "", text)
            case _:
                return None
