"""Deferred work on the wire: the receipt of `/api.php`, the question and the reply of `/pratica.php`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from gateway.domain.batches import Batch, BatchState, ItemAnswer, ItemOutcome, ItemTrouble
from gateway.domain.events import Stop
from gateway.wire.glossary import Wire, words
from gateway.wire.replies import PageReply, WebReply, citation_reply
from gateway.wire.requests import Envelope, ProjectBody, read_fields

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
TROUBLES: dict[ItemTrouble, str] = {
    ItemTrouble.REFUSED: "Il modello si è rifiutato di rispondere per motivi di sicurezza.",
    ItemTrouble.ERRORED: "Il provider non è riuscito a rispondere a questo testo.",
    ItemTrouble.CANCELED: "Il provider ha annullato questo testo.",
    ItemTrouble.EXPIRED: "Il provider non ha fatto in tempo entro 24 ore.",
    ItemTrouble.MISSING: "Il provider non ha restituito una risposta per questo testo.",
    ItemTrouble.UNCLAIMED: "Nessuno ha ritirato questo testo entro 29 giorni: la risposta non c'è più.",
}

_batch_words = words(
    answer="risposta",
    batch="pratica",
    state="stato",
    total="quanti",
    deferred="differito",
    created="creato_il",
)


class NumberBody(ProjectBody, frozen=True, kw_only=True, rename=_batch_words):
    """The fields of `/pratica.php`."""

    batch: str


class ReceiptMeta(Wire, frozen=True, kw_only=True, rename=_batch_words):
    """`meta` of a receipt."""

    deferred: Literal[True] = True
    model: str
    brain: str
    request_id: str


class ReceiptReply(Wire, frozen=True, kw_only=True, rename=_batch_words):
    """Work taken in: HTTP 202."""

    ok: Literal[True] = True
    answer: None = None
    batch: str
    state: str
    total: int
    meta: ReceiptMeta


class AnswerItem(Wire, frozen=True, kw_only=True, omit_defaults=True, rename=_batch_words):
    """One text that was answered; `ok` has no default so that it is always told."""

    ok: bool
    answer: str
    truncated: bool = False
    citations: tuple[PageReply | WebReply, ...] | None = None


class FailureItem(Wire, frozen=True, kw_only=True, rename=_batch_words):
    """One text that was not."""

    ok: Literal[False] = False
    error: str


class StateMeta(Wire, frozen=True, kw_only=True, rename=_batch_words):
    """`meta` of a batch."""

    deferred: Literal[True] = True
    created: str
    brain: str


class StateReply(Wire, frozen=True, kw_only=True, rename=_batch_words):
    """How far a batch is; `risposte` only once it has ended, `risposta` only of a single text."""

    ok: Literal[True] = True
    batch: str
    state: str
    total: int
    answers: tuple[AnswerItem | FailureItem, ...] | msgspec.UnsetType = msgspec.UNSET
    answer: str | msgspec.UnsetType | None = msgspec.UNSET
    meta: StateMeta


def decode_number(envelope: Envelope) -> str:
    """Read the batch's number.

    Raises:
        Failure: 400, missing or no string.

    """
    return read_fields(envelope.fields, NumberBody).batch


def encode_receipt(batch: Batch) -> bytes:
    """Encode the receipt of work taken in."""
    meta = ReceiptMeta(model=batch.target.model, brain=batch.target.brain, request_id=batch.request_id)
    return msgspec.json.encode(
        ReceiptReply(batch=batch.number, state=batch.state.value, total=batch.total, meta=meta)
    )


def encode_state(batch: Batch, zone: ZoneInfo) -> bytes:
    """Encode how far a batch is; dates in the given time zone."""
    reply = StateReply(
        batch=batch.number,
        state=batch.state.value,
        total=batch.total,
        meta=StateMeta(created=local_time(batch.created_at, zone), brain=batch.target.brain),
    )
    if batch.state is not BatchState.RUNNING:
        items = tuple(_item(outcome, cited=batch.cited) for outcome in batch.outcomes)
        reply = msgspec.structs.replace(reply, answers=items)
        if batch.single:
            first = items[0] if items else None
            reply = msgspec.structs.replace(
                reply, answer=first.answer if isinstance(first, AnswerItem) else None
            )
    return msgspec.json.encode(reply)


def local_time(instant: datetime, zone: ZoneInfo) -> str:
    """An instant as the contract writes dates."""
    return instant.astimezone(zone).strftime(DATE_FORMAT)


def _item(outcome: ItemOutcome, *, cited: bool) -> AnswerItem | FailureItem:
    if not isinstance(outcome, ItemAnswer):
        return FailureItem(error=TROUBLES[outcome.trouble])
    return AnswerItem(
        ok=True,
        answer=outcome.text,
        truncated=outcome.stop is Stop.TRUNCATED,
        citations=tuple(map(citation_reply, outcome.citations)) if cited else None,
    )
