"""A model call as the body of `POST /v1/chat/completions`; pure, and plain enough for servers that only speak it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.domain.catalog import Reasoning
from gateway.providers import failures

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.providers.shapes import Form

_CAN_STOP_THINKING = re.compile(r"gpt-(5\.[1-9]|6)(?!.*-chat)")
"""How the names begin of models that know the effort `none` (their chat variants know none at all). Others think as
they like when a brain does not reason: the field itself may be unknown to them, or to the server."""


_TAKES_TEMPERATURE = re.compile(r"gpt-4|gpt-5(\.[0-9]+)?-chat")
"""How the names begin of models that take another temperature than their own; who reasons takes none."""


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool


class NamedSchema(msgspec.Struct, frozen=True):
    name: str
    strict: bool
    schema: dict[str, Any]


class SchemaFormat(msgspec.Struct, frozen=True, tag="json_schema", tag_field="type"):
    json_schema: NamedSchema


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body."""

    model: str
    messages: tuple[ChatMessage, ...]
    max_completion_tokens: int
    reasoning_effort: str | None = None
    temperature: float | None = None
    response_format: SchemaFormat | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None


_WITH_USAGE = StreamOptions(include_usage=True)


def chat_request(call: ModelCall, target: Target, form: Form | None) -> ChatRequest:
    """Put a call into OpenAI's words; leave to search the web is not made use of.

    Raises:
        ProviderError: Something is attached, which the chain refuses before: an answer would pass over it.

    """
    if call.attachments:
        raise failures.attachments_not_taken()
    schema = NamedSchema(form.name, strict=True, schema=form.schema) if form else None
    return ChatRequest(
        model=target.model,
        messages=_messages(call),
        max_completion_tokens=call.answer_tokens + target.thinking_tokens,
        reasoning_effort=_effort(target),
        temperature=call.temperature if _TAKES_TEMPERATURE.match(target.model) else None,
        response_format=SchemaFormat(schema) if schema else None,
        stream=call.watched,
        stream_options=_WITH_USAGE if call.watched else None,
    )


def _messages(call: ModelCall) -> tuple[ChatMessage, ...]:
    """One system message, because some servers refuse a second; the stable part first, for the prompt cache."""
    system = "\n\n".join(text for text in (call.instructions, call.parameters) if text.strip())
    messages = [ChatMessage(turn.role, turn.text) for turn in (*call.turns[:-1], call.question)]
    return (ChatMessage("system", system), *messages) if system else tuple(messages)


def _effort(target: Target) -> str | None:
    if target.reasoning is not Reasoning.OFF:
        return target.reasoning.value
    return "none" if _CAN_STOP_THINKING.match(target.model) else None
