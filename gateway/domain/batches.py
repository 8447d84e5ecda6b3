"""Deferred work: a batch of calls that a provider does when it has room, and what came of each."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import TypeAlias

import msgspec

from gateway.domain.catalog import Target
from gateway.domain.completion import Citation, Shape
from gateway.domain.events import Stop
from gateway.domain.usage import Usage


class BatchState(StrEnum):
    """The contract's `stato`."""

    RUNNING = "in_corso"
    READY = "pronta"
    FAILED = "fallita"
    EXPIRED = "scaduta"


class ItemAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """One text that was answered."""

    text: str
    stop: Stop
    usage: Usage
    citations: tuple[Citation, ...] = ()


class ItemTrouble(StrEnum):
    """Why a text has no answer."""

    REFUSED = "rifiutata"
    """The model refused for reasons of safety."""
    ERRORED = "errore"
    CANCELED = "annullata"
    EXPIRED = "scaduta"
    MISSING = "mancante"
    """The provider's results do not mention it."""
    UNCLAIMED = "non_ritirata"
    """Nobody came for the batch as long as the provider could have told."""


class ItemFailure(msgspec.Struct, frozen=True, tag="failure"):
    """One text that was not answered. What it consumed, if the provider says so, is not paid."""

    trouble: ItemTrouble
    usage: Usage = Usage()


ItemOutcome: TypeAlias = ItemAnswer | ItemFailure


class Running(msgspec.Struct, frozen=True):
    """The provider is still at work."""


class Ended(msgspec.Struct, frozen=True):
    """The provider is done: outcomes by position, each at most once; positions that it does not mention are missing."""

    outcomes: dict[int, ItemOutcome]


class Gone(msgspec.Struct, frozen=True):
    """The provider does not know the batch (any more)."""


Poll: TypeAlias = Running | Ended | Gone


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as the database has it. It holds no text of the caller's; answers are kept once they were collected.

    Attributes:
        number: The receipt, `prt_` and 12 hexadecimal characters.
        request_id: The call that accepted it; its ledger row is written when it is collected.
        day: The project's day that pays.
        single: One text only: its answer is also told as `risposta`.
        shape: The forced form of the answers, needed to read them.
        documents: Names of the attached PDFs, in order, for citations; `cited` whether there will be any.
        reserved: Micro-dollars held until it is settled.
        provider_id: The provider's name of the batch; None while a submission is ambiguous.
        sent_at: When it began to be sent, by the machine's clock, for matching an ambiguous submission; None before.
        polled_at: When the provider was last asked (business time).
        settled_at: When its outcomes were written and paid.
        outcomes: In the order of the texts; empty until it has ended.

    """

    number: str
    project: str
    request_id: str
    key_id: int | None
    day: date
    created_at: datetime
    recipe: str
    recipe_version: int
    target: Target
    total: int
    single: bool
    shape: Shape | None = None
    documents: tuple[str, ...] = ()
    cited: bool = False
    reserved: int
    state: BatchState = BatchState.RUNNING
    provider_id: str | None = None
    sent_at: datetime | None = None
    polled_at: datetime | None = None
    settled_at: datetime | None = None
    outcomes: tuple[ItemOutcome, ...] = ()
