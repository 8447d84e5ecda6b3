"""How Claude answers: a scripted answer as a Message, and as the events of a stream."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.fakes import tokens
from tests.fakes.behaviours import Answer, Citation, Json, Search, Text, Thought, ToolCall, pieces_of
from tests.fakes.claude_blocks import seal
from tests.fakes.endpoint import Frame
from tests.fakes.seen import Seen


class Block(msgspec.Struct):
    """A content block as it stands in a Message, and the pieces its text is streamed in."""

    json: Json
    pieces: list[str] = msgspec.field(default_factory=list)


class Composed(msgspec.Struct):
    """A scripted answer after the request had its say: what is really sent."""

    blocks: list[Block]
    usage: Json
    message: Json


def message_of(answer: Answer, seen: Seen) -> bytes:
    """The body of an answer that is not streamed."""
    composed = compose(answer, seen)
    return msgspec.json.encode(composed.message | {"usage": composed.usage})


def events_of(answer: Answer, seen: Seen) -> Iterator[Frame]:
    """The events of an answer that is."""
    composed = compose(answer, seen)
    message, usage = composed.message, composed.usage
    started = message | {"content": [], "stop_reason": None, "stop_details": None, "stop_sequence": None}
    yield _event("message_start", message=started | {"usage": usage | {"output_tokens": 1}})
    yield _event("ping")
    for index, block in enumerate(composed.blocks):
        yield from _block_events(index, block)
    delta = {name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    cumulative = {
        name: usage[name]
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens_details",
            "server_tool_use",
        )
    }
    yield _event("message_delta", delta=delta, usage=cumulative)
    yield _event("message_stop")


def compose(answer: Answer, seen: Seen) -> Composed:
    """Blocks, usage and the rest of a Message."""
    body = seen.body
    blocks: list[Block] = []
    searches, allowed = 0, _searches_allowed(body)
    for number, part in enumerate(answer.parts):
        key = f"{seen.number:06d}{number:02d}"
        if isinstance(part, Search):
            if allowed is None:
                continue
            refused = searches >= allowed
            blocks += _search_blocks(part, f"srvtoolu_{key}", refused=refused)
            searches += not refused
        elif isinstance(part, Text):
            blocks.append(_text_block(part, answer, body))
        elif isinstance(part, Thought):
            sealed = seal("thinking", part.text)
            blocks.append(Block({"type": "thinking", "thinking": part.text, "signature": sealed}))
        else:
            call = {
                "type": "tool_use",
                "id": part.id or f"toolu_{key}",
                "name": part.name,
                "input": part.input,
            }
            blocks.append(Block(call))
    message = {
        "id": f"msg_{seen.number:012d}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block.json for block in blocks],
        # Claude has no content filter of its own name: it is a refusal there.
        "stop_reason": "refusal" if answer.stop == "content_filter" else answer.stop,
        "stop_sequence": (body.get("stop_sequences") or [None])[0]
        if answer.stop == "stop_sequence"
        else None,
        "stop_details": _stop_details(answer),
    }
    return Composed(blocks, _usage(answer, body, searches), message)


def _stop_details(answer: Answer) -> Json | None:
    if answer.stop not in ("refusal", "content_filter"):
        return None
    return {"type": "refusal", "category": answer.category, "explanation": None}


def _usage(answer: Answer, body: Any, searches: int) -> Json:
    thinking = sum(len(part.text) for part in answer.parts if isinstance(part, Thought))
    written = thinking + sum(_length(part) for part in answer.parts)
    given, output = answer.input_tokens, answer.output_tokens
    return {
        "input_tokens": tokens.input_tokens(body) if given is None else given,
        "cache_creation_input_tokens": answer.cache_write,
        "cache_read_input_tokens": answer.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": answer.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens.count(written) if output is None else output,
        "output_tokens_details": {"thinking_tokens": tokens.count(thinking)} if thinking else None,
        "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0} if searches else None,
        "service_tier": "standard",
    }


def _length(part: object) -> int:
    if isinstance(part, Text):
        return len(part.text)
    if isinstance(part, ToolCall):
        return len(msgspec.json.encode(part.input))
    return 0


# Blocks


def _text_block(part: Text, answer: Answer, body: Any) -> Block:
    block: Json = {"type": "text", "text": part.text}
    cited = [_citation(citation, body) for citation in part.citations]
    present = [citation for citation in cited if citation is not None]
    if present:
        block["citations"] = present
    return Block(block, pieces_of(answer, part.text))


def _citation(citation: Citation, body: Any) -> Json | None:
    if citation.url is not None:
        return {
            "type": "web_search_result_location",
            "cited_text": citation.quote,
            "url": citation.url,
            "title": citation.title,
            "encrypted_index": seal("index", citation.url),
        }
    documents = _documents(body)
    if not any((document.get("citations") or {}).get("enabled") for document in documents):
        return None
    title = citation.title
    if title is None and citation.document < len(documents):
        title = documents[citation.document].get("title")
    common = {"cited_text": citation.quote, "document_index": citation.document, "document_title": title}
    if citation.chars is not None:
        start, end = citation.chars
        return {"type": "char_location", **common, "start_char_index": start, "end_char_index": end}
    if citation.blocks is not None:
        start, end = citation.blocks
        return {
            "type": "content_block_location",
            **common,
            "start_block_index": start,
            "end_block_index": end,
        }
    start, end = citation.pages or (1, 2)
    return {"type": "page_location", **common, "start_page_number": start, "end_page_number": end}


def _documents(body: Any) -> list[Json]:
    """The documents of a request in the order of their indexes."""
    found: list[Json] = []
    for message in body["messages"]:
        if isinstance(message["content"], list):
            found += [block for block in message["content"] if block["type"] == "document"]
    return found


def _searches_allowed(body: Any) -> int | None:
    """How many web searches the request admits; None without the tool."""
    for tool in body.get("tools") or []:
        if str(tool.get("type")).startswith("web_search_"):
            return int(tool.get("max_uses") or 1_000)
    return None


def _search_blocks(part: Search, call: str, *, refused: bool) -> list[Block]:
    error = "max_uses_exceeded" if refused else part.error
    content: Json | list[Json]
    if error is not None:
        content = {"type": "web_search_tool_result_error", "error_code": error}
    else:
        content = [
            {
                "type": "web_search_result",
                "url": found.url,
                "title": found.title,
                "encrypted_content": seal("search", found.url),
                "page_age": found.age,
            }
            for found in part.results
        ]
    return [
        Block({"type": "server_tool_use", "id": call, "name": "web_search", "input": {"query": part.query}}),
        Block({"type": "web_search_tool_result", "tool_use_id": call, "content": content}),
    ]


# Events


def _block_events(index: int, block: Block) -> Iterator[Frame]:
    json = block.json
    start: Json
    deltas: list[tuple[Json, bool]]
    match json["type"]:
        case "text":
            start = {"type": "text", "text": ""} | ({"citations": []} if "citations" in json else {})
            deltas = [({"type": "text_delta", "text": piece}, True) for piece in block.pieces]
            cited = [({"type": "citations_delta", "citation": c}, False) for c in json.get("citations", [])]
            # The real stream gives the citations of a block before its text is complete.
            deltas = deltas[:-1] + cited + deltas[-1:]
        case "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            half = len(json["thinking"]) // 2
            halves = (json["thinking"][:half], json["thinking"][half:])
            deltas = [({"type": "thinking_delta", "thinking": piece}, False) for piece in halves if piece]
            deltas.append(({"type": "signature_delta", "signature": json["signature"]}, False))
        case "tool_use" | "server_tool_use":
            start = json | {"input": {}}
            encoded = msgspec.json.encode(json["input"]).decode()
            half = len(encoded) // 2
            pieces = ("", encoded[:half], encoded[half:])
            deltas = [({"type": "input_json_delta", "partial_json": piece}, False) for piece in pieces]
        case _:
            start, deltas = json, []
    yield _event("content_block_start", index=index, content_block=start)
    for delta, is_piece in deltas:
        yield Frame(_event("content_block_delta", index=index, delta=delta).data, is_piece)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **fields: Any) -> Frame:
    data = msgspec.json.encode({"type": kind, **fields})
    return Frame(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")
