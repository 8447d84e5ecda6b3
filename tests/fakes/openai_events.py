"""How OpenAI answers: a scripted answer as a chat completion, and as the chunks of a stream."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.fakes import tokens
from tests.fakes.behaviours import Answer, Json, Text, Thought, ToolCall, pieces_of
from tests.fakes.endpoint import Frame
from tests.fakes.seen import Seen

# No clock: an answer is the same every time.
_CREATED = 1_796_000_000
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "refusal": "stop",
    "content_filter": "content_filter",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}
_SORRY = "Mi dispiace, non posso aiutarti con questa richiesta."


def completion_of(answer: Answer, seen: Seen) -> bytes:
    """The body of an answer that is not streamed."""
    content = _content(answer)
    calls = _tool_calls(answer, seen)
    message: Json = {
        "role": "assistant",
        "content": None if _refuses(answer) or (calls and not content) else content,
        "refusal": content or _SORRY if _refuses(answer) else None,
        "annotations": _annotations(answer),
    }
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[answer.stop]}
    envelope = _envelope(seen, "chat.completion")
    return msgspec.json.encode(envelope | {"choices": [choice], "usage": usage_of(answer, seen.body)})


def chunks_of(answer: Answer, seen: Seen) -> Iterator[Frame]:
    """The chunks of an answer that is."""
    with_usage = bool((seen.body.get("stream_options") or {}).get("include_usage"))
    envelope = _envelope(seen, "chat.completion.chunk") | ({"usage": None} if with_usage else {})
    field = "refusal" if _refuses(answer) else "content"

    def chunk(delta: Json, finish: str | None = None, *, piece: bool = False) -> Frame:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event(envelope | {"choices": [choice]}, piece=piece)

    yield chunk({"role": "assistant", "content": None if field == "refusal" else "", "refusal": None})
    for part in _texts(answer):
        for piece in pieces_of(answer, part):
            yield chunk({field: piece}, piece=True)
    for index, call in enumerate(_tool_calls(answer, seen)):
        arguments = call["function"]["arguments"]
        opened = call | {"index": index, "function": call["function"] | {"arguments": ""}}
        yield chunk({"tool_calls": [opened]})
        half = len(arguments) // 2
        for text in (arguments[:half], arguments[half:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    yield chunk({}, _FINISH[answer.stop])
    if with_usage:
        yield _event(envelope | {"choices": [], "usage": usage_of(answer, seen.body)})
    yield Frame(b"data: [DONE]\n\n")


def usage_of(answer: Answer, body: Any) -> Json:
    """Prompt tokens include the cached ones, unlike Claude's."""
    thinking = sum(len(part.text) for part in answer.parts if isinstance(part, Thought))
    calls = sum(len(msgspec.json.encode(part.input)) for part in answer.parts if isinstance(part, ToolCall))
    written = thinking + calls + sum(len(text) for text in _texts(answer))
    given, output = answer.input_tokens, answer.output_tokens
    prompt = tokens.input_tokens(body) if given is None else given
    prompt += answer.cache_read + answer.cache_write
    completion = tokens.count(written) if output is None else output
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": answer.cache_read,
            "cache_write_tokens": answer.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": tokens.count(thinking) if thinking else 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _envelope(seen: Seen, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{seen.number:012d}",
        "object": kind,
        "created": _CREATED,
        "model": seen.body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _refuses(answer: Answer) -> bool:
    return answer.stop == "refusal"


def _texts(answer: Answer) -> list[str]:
    found = [part.text for part in answer.parts if isinstance(part, Text)]
    return [_SORRY] if _refuses(answer) and not found else found


def _content(answer: Answer) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, Text))


def _tool_calls(answer: Answer, seen: Seen) -> list[Json]:
    calls: list[Json] = []
    for number, part in enumerate(answer.parts):
        if isinstance(part, ToolCall):
            function = {"name": part.name, "arguments": msgspec.json.encode(part.input).decode()}
            key = part.id or f"call_{seen.number:06d}{number:02d}"
            calls.append({"id": key, "type": "function", "function": function})
    return calls


def _annotations(answer: Answer) -> list[Json]:
    """Only pages of the web are cited by this API."""
    found: list[Json] = []
    start = 0
    for part in answer.parts:
        if isinstance(part, Text):
            for citation in part.citations:
                if citation.url is not None:
                    place = {"start_index": start, "end_index": start + len(part.text)}
                    cited = place | {"url": citation.url, "title": citation.title or citation.url}
                    found.append({"type": "url_citation", "url_citation": cited})
            start += len(part.text)
    return found


def _event(data: Json, *, piece: bool = False) -> Frame:
    return Frame(b"data: " + msgspec.json.encode(data) + b"\n\n", piece)
