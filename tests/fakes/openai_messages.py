"""The messages of a chat completion: roles, content parts, and tool calls with their results."""

import binascii
import re
from typing import Any

from tests.fakes.fields import Field
from tests.fakes.media import magic_type

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES = ("developer", "system", "user", "assistant", "tool")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def check_messages(messages: Field) -> None:
    """Checks all messages and their order."""
    waiting: list[str] = []
    after_calls = False
    for message in messages.items(least=1):
        role = message.at("role", message.mapping().get("role")).choice(_ROLES)
        if role == "tool":
            call = _tool(message)
            if not after_calls or call not in waiting:
                raise message.bad(
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                )
            waiting.remove(call)
            continue
        _all_answered(message, waiting)
        after_calls = False
        if role == "assistant":
            waiting = _assistant(message)
            after_calls = bool(waiting)
        elif role == "user":
            _content(message.object("role content", "name")["content"], ("text", "image_url", "file"))
        else:
            _content(message.object("role content", "name")["content"], ("text",))
    _all_answered(messages, waiting)


def _all_answered(place: Field, waiting: list[str]) -> None:
    if waiting:
        raise place.bad(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
        )


def _tool(message: Field) -> str:
    parts = message.object("role content tool_call_id")
    _content(parts["content"], ("text",))
    return parts["tool_call_id"].text(least=1)


def _assistant(message: Field) -> list[str]:
    """The ids of its tool calls."""
    parts = message.object("role", "name tool_calls", "content refusal audio function_call")
    if "content" in parts:
        _content(parts["content"], ("text", "refusal"))
    elif "tool_calls" not in parts and "refusal" not in parts:
        raise message.at("content", None).bad("expected a string or a list, or 'tool_calls' to be set")
    ids: list[str] = []
    for call in parts["tool_calls"].items(least=1) if "tool_calls" in parts else []:
        call.tag(("function",))
        fields = call.object("id type function")
        function = fields["function"].object("name arguments")
        if not NAME.fullmatch(function["name"].text()):
            raise function["name"].bad("string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        function["arguments"].text()
        ids.append(fields["id"].text(1, 64))
    return ids


def _content(content: Field, allowed: tuple[str, ...]) -> None:
    if isinstance(content.value, str):
        return
    for part in content.items(least=1):
        kind = part.tag(allowed)
        fields = part.object(f"type {kind}", "prompt_cache_breakpoint")
        if kind == "image_url":
            _image(fields["image_url"])
        elif kind == "file":
            _file(fields["file"])
        else:
            fields[kind].text()


def _image(field: Field) -> None:
    parts = field.object("url", "detail")
    url = parts["url"].text(least=1)
    if "detail" in parts:
        parts["detail"].choice(("auto", "low", "high", "original"))
    if url.startswith("https://"):
        return
    media, data = _data_url(parts["url"])
    if media not in _IMAGES or magic_type(data) != media:
        raise parts["url"].bad("You uploaded an unsupported image.", "invalid_image_format")


def _file(field: Field) -> None:
    parts: dict[str, Any] = field.object("", "file_id file_data filename")
    if "file_id" in parts:
        parts["file_id"].text(least=1)
        return
    if "file_data" not in parts:
        raise field.bad("either 'file_id' or 'file_data' is required")
    if "filename" not in parts or not parts["filename"].text():
        raise field.words.missing(field.words.step(field.place, "filename"))
    media, data = _data_url(parts["file_data"])
    if media != "application/pdf" or magic_type(data) != media:
        raise parts["file_data"].bad("expected a base64-encoded PDF with its MIME type")


def _data_url(field: Field) -> tuple[str, bytes]:
    head, comma, data = field.text().partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise field.bad("expected a base64-encoded data URL with its MIME type")
    try:
        return head[len("data:") : -len(";base64")], binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise field.bad("invalid base64 data") from error
