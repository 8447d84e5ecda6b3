"""The rules of `POST /v1/messages`: what the Anthropic API refuses in a body, and in which words."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.claude_blocks import ASSISTANT_BLOCKS, USER_BLOCKS, Walk
from tests.fakes.claude_models import ClaudeModel
from tests.fakes.claude_schema import SchemaBudget
from tests.fakes.claude_tools import check_tool_choice, check_tools
from tests.fakes.claude_turns import check_turns
from tests.fakes.claude_words import request_field
from tests.fakes.fields import Field
from tests.fakes.seen import RefusalError

_OPTIONAL = "metadata output_config service_tier stop_sequences stream system thinking tool_choice tools"
_OPTIONAL += " user_profile_id workspace_id temperature top_p top_k"
_NULLABLE = "cache_control container diagnostics inference_geo speed"
_MOST_BREAKPOINTS = 4


def check_message(body: Any, models: Mapping[str, ClaudeModel], *, batch: bool = False) -> None:
    """Checks a whole body; the parts of a batch may not ask for a stream."""
    parts = request_field(body).object("model max_tokens messages", _OPTIONAL, _NULLABLE)
    name = parts["model"].text(least=1)
    if name not in models:
        raise RefusalError(404, f"model: {name}")
    model = models[name]
    _check_simple(parts, name, model)
    if batch and "stream" in parts:
        raise parts["stream"].bad("Extra inputs are not permitted")

    # Breakpoints are counted in the order in which the prompt is built: tools, system, messages.
    walk, budget = Walk(), SchemaBudget()
    tools = check_tools(parts["tools"], name, model, walk, budget) if "tools" in parts else []
    forced = check_tool_choice(parts["tool_choice"], tools) if "tool_choice" in parts else False
    _check_system(parts, walk)
    messages = parts["messages"].items(least=1, most=100_000)
    for message in messages:
        _check_message(message, walk)
    walk.breakpoint(parts)

    thinking = _check_thinking(parts, model)
    shaped = _check_output(parts, name, model, budget)
    prefilled = check_turns(parts["messages"], thinks=thinking == "enabled")
    if prefilled and (not model.prefill or thinking == "enabled" or shaped):
        raise RefusalError(
            400,
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        )
    if forced and thinking in ("enabled", "adaptive"):
        raise RefusalError(400, "Thinking may not be enabled when tool_choice forces tool use.")
    if walk.uses_tools and not tools:
        raise RefusalError(400, "Requests which include `tool_use` or `tool_result` blocks must define tools")
    _check_sampling(parts, model, thinking)
    _check_breakpoints(walk)
    if len(set(walk.documents)) > 1:
        raise RefusalError(
            400, "messages: Citations must be enabled on all documents of a request, or on none"
        )
    if shaped and any(walk.documents):
        raise RefusalError(
            400, "output_config.format: Citations cannot be used together with structured outputs"
        )


def _check_simple(parts: dict[str, Field], name: str, model: ClaudeModel) -> None:
    tokens = parts["max_tokens"].integer(least=1)
    if tokens > model.most_output:
        raise parts["max_tokens"].bad(
            f"{tokens} > {model.most_output}, which is the maximum allowed number of output tokens for {name}"
        )
    if "stream" in parts:
        parts["stream"].boolean()
    if "metadata" in parts:
        user = parts["metadata"].object(nullable="user_id")
        if "user_id" in user:
            user["user_id"].text(1, 256)
    if "service_tier" in parts:
        parts["service_tier"].choice(("auto", "standard_only"))
    if "speed" in parts:
        parts["speed"].choice(("standard", "fast"))
    for stop in parts["stop_sequences"].items() if "stop_sequences" in parts else []:
        if not stop.text().strip():
            raise stop.bad("each stop sequence must contain non-whitespace")


def _check_system(parts: dict[str, Field], walk: Walk) -> None:
    if "system" not in parts:
        return
    system = parts["system"]
    if isinstance(system.value, list):
        for block in system.items():
            block.tag(("text",))
            walk.text(block)
    elif not system.text().strip():
        raise system.bad("system: text content blocks must contain non-whitespace text")


def _check_message(message: Field, walk: Walk) -> None:
    parts = message.object("role content")
    role = parts["role"].choice(("user", "assistant"))
    content = parts["content"]
    if isinstance(content.value, str):
        if not content.value.strip():
            raise message.bad("messages must have non-empty content")
        return
    blocks = content.items()
    if not blocks:
        raise message.bad("messages must have non-empty content")
    for block in blocks:
        walk.block(block, USER_BLOCKS if role == "user" else ASSISTANT_BLOCKS)


def _check_thinking(parts: dict[str, Field], model: ClaudeModel) -> str | None:
    if "thinking" not in parts:
        return None
    thinking = parts["thinking"]
    kind = thinking.tag(("enabled", "adaptive", "disabled", "between_tools"))
    if kind == "enabled":
        budget = thinking.object("type budget_tokens", nullable="display")["budget_tokens"]
        if not model.enabled_thinking:
            raise thinking.bad(
                '"thinking.type.enabled" is not supported for this model. Use "adaptive" instead.'
            )
        if budget.integer(least=1024) >= parts["max_tokens"].value:
            raise RefusalError(400, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    elif kind == "adaptive":
        thinking.object("type", nullable="display")
        if not model.adaptive_thinking:
            raise thinking.bad("adaptive thinking is not supported on this model")
    else:
        thinking.object("type")
    display = thinking.value.get("display")
    if display is not None:
        thinking.at("display", display).choice(("summarized", "omitted"))
    return kind


def _check_output(parts: dict[str, Field], name: str, model: ClaudeModel, budget: SchemaBudget) -> bool:
    """Whether the answer has to follow a schema."""
    if "output_config" not in parts:
        return False
    config = parts["output_config"].object(nullable="effort format")
    if "effort" in config:
        effort = config["effort"].choice(("low", "medium", "high", "xhigh", "max"))
        if not model.efforts:
            raise RefusalError(400, "This model does not support the effort parameter.")
        if effort not in model.efforts:
            raise config["effort"].bad(f"'{effort}' is not supported on {name}")
    if "format" not in config:
        return False
    form = config["format"].object("type schema")
    form["type"].choice(("json_schema",))
    budget.spend(form["schema"])
    return True


def _check_sampling(parts: dict[str, Field], model: ClaudeModel, thinking: str | None) -> None:
    for name in ("temperature", "top_p", "top_k"):
        if name not in parts:
            continue
        field = parts[name]
        value = field.integer(0) if name == "top_k" else field.number(0, 1)
        if not model.sampling:
            raise field.bad(f"`{name}` is not supported on this model")
        if thinking in ("enabled", "adaptive") and (
            name == "top_k" or value < (1 if name == "temperature" else 0.95)
        ):
            raise RefusalError(400, f"`{name}` may not be set when thinking is enabled")


def _check_breakpoints(walk: Walk) -> None:
    if len(walk.lifetimes) > _MOST_BREAKPOINTS:
        raise RefusalError(
            400,
            f"A maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {len(walk.lifetimes)}.",
        )
    if "5m" in walk.lifetimes and "1h" in walk.lifetimes[walk.lifetimes.index("5m") :]:
        raise RefusalError(
            400, "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )
