"""The one language between providers, chain and routes: a sequence of events, told as it happens.

A provider yields pieces, searches and metering and ends with exactly one `Finished`; the chain passes pieces and
searches on and ends with exactly one `Told`. A sequence that ends otherwise is no answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import TypeAlias

import msgspec

from gateway.domain.completion import Answer, Citation
from gateway.domain.usage import Usage


class Stop(StrEnum):
    """Why a model stopped."""

    END = "end"
    TRUNCATED = "truncated"
    REFUSED = "refused"


class Piece(msgspec.Struct, frozen=True):
    """A piece of the answer's text, never empty."""

    text: str


class Metered(msgspec.Struct, frozen=True):
    """What the running attempt has consumed so far: cumulative, so that a cut attempt can be billed."""

    usage: Usage


class Searching(msgspec.Struct, frozen=True):
    """The model begins a web search."""

    id: str
    query: str


class Searched(msgspec.Struct, frozen=True):
    """The web search of this id has ended, with whatever result."""

    id: str


class Finished(msgspec.Struct, frozen=True):
    """The model is done."""

    stop: Stop
    usage: Usage
    citations: tuple[Citation, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """The whole answer; nothing follows."""

    answer: Answer


ProviderEvent: TypeAlias = Piece | Searching | Searched | Metered | Finished
ProviderEvents: TypeAlias = AsyncGenerator[ProviderEvent, None]
Event: TypeAlias = Piece | Searching | Searched | Told
Events: TypeAlias = AsyncGenerator[Event, None]


async def collect(events: Events) -> Answer:
    """Fold a told sequence into its answer.

    Raises:
        Failure: The sequence ended with an error.
        RuntimeError: The sequence ended without an answer, which no chain does.

    """
    async for event in events:
        if isinstance(event, Told):
            return event.answer
    raise RuntimeError("the sequence ended without an answer")
