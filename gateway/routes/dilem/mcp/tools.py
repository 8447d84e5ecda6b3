"""The tools as the protocol tells them: their list, and what a call came to."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from mcp_types import CallToolResult, ImageContent, TextContent, Tool, ToolAnnotations

from gateway.dilem.contract import Error
from gateway.dilem.operations import OPERATIONS, PNG, Operation
from gateway.dilem.schemas import schema_of
from gateway.dilem.service import Card
from gateway.routes.dilem.mcp.calls import Answer
from gateway.routes.dilem.mcp.texts import WORDS

_encode = msgspec.json.Encoder().encode


def tool_list() -> list[Tool]:
    """Give the seven tools, in their order."""
    return [_tool(operation) for operation in OPERATIONS]


def result_of(answer: Answer) -> CallToolResult:
    """Tell an answer: the value that REST would send, as data and as text; a card as an image and its facts."""
    images = []
    if isinstance(answer, Card):
        data = base64.b64encode(answer.png).decode()
        images.append(ImageContent(type="image", data=data, mime_type=PNG))
    value = answer.file if isinstance(answer, Card) else answer
    return CallToolResult(
        content=[*images, TextContent(type="text", text=_encode(value).decode())],
        structured_content=msgspec.to_builtins(value),
        is_error=isinstance(answer, Error),
    )


def _tool(operation: Operation) -> Tool:
    words = WORDS[operation.name]
    return Tool(
        name=operation.name,
        title=words.title,
        description=words.description,
        input_schema=_input_schema(operation),
        # All four are said: unsaid, a tool is taken for one that destroys and reaches anywhere.
        annotations=ToolAnnotations(
            read_only_hint=operation.kind == "read",
            destructive_hint=False,
            idempotent_hint=operation.idempotent,
            open_world_hint=operation.kind == "computation",
        ),
    )


def _input_schema(operation: Operation) -> dict[str, Any]:
    """The arguments' schema; an empty list of required members, which older drafts forbid, is left out."""
    schema = schema_of(operation.arguments)
    return {name: value for name, value in schema.items() if value != []}
