"""What Claude sends, as far as anything is believed of it; fields that are not known are passed over."""

from __future__ import annotations

from typing import Literal

import msgspec

from gateway.domain.usage import Usage
from gateway.providers import failures
from gateway.providers.failures import ErrorDetail


class SearchCount(msgspec.Struct):
    web_search_requests: int | None = None


class Counts(msgspec.Struct):
    """What one request has consumed so far."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    server_tool_use: SearchCount | None = None

    def over(self, before: Usage) -> Usage:
        """The counts are cumulative, and a count left out is the one before."""
        searches = self.server_tool_use.web_search_requests if self.server_tool_use else None
        return Usage(
            _latest(self.input_tokens, before.input_tokens),
            _latest(self.output_tokens, before.output_tokens),
            _latest(self.cache_read_input_tokens, before.cache_read_tokens),
            _latest(self.cache_creation_input_tokens, before.cache_write_tokens),
            _latest(searches, before.searches),
        )


class Block(msgspec.Struct):
    """A content block, of any kind; one of a stream is empty where it begins."""

    type: str
    text: str | None = None
    citations: list[msgspec.Raw] | None = None
    tool_use_id: str | None = None
    content: msgspec.Raw = msgspec.Raw()

    @property
    def failed(self) -> bool:
        """Of a search's result: there is none, but the reason why."""
        return not bytes(self.content).startswith(b"[")


class WholeMessage(msgspec.Struct):
    type: Literal["message"]
    content: list[msgspec.Raw]
    usage: Counts
    stop_reason: str | None = None


class Delta(msgspec.Struct):
    """What an event adds to a block, or to the message."""

    type: str | None = None
    text: str | None = None
    citation: msgspec.Raw = msgspec.Raw()
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class StreamEvent(msgspec.Struct):
    type: str
    message: WholeMessage | None = None
    content_block: msgspec.Raw = msgspec.Raw()
    delta: Delta | None = None
    usage: Counts | None = None
    error: ErrorDetail | None = None


_decode_message = msgspec.json.Decoder(WholeMessage).decode
_decode_block = msgspec.json.Decoder(Block).decode
_decode_event = msgspec.json.Decoder(StreamEvent).decode


def decoded_message(body: bytes) -> tuple[WholeMessage, list[Block]]:
    """Read a message and its blocks.

    Raises:
        ProviderError: It is none.

    """
    try:
        message = _decode_message(body)
        return message, [_decode_block(raw) for raw in message.content]
    except msgspec.DecodeError:
        pass
    # Raised outside the handler, here and below: the decoder's words may quote the body.
    raise failures.faulty("a reply that is no message")


def decoded_event(data: bytes) -> StreamEvent:
    """Read an event of a stream.

    Raises:
        ProviderError: It is none.

    """
    try:
        return _decode_event(data)
    except msgspec.DecodeError:
        pass
    raise failures.faulty("an event that is none")


def decoded_block(raw: msgspec.Raw) -> Block:
    """Read the beginning of a block.

    Raises:
        ProviderError: It is none.

    """
    try:
        return _decode_block(raw)
    except msgspec.DecodeError:
        pass
    raise failures.faulty("an event that begins no block")


def _latest(count: int | None, before: int) -> int:
    return before if count is None else count
