"""A model call as the body of `POST /v1/messages`; pure, and never with a field that a model would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.domain.catalog import Reasoning

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.completion import Turn
    from gateway.providers.shapes import Form

_BUDGETED_THINKING = (
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-opus-4-5",
    "claude-opus-4-1",
    "claude-opus-4-0",
    "claude-opus-4-2025",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2025",
    "claude-3",
)
"""How the names begin of models that think within a budget given to them; all others decide by themselves."""


class CacheControl(msgspec.Struct, frozen=True, tag="ephemeral", tag_field="type"):
    """A breakpoint: what is before it is kept for later calls."""


class TextBlock(msgspec.Struct, frozen=True, tag="text", tag_field="type", omit_defaults=True):
    text: str
    cache_control: CacheControl | None = None


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str | tuple[TextBlock, ...]


class AdaptiveThinking(msgspec.Struct, frozen=True, tag="adaptive", tag_field="type"):
    """The model decides how much it thinks."""


class BudgetedThinking(msgspec.Struct, frozen=True, tag="enabled", tag_field="type"):
    budget_tokens: int


class SchemaFormat(msgspec.Struct, frozen=True, tag="json_schema", tag_field="type"):
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    effort: str | None = None
    format: SchemaFormat | None = None


class MessageRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body."""

    model: str
    max_tokens: int
    messages: tuple[Message, ...]
    system: tuple[TextBlock, ...] = ()
    thinking: AdaptiveThinking | BudgetedThinking | None = None
    output_config: OutputConfig | None = None
    stream: bool = False


_BREAKPOINT = CacheControl()


def message_request(call: ModelCall, target: Target, form: Form | None) -> MessageRequest:
    """Put a call into Anthropic's words."""
    thinking: AdaptiveThinking | BudgetedThinking | None = None
    effort: str | None = None
    if target.reasoning is not Reasoning.OFF:
        if target.model.startswith(_BUDGETED_THINKING):
            thinking = BudgetedThinking(target.thinking_tokens)
        else:
            thinking = AdaptiveThinking()
            effort = target.reasoning.value
    output = OutputConfig(effort, SchemaFormat(form.schema) if form else None)
    return MessageRequest(
        model=target.model,
        max_tokens=call.answer_tokens + target.thinking_tokens,
        messages=_messages(call.turns),
        system=_system(call),
        thinking=thinking,
        output_config=None if output == OutputConfig() else output,
        stream=call.watched,
    )


def _system(call: ModelCall) -> tuple[TextBlock, ...]:
    """The recipe, the same over calls, and what depends on this one; blank blocks would be refused."""
    blocks = (TextBlock(call.instructions, _BREAKPOINT), TextBlock(call.parameters))
    return tuple(block for block in blocks if block.text.strip())


def _messages(turns: tuple[Turn, ...]) -> tuple[Message, ...]:
    """The texts as they are; what came before this turn ends with a breakpoint."""
    messages = [Message(turn.role, turn.text) for turn in turns]
    if len(turns) > 1 and turns[-2].text.strip():
        before = turns[-2]
        messages[-2] = Message(before.role, (TextBlock(before.text, _BREAKPOINT),))
    return tuple(messages)
