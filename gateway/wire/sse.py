"""The answer in pieces: one Server-Sent Events frame per event, one line of data each."""

from __future__ import annotations

import msgspec

from gateway.domain.completion import Answer
from gateway.domain.errors import CONTRACT_FAULTS, PROVIDER_UNAVAILABLE, Failure
from gateway.wire.replies import encode_answer, error_body

PING = b": ping\n\n"

_encoder = msgspec.json.Encoder()


def delta_frame(text: str) -> bytes:
    """A piece of text."""
    return b'event: delta\ndata: {"text": ' + _encoder.encode(text) + b"}\n\n"


def done_frame(answer: Answer) -> bytes:
    """The end, with the whole answer in the usual form."""
    return b"event: done\ndata: " + encode_answer(answer) + b"\n\n"


def error_frame(failure: Failure) -> bytes:
    """An error after the stream was opened: only codes of the contract's table appear here."""
    shown = failure if failure.fault in CONTRACT_FAULTS else Failure(PROVIDER_UNAVAILABLE)
    return b"event: error\ndata: " + _encoder.encode(error_body(shown)) + b"\n\n"
