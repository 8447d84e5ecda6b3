"""What is asked and what is answered, in no provider's language."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from gateway.domain.knowledge import Source


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file as the caller sent it: base64 `data` or an https `url`, never both. Nothing about it is believed yet."""

    name: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Pdf(msgspec.Struct, frozen=True, kw_only=True, tag="pdf"):
    """A PDF that was checked: base64 `data` without line breaks, or an https `url` that the provider fetches.

    Attributes:
        pages: Counted in `data`; None for a `url`.

    """

    name: str
    data: str | None = None
    url: str | None = None
    pages: int | None = None


class Photo(msgspec.Struct, frozen=True, kw_only=True, tag="photo"):
    """A photo that was checked; `media_type` is what its first bytes (or its address) say, whatever the caller said."""

    name: str
    media_type: str
    data: str | None = None
    url: str | None = None


Part: TypeAlias = Pdf | Photo
"""What goes to the model beside the text."""


class PageCitation(msgspec.Struct, frozen=True, tag="page"):
    """A passage of the answer rests on this text of an attached PDF; pages count from 1."""

    document: str
    page: int
    text: str


class WebCitation(msgspec.Struct, frozen=True, tag="web"):
    """A passage of the answer rests on this text of a web page."""

    url: str
    title: str
    text: str


Citation: TypeAlias = PageCitation | WebCitation


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the contract, decoded, its fields of the right types; what they mean is not judged yet.

    Attributes:
        content: The text to work on; empty when `contents` carries several (deferred only).
        extra: The recipe's parameters as sent, JSON values.
        fingerprint: Digest of all known fields but `stream`, to tell a repeat from another request; empty without a key.

    """

    project: str
    recipe: str
    content: str
    contents: tuple[str, ...] = ()
    conversation: str | None = None
    extra: dict[str, Any] = {}
    attachments: tuple[Attachment, ...] = ()
    deferred: bool = False
    stream: bool = False
    idempotency_key: str | None = None
    fingerprint: str = ""


class Turn(msgspec.Struct, frozen=True):
    """One side's text in a conversation."""

    role: Literal["user", "assistant"]
    text: str


class Fields(msgspec.Struct, frozen=True, tag="fields"):
    """The answer must be a JSON object with exactly these keys, each a string or null."""

    names: tuple[str, ...]


class Choice(msgspec.Struct, frozen=True, tag="choice"):
    """The answer must be one of these texts."""

    options: tuple[str, ...]


class JsonSchema(msgspec.Struct, frozen=True, tag="schema"):
    """The answer must be JSON of this schema, and is told as the model wrote it: whoever asked judges it, also a cut one.

    Attributes:
        name: 1 to 64 letters, digits, `_` and `-`.
        schema: In what both providers hold a model to: an object at the root, every object closed and with all its
            properties required, `anyOf` with null for what may be absent, no bounds, no patterns; at most 16 unions.

    """

    name: str
    schema: dict[str, Any]


Shape = Fields | Choice | JsonSchema


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about an answer; the wire gives it the contract's names, in this order.

    Attributes:
        duration_ms: From the request's arrival to the end of the answer.
        brain: Name of the brain that answered.
        attempts: How many times a provider was asked, if more than once.
        fallback: Who answered instead of the first choice.
        citations: Where the answer comes from, in its order; None when nothing could be cited.
        citations_off: Why there are none although a PDF was attached.
        sources: The passages of the project's documents that stood before the question; None when there were none.
        knowledge: Why there were none although the knowledge is on.
        searches: Web searches made, if any.
        pages: Pages of the PDFs sent in the request, if any.
        request_id: Id of the request that produced the answer.

    """

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
    citations: tuple[Citation, ...] | None = None
    citations_off: str | None = None
    sources: tuple[Source, ...] | None = None
    knowledge: str | None = None
    searches: int | None = None
    pages: int | None = None
    request_id: str
    replayed: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A whole answer, as it is told, kept for repeats and cached."""

    text: str
    conversation: str | None
    meta: Meta
