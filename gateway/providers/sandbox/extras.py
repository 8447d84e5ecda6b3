"""What `prova` makes of files and of leave to search the web: it names the ones and pretends the other; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.domain.completion import Pdf, WebCitation
from gateway.domain.sandbox import without_triggers

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.completion import Part
    from gateway.domain.sandbox import Triggers

TOKENS_PER_PAGE = 2_000
TOKENS_PER_PHOTO = 1_500
_LONGEST_NAME = 120
_LONGEST_QUERY = 80


class PretendedSearch(msgspec.Struct, frozen=True):
    """A web search that nobody makes, and what it finds."""

    id: str
    query: str
    found: WebCitation


def attached(call: ModelCall) -> str:
    """Name what was sent along, in its order."""
    return "; ".join(map(_described, call.attachments))


def attachment_tokens(call: ModelCall) -> int:
    """Guess how many tokens the files are; one behind an address counts as a single page."""
    return sum(
        TOKENS_PER_PAGE * (part.pages or 1) if isinstance(part, Pdf) else TOKENS_PER_PHOTO
        for part in call.attachments
    )


def searches_of(call: ModelCall, wanted: Triggers) -> tuple[PretendedSearch, ...]:
    """As many searches as are wanted and allowed; as with real models a forced shape is answered without."""
    if call.search is None or call.shape is not None:
        return ()
    words = without_triggers(call.turns[-1].text)[:_LONGEST_QUERY].rstrip() or "prova"
    return tuple(_search(number, words) for number in range(1, min(wanted.searches, call.search.most) + 1))


def _search(number: int, words: str) -> PretendedSearch:
    found = WebCitation(
        f"https://example.com/ricerca/{number}", f"Pagina di prova {number}", f"Testo di prova {number}."
    )
    return PretendedSearch(f"ricerca_{number}", words if number == 1 else f"{words} ({number})", found)


def _described(part: Part) -> str:
    name = f"«{part.name[:_LONGEST_NAME]}»"
    kind = "PDF" if isinstance(part, Pdf) else f"foto {part.media_type}"
    if part.data is None:
        return f"{name} ({kind} da un indirizzo)"
    if isinstance(part, Pdf) and part.pages is not None:
        return f"{name} ({kind}, {part.pages} {'pagina' if part.pages == 1 else 'pagine'})"
    return f"{name} ({kind}, {_bytes(part.data)} byte)"


def _bytes(data: str) -> int:
    """Size of what a base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")
