"""A model call as the body of `POST /v1/messages`; pure, and never with a field that a model would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.domain.catalog import Reasoning
from gateway.providers.claude.blocks import CacheControl, Message, TextBlock, question
from gateway.providers.claude.models import LEAST_THINKING_TOKENS, most_output_tokens, thinks_within_budget
from gateway.providers.claude.search import WebSearchTool, search_of, search_tool

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.providers.shapes import Form


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
    tools: tuple[WebSearchTool, ...] = ()
    stream: bool = False


_BREAKPOINT = CacheControl()


def message_request(call: ModelCall, target: Target, form: Form | None) -> MessageRequest:
    """Put a call into Anthropic's words."""
    tokens = min(call.answer_tokens + target.thinking_tokens, most_output_tokens(target.model))
    thinking: AdaptiveThinking | BudgetedThinking | None = None
    effort: str | None = None
    if target.reasoning is not Reasoning.OFF:
        if thinks_within_budget(target.model):
            thinking = BudgetedThinking(thinking_budget(target.thinking_tokens, tokens))
        else:
            thinking = AdaptiveThinking()
            effort = target.reasoning.value
    output = OutputConfig(effort, SchemaFormat(form.schema) if form else None)
    search = search_of(call)
    return MessageRequest(
        model=target.model,
        max_tokens=tokens,
        messages=_messages(call),
        system=_system(call),
        thinking=thinking,
        output_config=None if output == OutputConfig() else output,
        tools=(search_tool(search, search.most),) if search else (),
        stream=call.watched,
    )


def continued_request(
    request: MessageRequest, content: tuple[Any, ...], *, tokens: int, tool: WebSearchTool
) -> MessageRequest | None:
    """Ask Claude to go on from what it has said so far, with what is left of its tokens; None if that is too little."""
    thinking = request.thinking
    if isinstance(thinking, BudgetedThinking):
        thinking = BudgetedThinking(thinking_budget(thinking.budget_tokens, tokens))
        if thinking.budget_tokens < LEAST_THINKING_TOKENS:
            return None
    if tokens < 1:
        return None
    return msgspec.structs.replace(
        request,
        max_tokens=tokens,
        messages=(*request.messages, Message("assistant", content)),
        thinking=thinking,
        tools=(tool,),
    )


def thinking_budget(wanted: int, tokens: int) -> int:
    """How much may be thought within so many tokens in all: something must be left for the answer."""
    return wanted if wanted < tokens else tokens // 2


def _system(call: ModelCall) -> tuple[TextBlock, ...]:
    """The recipe, the same over calls, and what depends on this one; blank blocks would be refused."""
    blocks = (TextBlock(call.instructions, _BREAKPOINT), TextBlock(call.parameters))
    return tuple(block for block in blocks if block.text.strip())


def _messages(call: ModelCall) -> tuple[Message, ...]:
    """The texts as they are; what came before this turn ends with a breakpoint."""
    messages = [Message(turn.role, turn.text) for turn in call.turns[:-1]]
    if messages and call.turns[-2].text.strip():
        before = call.turns[-2]
        messages[-1] = Message(before.role, (TextBlock(before.text, _BREAKPOINT),))
    return (*messages, question(call))
