"""The rules of `POST /v1/chat/completions`: what the OpenAI API refuses in a body, and in which words."""

from collections.abc import Container
from typing import Any

from tests.fakes.fields import Field
from tests.fakes.openai_messages import NAME, check_messages
from tests.fakes.openai_models import EMBEDDING_DIMENSIONS, reasons
from tests.fakes.openai_schema import check_loosely, check_strict
from tests.fakes.openai_words import request_field
from tests.fakes.seen import RefusalError

_OPTIONAL = (
    "parallel_tool_calls prompt_cache_options response_format tool_choice tools user web_search_options"
)
_NULLABLE = (
    "audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modalities moderation n "
    "prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort safety_identifier seed "
    "service_tier stop store stream stream_options temperature top_logprobs top_p verbosity"
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MOST_OUTPUT = 128_000
# What a reasoning model does not take, with the one value that says nothing.
_NEUTRAL = {"top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "logprobs": False}
_UNSUPPORTED = ("logit_bias", "top_logprobs", "stop")


def check_chat(body: Any, models: Container[str]) -> None:
    """Checks a whole body."""
    parts = request_field(body).object("model messages", _OPTIONAL, _NULLABLE)
    model = parts["model"].text(least=1)
    check_model(model, models)
    if model in EMBEDDING_DIMENSIONS:
        raise RefusalError(404, "This is not a chat model.", kind="invalid_request_error", param="model")
    check_messages(parts["messages"])
    _check_simple(parts)
    if reasons(model):
        _check_reasoning(parts)
    else:
        _check_sampling(parts)
    names = _check_tools(parts)
    if "tool_choice" in parts:
        _check_tool_choice(parts["tool_choice"], names)
    if "response_format" in parts:
        _check_format(parts["response_format"])


def check_model(model: str, models: Container[str]) -> None:
    """Refuses a model that does not exist."""
    if model not in models:
        message = f"The model `{model}` does not exist or you do not have access to it."
        raise RefusalError(404, message, kind="invalid_request_error", code="model_not_found")


def _check_simple(parts: dict[str, Field]) -> None:
    streams = parts["stream"].boolean() if "stream" in parts else False
    if "stream_options" in parts:
        options = parts["stream_options"].object("", "include_usage include_obfuscation")
        for name in options:
            options[name].boolean()
        if not streams:
            raise parts["stream_options"].bad(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "invalid_value"
            )
    if "n" in parts and parts["n"].integer(1, 128) != 1:
        raise parts["n"].bad("this fake gives one choice only")
    if "max_completion_tokens" in parts:
        parts["max_completion_tokens"].integer(1, _MOST_OUTPUT)
    if "verbosity" in parts:
        parts["verbosity"].choice(("low", "medium", "high"))
    if "service_tier" in parts:
        parts["service_tier"].choice(("auto", "default", "flex", "scale", "priority", "fast"))
    if "metadata" in parts:
        for key, value in parts["metadata"].mapping().items():
            parts["metadata"].at(key, value).text(most=512)
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        if name in parts:
            parts[name].text(most=64)


def _check_reasoning(parts: dict[str, Field]) -> None:
    if "max_tokens" in parts:
        raise parts["max_tokens"].bad(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
        )
    if "reasoning_effort" in parts:
        parts["reasoning_effort"].choice(_EFFORTS)
    if "temperature" in parts and parts["temperature"].number(0, 2) != 1:
        value = parts["temperature"].value
        raise parts["temperature"].bad(
            f"Unsupported value: 'temperature' does not support {value} with this model. "
            "Only the default (1) value is supported.",
            "unsupported_value",
        )
    for name, field in parts.items():
        if name in _UNSUPPORTED or (name in _NEUTRAL and field.value != _NEUTRAL[name]):
            raise field.bad(
                f"Unsupported parameter: '{name}' is not supported with this model.", "unsupported_parameter"
            )


def _check_sampling(parts: dict[str, Field]) -> None:
    if "reasoning_effort" in parts:
        raise parts["reasoning_effort"].bad(
            "Unrecognized request argument supplied: reasoning_effort", "unknown_parameter"
        )
    if "max_tokens" in parts:
        parts["max_tokens"].integer(1, _MOST_OUTPUT)
        if "max_completion_tokens" in parts:
            raise parts["max_tokens"].bad(
                "Setting 'max_tokens' and 'max_completion_tokens' is not supported."
            )
    for name, most in (("temperature", 2), ("top_p", 1)):
        if name in parts:
            parts[name].number(0, most)


def _check_tools(parts: dict[str, Field]) -> list[str]:
    """The names of the tools."""
    names: list[str] = []
    for tool in parts["tools"].items(least=1, most=128) if "tools" in parts else []:
        tool.tag(("function",))
        function = tool.object("type function")["function"].object("name", "description parameters", "strict")
        if not NAME.fullmatch(function["name"].text()):
            raise function["name"].bad("string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        if "description" in function:
            function["description"].text()
        if "strict" in function and function["strict"].boolean():
            if "parameters" not in function:
                raise tool.words.missing(f"{tool.place}.function.parameters")
            check_strict(function["name"].text(), function["parameters"])
        elif "parameters" in function:
            check_loosely(function["name"].text(), function["parameters"])
        names.append(function["name"].text())
    return names


def _check_tool_choice(choice: Field, names: list[str]) -> None:
    if not names:
        raise choice.bad("'tool_choice' is only allowed when 'tools' are specified.")
    if isinstance(choice.value, str):
        choice.choice(("none", "auto", "required"))
        return
    choice.tag(("function",))
    name = choice.object("type function")["function"].object("name")["name"]
    if name.text() not in names:
        raise name.bad(f"'{name.value}' is not among the tools")


def _check_format(form: Field) -> None:
    kind = form.tag(("text", "json_object", "json_schema"))
    if kind != "json_schema":
        form.object("type")
        return
    inner = form.object("type json_schema")["json_schema"].object("name", "description schema", "strict")
    name = inner["name"]
    if not NAME.fullmatch(name.text()):
        raise name.bad(
            "string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]{1,64}$'."
        )
    if "description" in inner:
        inner["description"].text()
    if "schema" not in inner:
        raise form.words.missing(f"{form.place}.json_schema.schema")
    if "strict" in inner and inner["strict"].boolean():
        check_strict(name.text(), inner["schema"])
    else:
        inner["schema"].mapping()
