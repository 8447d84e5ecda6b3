"""The content blocks a Claude message may hold, checked one by one."""

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from tests.fakes.fields import Field
from tests.fakes.media import magic_type

USER_BLOCKS = ("text", "image", "document", "search_result", "tool_result")
ASSISTANT_BLOCKS = (
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
)
_RESULT_BLOCKS = ("text", "image", "document", "search_result")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MOST_IMAGE_BYTES = 5 * 1024 * 1024
_SEARCH_ERRORS = [
    "invalid_tool_input",
    "unavailable",
    "max_uses_exceeded",
    "too_many_requests",
    "query_too_long",
    "request_too_large",
]
_CITATIONS = {
    "char_location": "document_index document_title start_char_index end_char_index",
    "page_location": "document_index document_title start_page_number end_page_number",
    "content_block_location": "document_index document_title start_block_index end_block_index",
    "web_search_result_location": "url title encrypted_index",
    "search_result_location": "search_result_index source title start_block_index end_block_index",
}


def seal(kind: str, content: str) -> str:
    """The opaque strings Claude hands out (signatures, encrypted results) and wants back unchanged."""
    digest = hashlib.sha256(f"{kind}\n{content}".encode()).digest()
    return "Eq" + base64.b64encode(digest).decode()


class Walk(msgspec.Struct):
    """What the blocks of a request add up to."""

    lifetimes: list[str] = msgspec.field(default_factory=list)
    """The cache breakpoints in order."""
    documents: list[bool] = msgspec.field(default_factory=list)
    """For each document whether its citations are on."""
    uses_tools: bool = False

    def block(self, field: Field, allowed: tuple[str, ...]) -> dict[str, Field]:
        """One block and everything in it."""
        kind = field.tag(allowed)
        inner = field.named(kind)
        match kind:
            case "text":
                return self.text(inner)
            case "image":
                parts = inner.object("type source", nullable="cache_control transformations")
                _image(parts["source"])
            case "document":
                parts = self._document(inner)
            case "search_result":
                parts = inner.object("type source title content", "citations", "cache_control")
                parts["source"].text(least=1)
                parts["title"].text(least=1)
                for item in parts["content"].items(least=1):
                    self.block(item, ("text",))
            case "tool_result":
                parts = self._tool_result(inner)
            case "tool_use":
                parts = inner.object("type id name input", "caller", "cache_control toolset_name")
                _check_call(parts)
                parts["name"].text(1, 200)
                self.uses_tools = True
            case "thinking":
                parts = inner.object("type thinking signature")
                if parts["signature"].text() != seal("thinking", parts["thinking"].text()):
                    raise inner.bad("Invalid `signature` in `thinking` block")
            case "redacted_thinking":
                parts = inner.object("type data")
                parts["data"].text(least=1)
            case "server_tool_use":
                parts = inner.object("type id name input", "caller", "cache_control")
                parts["name"].choice(("web_search", "web_fetch"))
                _check_call(parts)
            case _:
                parts = self._search_result(inner)
        self.breakpoint(parts)
        return parts

    def text(self, field: Field) -> dict[str, Field]:
        """A text block, in a message or in the system prompt."""
        parts = field.object("type text", nullable="cache_control citations")
        if not parts["text"].text().strip():
            raise field.bad("text content blocks must contain non-whitespace text")
        for cited in parts["citations"].items() if "citations" in parts else []:
            kind = cited.tag(_CITATIONS)
            _check_citation(cited.object(f"type cited_text {_CITATIONS[kind]}", nullable="file_id"))
        self.breakpoint(parts)
        return parts

    def breakpoint(self, parts: dict[str, Field]) -> None:
        """Counts a cache_control, if there is one."""
        if "cache_control" in parts:
            control = parts["cache_control"].object("type", "ttl")
            control["type"].choice(("ephemeral",))
            self.lifetimes.append(control["ttl"].choice(("5m", "1h")) if "ttl" in control else "5m")

    def _document(self, field: Field) -> dict[str, Field]:
        parts = field.object("type source", nullable="cache_control citations context title")
        if "title" in parts:
            parts["title"].text(1, 500)
        if "context" in parts:
            parts["context"].text(least=1)
        cited = parts["citations"].object("", "enabled") if "citations" in parts else {}
        self.documents.append(cited["enabled"].boolean() if "enabled" in cited else False)
        source = parts["source"]
        match source.tag(("base64", "url", "text", "content", "file")):
            case "base64":
                inner = source.object("type media_type data")
                inner["media_type"].choice(("application/pdf",))
                if magic_type(_decoded(inner["data"])) != "application/pdf":
                    raise inner["data"].bad("The PDF specified was not valid.")
            case "url":
                _https(source.object("type url")["url"])
            case "text":
                inner = source.object("type media_type data")
                inner["media_type"].choice(("text/plain",))
                inner["data"].text(least=1)
            case "content":
                content = source.object("type content")["content"]
                for item in content.items(least=1) if not isinstance(content.value, str) else []:
                    self.block(item, ("text", "image"))
            case _:
                source.object("type file_id")["file_id"].text(least=1)
        return parts

    def _tool_result(self, field: Field) -> dict[str, Field]:
        parts = field.object("type tool_use_id", "content is_error", "cache_control toolset_name")
        parts["tool_use_id"].text(least=1)
        if "is_error" in parts:
            parts["is_error"].boolean()
        if "content" in parts and not isinstance(parts["content"].value, str):
            for item in parts["content"].items():
                self.block(item, _RESULT_BLOCKS)
        self.uses_tools = True
        return parts

    def _search_result(self, field: Field) -> dict[str, Field]:
        parts = field.object("type tool_use_id content", "caller", "cache_control")
        parts["tool_use_id"].text(least=1)
        content = parts["content"]
        if isinstance(content.value, dict):
            inner = content.object("type error_code")
            inner["type"].choice(("web_search_tool_result_error",))
            inner["error_code"].choice(_SEARCH_ERRORS)
            return parts
        for item in content.items():
            found = item.object("type url title encrypted_content", nullable="page_age")
            found["type"].choice(("web_search_result",))
            found["title"].text()
            if "page_age" in found:
                found["page_age"].text()
            if found["encrypted_content"].text() != seal("search", found["url"].text()):
                raise found["encrypted_content"].bad("Invalid `encrypted_content` in `search_result` block")
        return parts


def _check_citation(parts: dict[str, Field]) -> None:
    for name, field in parts.items():
        if name.endswith(("index", "number")) and name != "encrypted_index":
            field.integer(least=0)
        elif field.value is not None or name not in ("title", "document_title"):
            field.text()


def _check_call(parts: dict[str, Field]) -> None:
    parts["id"].text(least=1)
    parts["input"].mapping()


def _image(source: Field) -> None:
    match source.tag(("base64", "url", "file")):
        case "base64":
            inner = source.object("type media_type data")
            media = inner["media_type"].choice(_IMAGES)
            data = _decoded(inner["data"])
            if len(data) > _MOST_IMAGE_BYTES:
                raise inner["data"].bad(
                    f"image exceeds 5 MB maximum: {len(data)} bytes > {_MOST_IMAGE_BYTES} bytes"
                )
            if magic_type(data) != media:
                raise source.bad(f"Image does not match the provided media type {media}")
        case "url":
            _https(source.object("type url")["url"])
        case _:
            source.object("type file_id")["file_id"].text(least=1)


def _https(field: Field) -> None:
    if not field.text().startswith("https://"):
        raise field.bad("Only HTTPS URLs are supported.")


def _decoded(field: Field) -> bytes:
    value: Any = field.text(least=1)
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise field.bad("Invalid base64 data") from error
