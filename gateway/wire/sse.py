"""The answer in pieces: one Server-Sent Events frame per event, one line of data each."""

from __future__ import annotations

import msgspec

from gateway.domain.completion import Answer
from gateway.domain.errors import CONTRACT_FAULTS, PROVIDER_UNAVAILABLE, Failure
from gateway.domain.events import Event, Piece, Searched, Searching, Told
from gateway.wire.glossary import Wire, words
from gateway.wire.replies import AnswerReply, ErrorBody, encode_answer, error_body

PING = b": ping\n\n"
SEARCH_TOOL = "ricerca_internet"

_encoder = msgspec.json.Encoder()


class PieceBody(Wire, frozen=True, kw_only=True, rename=words(text="text")):
    """Data of `delta`, the one word of the contract that is English. `delta_frame` writes it by hand, for speed."""

    text: str


class SearchArguments(Wire, frozen=True, kw_only=True):
    """What is searched for."""

    query: str


class SearchingBody(Wire, frozen=True, kw_only=True, rename=words(arguments="argomenti")):
    """Data of `tool_call`."""

    id: str
    name: str
    arguments: SearchArguments


class SearchedBody(Wire, frozen=True, kw_only=True):
    """Data of `tool_done`."""

    id: str
    name: str


EVENTS: dict[str, type[Wire]] = {
    "delta": PieceBody,
    "done": AnswerReply,
    "error": ErrorBody,
    "tool_call": SearchingBody,
    "tool_done": SearchedBody,
}
"""What the data of each event is."""


def frame_of(event: Event) -> bytes:
    """The frame of one event."""
    if isinstance(event, Piece):
        return delta_frame(event.text)
    if isinstance(event, Told):
        return done_frame(event.answer)
    return search_frame(event)


def delta_frame(text: str) -> bytes:
    """A piece of text."""
    return b'event: delta\ndata: {"text": ' + _encoder.encode(text) + b"}\n\n"


def search_frame(search: Searching | Searched) -> bytes:
    """The web search's lamp: on with the query, off when the search has ended."""
    if isinstance(search, Searching):
        told = SearchingBody(id=search.id, name=SEARCH_TOOL, arguments=SearchArguments(query=search.query))
        return b"event: tool_call\ndata: " + _encoder.encode(told) + b"\n\n"
    ended = SearchedBody(id=search.id, name=SEARCH_TOOL)
    return b"event: tool_done\ndata: " + _encoder.encode(ended) + b"\n\n"


def done_frame(answer: Answer) -> bytes:
    """The end, with the whole answer in the usual form."""
    return b"event: done\ndata: " + encode_answer(answer) + b"\n\n"


def error_frame(failure: Failure) -> bytes:
    """An error after the stream was opened: only codes of the contract's table appear here."""
    shown = failure if failure.fault in CONTRACT_FAULTS else Failure(PROVIDER_UNAVAILABLE)
    return b"event: error\ndata: " + _encoder.encode(error_body(shown)) + b"\n\n"
