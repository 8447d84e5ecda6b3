"""What a turn consists of in Anthropic's words: texts, PDFs and photos as content blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.domain.completion import Pdf, Photo

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall

_MOST_TITLE_CHARACTERS = 500
_PDF_TYPE = "application/pdf"


class CacheControl(msgspec.Struct, frozen=True, tag="ephemeral", tag_field="type"):
    """A breakpoint: what is before it is kept for later calls."""


class TextBlock(msgspec.Struct, frozen=True, tag="text", tag_field="type", omit_defaults=True):
    text: str
    cache_control: CacheControl | None = None


class Base64Source(msgspec.Struct, frozen=True, tag="base64", tag_field="type"):
    media_type: str
    data: str


class UrlSource(msgspec.Struct, frozen=True, tag="url", tag_field="type"):
    url: str


class Citing(msgspec.Struct, frozen=True):
    enabled: bool


class DocumentBlock(msgspec.Struct, frozen=True, tag="document", tag_field="type", omit_defaults=True):
    source: Base64Source | UrlSource
    title: str | None = None
    citations: Citing | None = None


class ImageBlock(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    source: Base64Source | UrlSource


class Message(msgspec.Struct, frozen=True):
    """One turn: a text, or blocks; those that came from Claude go back as they were."""

    role: str
    content: str | tuple[Any, ...]


_CITING = Citing(enabled=True)


def question(call: ModelCall) -> Message:
    """The caller's turn: what is attached, in its order, and then exactly the text.

    No breakpoint follows the attachments: nothing sends them a second time.
    """
    turn = call.question
    if not call.attachments:
        return Message(turn.role, turn.text)
    blocks = (_attached(part, cited=call.cited) for part in call.attachments)
    return Message(turn.role, (*blocks, TextBlock(turn.text)))


def document_names(call: ModelCall) -> tuple[str, ...]:
    """The full names of the documents, in the order in which citations count them; photos don't count."""
    return tuple(part.name for part in call.attachments if isinstance(part, Pdf))


def _attached(part: Pdf | Photo, *, cited: bool) -> DocumentBlock | ImageBlock:
    if isinstance(part, Photo):
        return ImageBlock(_source(part.media_type, part.data, part.url))
    title = part.name[:_MOST_TITLE_CHARACTERS]
    return DocumentBlock(
        _source(_PDF_TYPE, part.data, part.url),
        title=title if title.strip() else None,
        # Of all documents or of none: a mixture is refused.
        citations=_CITING if cited else None,
    )


def _source(media_type: str, data: str | None, url: str | None) -> Base64Source | UrlSource:
    return UrlSource(url) if url is not None else Base64Source(media_type, data or "")
