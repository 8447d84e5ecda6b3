"""The words in which a test tells a fake provider what to do next, the same for every provider.

Answers, refusals, failures and bad manners come from the functions below. Parts (`text`, `think`, `search`,
`call_tool`) are put together with `answer(...)`, and one alone may stand in a script as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from tests.fakes.behaviours import (
    Answer,
    Behaviour,
    Citation,
    Drop,
    Ending,
    Found,
    Hang,
    Json,
    Part,
    Reply,
    Search,
    Stop,
    Text,
    Thought,
    ToolCall,
)

# Accents, a euro sign and an emoji: one, two, three and four bytes of UTF-8 in one sentence.
SAMPLE = "Perché no? Però costa 12 € e la città è più lontana 🌶 di così."


# Parts


def cite(
    quote: str,
    *,
    document: int = 0,
    title: str | None = None,
    pages: tuple[int, int] | None = None,
    chars: tuple[int, int] | None = None,
    blocks: tuple[int, int] | None = None,
    url: str | None = None,
) -> Citation:
    """A citation. Ends are exclusive, as on the wire: `pages=(3, 4)` is page 3.

    Without a `title` the one the document has in the request is used. A citation of a document is only
    sent if the request switched citations on, as the real API does.
    """
    return Citation(
        quote=quote, document=document, title=title, pages=pages, chars=chars, blocks=blocks, url=url
    )


def text(content: str, *, citations: Sequence[Citation] = ()) -> Text:
    """A block of text."""
    return Text(content, tuple(citations))


def think(content: str) -> Thought:
    """A thinking block, signed. OpenAI shows none of it: there it only counts as reasoning tokens."""
    return Thought(content)


def search(
    query: str, results: Sequence[tuple[str, str] | Found] = (), *, error: str | None = None
) -> Search:
    """A web search with `(url, title)` results, or with an error code.

    It is left out if the request has no web search tool, and becomes `max_uses_exceeded` beyond `max_uses`.
    """
    found = tuple(r if isinstance(r, Found) else Found(*r) for r in results)
    return Search(query, found, error)


def call_tool(tool: str, /, **arguments: Any) -> ToolCall:
    """A tool call; alone in a script it is an answer that stops with `tool_use`."""
    return ToolCall(tool, arguments)


# Answers


def answer(
    *parts: Part | str,
    stop: Stop | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    cache_read: int = 0,
    cache_write: int = 0,
    pieces: int | Sequence[str] = 3,
    delay: float = 0.0,
    first_delay: float = 0.0,
    text_delay: float = 0.0,
) -> Answer:
    """An answer of several parts; strings are text. The stop reason follows from the parts if not given."""
    blocks = tuple(Text(p) if isinstance(p, str) else p for p in parts)
    if not isinstance(pieces, int):
        whole = "".join(p.text for p in blocks if isinstance(p, Text))
        if "".join(pieces) != whole:
            raise ValueError("the pieces must make up the text")
        pieces = tuple(pieces)
    if stop is None:
        stop = "tool_use" if any(isinstance(p, ToolCall) for p in blocks) else "end_turn"
    return Answer(
        parts=blocks,
        stop=stop,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read=cache_read,
        cache_write=cache_write,
        pieces=pieces,
        delay=delay,
        first_delay=first_delay,
        text_delay=text_delay,
    )


def say(
    content: str,
    *,
    citations: Sequence[Citation] = (),
    stop: Stop = "end_turn",
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    cache_read: int = 0,
    cache_write: int = 0,
    pieces: int | Sequence[str] = 3,
    delay: float = 0.0,
    first_delay: float = 0.0,
    text_delay: float = 0.0,
) -> Answer:
    """A plain answer."""
    return answer(
        Text(content, tuple(citations)),
        stop=stop,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read=cache_read,
        cache_write=cache_write,
        pieces=pieces,
        delay=delay,
        first_delay=first_delay,
        text_delay=text_delay,
    )


def shaped(otherwise: str = SAMPLE, *, delay: float = 0.0, first_delay: float = 0.0) -> Answer:
    """What the default does: an instance of the schema asked for, plain text if none is asked for."""
    return msgspec.structs.replace(say(otherwise, delay=delay, first_delay=first_delay), shaped=True)


def refuse(
    content: str = "",
    *,
    category: str | None = "general_harms",
    how: Literal["refusal", "filter"] = "refusal",
) -> Answer:
    """The model declines, after `content` if there is any.

    Claude: `stop_reason` refusal with its category. OpenAI: `message.refusal`, or with `how="filter"` the
    text so far and `finish_reason` content_filter.
    """
    parts = (Text(content),) if content else ()
    stop: Stop = "refusal" if how == "refusal" else "content_filter"
    return Answer(parts=parts, stop=stop, category=category)


def truncate(content: str) -> Answer:
    """An answer that ran into `max_tokens`."""
    return say(content, stop="max_tokens")


def empty(
    *, thinking: str = "Dunque…", stop: Stop = "max_tokens", output_tokens: int | None = None
) -> Answer:
    """A 200 without text: by default thinking used up all the tokens."""
    parts = (Thought(thinking),) if thinking else ()
    return Answer(parts=parts, stop=stop, output_tokens=output_tokens)


def pause(content: str, searches: int | Sequence[Search] = 1) -> Answer:
    """A long turn the provider pauses (`pause_turn`) after some web searches."""
    if isinstance(searches, int):
        page = Found("https://example.org/pagina", "Una pagina")
        searches = [Search(f"ricerca {n + 1}", (page,)) for n in range(searches)]
    parts: tuple[Part, ...] = tuple(searches)
    if content:
        parts = (*parts, Text(content))
    return Answer(parts=parts, stop="pause_turn")


# Bad manners with a proper answer


def cut_after(pieces: int, content: str = SAMPLE, *, reset: bool = True) -> Answer:
    """The TCP connection is aborted after some pieces: by a reset, or by a close in mid-body."""
    ending = Ending(how="cut", after=pieces, reset=reset)
    return msgspec.structs.replace(say(content, pieces=pieces + 2), ending=ending)


def quiet_end(pieces: int, content: str = SAMPLE) -> Answer:
    """A clean end of the body without the closing events; not streamed: a JSON text that ends too early."""
    ending = Ending(how="quiet", after=pieces)
    return msgspec.structs.replace(say(content, pieces=pieces + 2), ending=ending)


def error_event(
    kind: str = "overloaded_error", *, after: int = 1, content: str = SAMPLE, message: str = "Overloaded"
) -> Answer:
    """An error event in mid-stream; not streamed: the HTTP error of that kind."""
    ending = Ending(how="error", after=after, kind=kind, message=message)
    return msgspec.structs.replace(say(content, pieces=after + 2), ending=ending)


def split_bytes(content: str = SAMPLE, size: int = 1, *, delay: float = 0.0005) -> Answer:
    """The body is written `size` bytes at a time, through characters and lines.

    The small delay makes the reader see the pieces apart instead of joined again by the kernel.
    """
    return msgspec.structs.replace(say(content, delay=delay, pieces=7), chunk=size)


def slow(content: str = SAMPLE, seconds: float = 1.0, *, pieces: int = 10) -> Answer:
    """An answer that takes `seconds` in all, with never a long silence; not streamed: its bytes drip."""
    pieces = max(2, min(pieces, len(content)))
    scripted = say(content, pieces=pieces, delay=seconds / (pieces - 1))
    return msgspec.structs.replace(scripted, drip=True)


def huge(size: int) -> Answer:
    """A well-formed answer whose text has `size` bytes."""
    return say("x" * size, pieces=max(1, size // 65_536), output_tokens=64)


def hang(seconds: float = 3600.0) -> Hang:
    """Never answers."""
    return Hang(seconds)


def drop() -> Drop:
    """Resets the connection before a single byte of response."""
    return Drop()


# Responses that are no answer


def status(
    code: int,
    *,
    message: str = "",
    kind: str | None = None,
    error_code: str | None = None,
    retry_after: float | str | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | str | Json | None = None,
    first_delay: float = 0.0,
) -> Reply:
    """An HTTP status; without a body in the provider's error shape, the error type following the status."""
    extra = dict(headers or {})
    if retry_after is not None:
        extra["retry-after"] = str(retry_after)
    if isinstance(body, str):
        body = body.encode()
    elif isinstance(body, dict):
        body = msgspec.json.encode(body)
    return Reply(
        status=code,
        message=message,
        kind=kind,
        code=error_code,
        body=body,
        headers=tuple(extra.items()),
        first_delay=first_delay,
    )


def html(code: int = 200) -> Reply:
    """A page of some proxy on the way."""
    page = "<!DOCTYPE html><html><head><title>Città</title></head><body><h1>Just a moment…</h1></body></html>"
    return Reply(status=code, body=page.encode(), content_type="text/html; charset=utf-8")


def wrong_shape() -> Reply:
    """Valid JSON (a valid event, if streamed) that is no message."""
    return Reply(
        status=200,
        body=b'{"hello": ["world"], "ok": true}',
        stream_body=b'event: message_start\ndata: {"hello": ["world"]}\n\n',
    )


def huge_error(size: int, code: int = 500) -> Reply:
    """An error whose message has `size` bytes."""
    return Reply(status=code, message="x" * size)


def redirect(url: str, code: int = 307) -> Reply:
    """A redirect elsewhere."""
    return Reply(status=code, body=b"", headers=(("location", url),))


def as_behaviour(scripted: Behaviour | Part) -> Behaviour:
    """A part alone is an answer of one part."""
    if isinstance(scripted, Text | Thought | Search | ToolCall):
        return answer(scripted)
    return scripted
