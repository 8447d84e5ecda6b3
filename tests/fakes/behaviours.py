"""The scripted behaviours as data: what `tests.fakes.script` makes and the servers perform.

A behaviour is an `Answer` (a proper model answer, perhaps badly delivered), a `Reply` (an HTTP response that
is no answer), a `Hang` or a `Drop`. They say nothing that is particular to a provider.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import msgspec

from tests.fakes.seen import Seen

Stop: TypeAlias = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "content_filter",
    "model_context_window_exceeded",
]
Json: TypeAlias = dict[str, Any]


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a passage of the answer comes from: a place in a document, or a page found on the web."""

    quote: str
    document: int = 0
    title: str | None = None
    pages: tuple[int, int] | None = None
    chars: tuple[int, int] | None = None
    blocks: tuple[int, int] | None = None
    url: str | None = None


class Text(msgspec.Struct, frozen=True):
    """A block of visible text."""

    text: str
    citations: tuple[Citation, ...] = ()


class Thought(msgspec.Struct, frozen=True):
    """A block of thinking; its signature is computed, so that a history that altered it is noticed."""

    text: str


class Found(msgspec.Struct, frozen=True):
    """One result of a web search."""

    url: str
    title: str
    age: str | None = None


class Search(msgspec.Struct, frozen=True):
    """A web search the provider does by itself, with its results or its error code."""

    query: str
    results: tuple[Found, ...] = ()
    error: str | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A request to the caller to run one of its tools."""

    name: str
    input: Json
    id: str | None = None


Part: TypeAlias = Text | Thought | Search | ToolCall


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer breaks off after `after` pieces of text."""

    how: Literal["cut", "quiet", "error"]
    after: int
    reset: bool = True
    kind: str = "overloaded_error"
    message: str = "Overloaded"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer and the manner in which it is delivered.

    `pieces` counts the deltas a text is streamed in (or gives them literally). `first_delay` passes before
    anything is sent, `text_delay` before the first piece of text, `delay` between pieces; an answer that is
    not streamed waits for the sum. `drip` spreads the bytes of a whole answer over the delays instead.
    `shaped` makes the text a JSON instance of the schema the request asks for, if it asks for one.
    """

    parts: tuple[Part, ...]
    stop: Stop = "end_turn"
    category: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    pieces: int | tuple[str, ...] = 3
    delay: float = 0.0
    first_delay: float = 0.0
    text_delay: float = 0.0
    drip: bool = False
    chunk: int | None = None
    ending: Ending | None = None
    shaped: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP response as it is; without a body the provider's own error shape is filled in.

    `stream_body` replaces `body` when the request asked for a stream.
    """

    status: int
    message: str = ""
    kind: str | None = None
    code: str | None = None
    body: bytes | None = None
    stream_body: bytes | None = None
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    first_delay: float = 0.0


class Hang(msgspec.Struct, frozen=True):
    """The request is read and never answered; after `seconds` the connection is dropped."""

    seconds: float


class Drop(msgspec.Struct, frozen=True):
    """The request is read and the connection aborted without a byte of response."""


Behaviour: TypeAlias = Answer | Reply | Hang | Drop
Scripted: TypeAlias = Behaviour | Part | Callable[[Seen], "Behaviour | Part"]


def pieces_of(scripted: Answer, content: str) -> list[str]:
    """The deltas a block of text is streamed in."""
    if not isinstance(scripted.pieces, int):
        return list(scripted.pieces)
    count = max(1, min(scripted.pieces, len(content)))
    # Rounded bounds, so that pieces differ in length and end anywhere.
    bounds = [len(content) * n // count for n in range(count + 1)]
    return [content[a:b] for a, b in pairwise(bounds) if b > a]
