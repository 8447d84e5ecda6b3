"""What chat completions answer, whole or streamed, as the domain's events; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.domain.events import Metered, ProviderEvent, Stop
from gateway.domain.usage import Usage
from gateway.providers import failures
from gateway.providers.failures import ErrorDetail
from gateway.providers.telling import Teller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.providers.shapes import Form

_DONE = b"[DONE]"
_STOPS = {"stop": Stop.END, "length": Stop.TRUNCATED, "content_filter": Stop.REFUSED}
"""Every other reason is about tools, and there are none."""


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None

    def told(self) -> Usage:
        """Take the cached tokens out of the prompt's, which include them."""
        details = self.prompt_tokens_details
        read = (details.cached_tokens or 0) if details else 0
        written = (details.cache_write_tokens or 0) if details else 0
        rest = max((self.prompt_tokens or 0) - read - written, 0)
        return Usage(rest, self.completion_tokens or 0, read, written)


class _Text(msgspec.Struct):
    """A message, or what a chunk adds to it."""

    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Text
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class _ChunkChoice(msgspec.Struct):
    index: int = 0
    delta: _Text | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_ChunkChoice] | None = None
    usage: _Usage | None = None
    error: ErrorDetail | None = None


_decode_completion = msgspec.json.Decoder(_Completion).decode
_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class OpenAIReader:
    """Reads one reply."""

    def __init__(self, form: Form | None) -> None:
        self.usage = Usage()
        self.complete = False
        self._teller = Teller(form)
        self._finish_reason: str | None = None
        self._refused = False
        self._counted = False

    def whole(self, body: bytes) -> Iterable[ProviderEvent]:
        """Read a completion.

        Raises:
            ProviderError: It is none, or no answer.

        """
        completion = _decoded_completion(body)
        if completion.usage:
            self.usage = completion.usage.told()
        if not completion.choices:
            raise failures.faulty("a completion without a choice")
        choice = completion.choices[0]
        self._finish_reason = choice.finish_reason
        return (*self._text(choice.message), *self._finish())

    def event(self, data: bytes) -> Iterable[ProviderEvent]:
        """Read one chunk.

        Raises:
            ProviderError: It tells an error, or ends what is no answer.

        """
        if data == _DONE:
            return self._finish()
        chunk = _decoded_chunk(data)
        if chunk.error:
            raise failures.of_event(chunk.error)
        events: Iterable[ProviderEvent] = ()
        for choice in chunk.choices or ():
            if choice.index == 0:
                self._finish_reason = choice.finish_reason or self._finish_reason
                if choice.delta:
                    events = self._text(choice.delta)
        if chunk.usage:
            self._counted = True
            self.usage = chunk.usage.told()
            return (*events, Metered(self.usage))
        return events

    def end(self) -> Iterable[ProviderEvent]:
        """Read an end without `[DONE]`, which some servers leave out: with reason and usage it was the end.

        Raises:
            ProviderError: The answer was not finished.

        """
        if self._finish_reason and self._counted:
            return self._finish()
        raise failures.faulty("a stream without its end")

    def _text(self, text: _Text) -> Iterable[ProviderEvent]:
        if text.refusal:
            self._refused = True
        return self._teller.piece(text.content or "")

    def _finish(self) -> Iterable[ProviderEvent]:
        stop = _STOPS.get(self._finish_reason or "")
        if stop is None:
            raise failures.faulty("a completion that finished for no reason, or for one that can't be")
        events = self._teller.end(Stop.REFUSED if self._refused else stop, self.usage)
        self.complete = True
        return events


def _decoded_completion(body: bytes) -> _Completion:
    try:
        return _decode_completion(body)
    except msgspec.DecodeError:
        pass
    # Raised outside the handler: the decoder's words may quote the body.
    raise failures.faulty("a reply that is no completion")


def _decoded_chunk(data: bytes) -> _Chunk:
    try:
        return _decode_chunk(data)
    except msgspec.DecodeError:
        pass
    raise failures.faulty("an event that is none")
