"""What is asked and what is answered, in no provider's language."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file as the caller sent it: base64 `data` or an https `url`, never both. Nothing about it is believed yet."""

    name: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the contract, decoded, its fields of the right types; what they mean is not judged yet.

    Attributes:
        content: The text to work on; empty when `contents` carries several (deferred only).
        extra: The recipe's parameters as sent, JSON values.
        fingerprint: Digest of all known fields but `stream`, to tell a repeat from another request.

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


Shape = Fields | Choice


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about an answer; the wire gives it the contract's names, in this order.

    Attributes:
        duration_ms: From the request's arrival to the end of the answer.
        brain: Name of the brain that answered.
        attempts: How many times a provider was asked, if more than once.
        fallback: Who answered instead of the first choice.
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
    request_id: str
    replayed: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A whole answer, as it is told, kept for repeats and cached."""

    text: str
    conversation: str | None
    meta: Meta
