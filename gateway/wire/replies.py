"""Answers and errors in the contract's JSON, field by field in the contract's order."""

from __future__ import annotations

from typing import Literal

import msgspec

from gateway.domain.completion import Answer, Citation, PageCitation
from gateway.domain.errors import Failure
from gateway.domain.knowledge import Source
from gateway.wire.glossary import Wire, words

_encoder = msgspec.json.Encoder()


class PageReply(
    Wire, frozen=True, kw_only=True, tag="documento", tag_field="fonte", rename=words(text="testo")
):
    """A citation of an attached PDF."""

    document: str
    page: int
    text: str


class WebReply(Wire, frozen=True, kw_only=True, tag="web", tag_field="fonte", rename=words(text="testo")):
    """A citation of a web page."""

    url: str
    title: str
    text: str


class SourceReply(Wire, frozen=True, kw_only=True):
    """A passage of the project's own documents."""

    document: str
    passage: int
    similarity: float


class MetaReply(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """`meta`: the contract's fields in its order, the optional ones only when they say something."""

    project: str
    recipe: str
    provider: str
    model: str
    duration_ms: int
    brain: str
    truncated: bool = False
    cached: bool = False
    attempts: int | None = None
    fallback: str | None = None
    citations: tuple[PageReply | WebReply, ...] | None = None
    citations_off: str | None = None
    sources: tuple[SourceReply, ...] | None = None
    knowledge: str | None = None
    searches: int | None = None
    pages: int | None = None
    replayed: bool = False
    request_id: str


class AnswerReply(Wire, frozen=True, kw_only=True):
    """A success of `/api.php`, and the data of the `done` event."""

    ok: Literal[True] = True
    text: str
    conversation: str | None
    meta: MetaReply


class ErrorBody(Wire, frozen=True, kw_only=True):
    """`errore`, and the data of the `error` event."""

    code: str
    message: str


class ErrorReply(Wire, frozen=True, kw_only=True):
    """Every error, on every address."""

    ok: Literal[False] = False
    error: ErrorBody


def encode_answer(answer: Answer) -> bytes:
    """Encode a whole answer."""
    meta = answer.meta
    return _encoder.encode(
        AnswerReply(
            text=answer.text,
            conversation=answer.conversation,
            meta=MetaReply(
                project=meta.project,
                recipe=meta.recipe,
                provider=meta.provider,
                model=meta.model,
                duration_ms=meta.duration_ms,
                brain=meta.brain,
                truncated=meta.truncated,
                cached=meta.cached,
                attempts=meta.attempts,
                fallback=_fallback_words(meta.fallback),
                citations=None if meta.citations is None else tuple(map(citation_reply, meta.citations)),
                citations_off=meta.citations_off,
                sources=None if meta.sources is None else tuple(map(source_reply, meta.sources)),
                knowledge=meta.knowledge,
                searches=meta.searches,
                pages=meta.pages,
                replayed=meta.replayed,
                request_id=meta.request_id,
            ),
        )
    )


def encode_failure(failure: Failure) -> bytes:
    """Encode an error reply."""
    return _encoder.encode(ErrorReply(error=error_body(failure)))


def error_body(failure: Failure) -> ErrorBody:
    """Give the part that a stream's `error` event shares with an error reply."""
    return ErrorBody(code=failure.fault.code, message=failure.message)


def citation_reply(citation: Citation) -> PageReply | WebReply:
    """Give a citation in the contract's words."""
    if isinstance(citation, PageCitation):
        return PageReply(document=citation.document, page=citation.page, text=citation.text)
    return WebReply(url=citation.url, title=citation.title, text=citation.text)


def _fallback_words(fallback: str | None) -> str | None:
    """`model:ID` is the command line's word; the contract says `modello:ID`."""
    if fallback is not None and fallback.startswith("model:"):
        return f"modello:{fallback.removeprefix('model:')}"
    return fallback


def source_reply(source: Source) -> SourceReply:
    """Give a source's wire form."""
    return SourceReply(
        document=source.document, passage=source.passage, similarity=round(source.similarity, 2)
    )
