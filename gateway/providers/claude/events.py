"""What Claude answers, whole or streamed, as the domain's events; pure, and thinking is never passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from gateway.domain.events import Metered, ProviderEvent, Stop
from gateway.domain.usage import Usage
from gateway.providers import failures
from gateway.providers.failures import ErrorDetail
from gateway.providers.telling import Teller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.providers.shapes import Form

_STOPS = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}
"""Every other reason (a tool, a pause) can't be the end of a call without tools."""


class _Searches(msgspec.Struct):
    web_search_requests: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    server_tool_use: _Searches | None = None

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


def _latest(count: int | None, before: int) -> int:
    return before if count is None else count


class _Block(msgspec.Struct):
    type: str
    text: str | None = None


class _Message(msgspec.Struct):
    type: Literal["message"]
    content: list[_Block]
    usage: _Usage
    stop_reason: str | None = None


class _Delta(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: ErrorDetail | None = None


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class ClaudeReader:
    """Reads one reply."""

    def __init__(self, form: Form | None) -> None:
        self.usage = Usage()
        self.finished = False
        self._teller = Teller(form)
        self._started = False
        self._stop_reason: str | None = None

    def whole(self, body: bytes) -> Iterable[ProviderEvent]:
        """Read a message.

        Raises:
            ProviderError: It is none, or no answer.

        """
        message = _decoded_message(body)
        self.usage = message.usage.over(self.usage)
        self._stop_reason = message.stop_reason
        text = "".join(block.text for block in message.content if block.type == "text" and block.text)
        return (*self._teller.piece(text), *self._finish())

    def event(self, data: bytes) -> Iterable[ProviderEvent]:
        """Read one event; kinds that are not known say nothing.

        Raises:
            ProviderError: It tells an error, or ends what is no answer.

        """
        event = _decoded_event(data)
        match event.type:
            case "content_block_delta" if event.delta and event.delta.type == "text_delta":
                return self._teller.piece(event.delta.text or "")
            case "content_block_start" if event.content_block and event.content_block.type == "text":
                return self._teller.piece(event.content_block.text or "")
            case "message_start" if event.message:
                self._started = True
                return self._metered(event.message.usage)
            case "message_delta":
                if event.delta and event.delta.stop_reason:
                    self._stop_reason = event.delta.stop_reason
                return self._metered(event.usage) if event.usage else ()
            case "message_stop":
                if not self._started:
                    raise failures.faulty("a stream that ends without having begun")
                return self._finish()
            case "error":
                raise failures.of_event(event.error or ErrorDetail())
            case _:
                return ()

    def end(self) -> Iterable[ProviderEvent]:
        """Read an end without `message_stop`.

        Raises:
            ProviderError: Always.

        """
        raise failures.faulty("a stream without its end")

    def _metered(self, usage: _Usage) -> Iterable[ProviderEvent]:
        self.usage = usage.over(self.usage)
        return (Metered(self.usage),)

    def _finish(self) -> Iterable[ProviderEvent]:
        stop = _STOPS.get(self._stop_reason or "")
        if stop is None:
            raise failures.faulty("a message that stopped for no reason, or for one that can't be")
        events = self._teller.end(stop, self.usage)
        self.finished = True
        return events


def _decoded_message(body: bytes) -> _Message:
    try:
        return _decode_message(body)
    except msgspec.DecodeError:
        pass
    # Raised outside the handler: the decoder's words may quote the body.
    raise failures.faulty("a reply that is no message")


def _decoded_event(data: bytes) -> _Event:
    try:
        return _decode_event(data)
    except msgspec.DecodeError:
        pass
    raise failures.faulty("an event that is none")
