"""How an admitted call goes on and ends: renewal, settlement, release, and the day's total from the database.

A call that ended leaves a row in `finished` for some minutes: repeating its end changes nothing, and a renewal that
was under way does not bring it back.
"""

from __future__ import annotations

import secrets
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING

from gateway.keyvalue.sqlite.admission import claim_for, reserve
from gateway.ports import CLAIM_SECONDS, KEPT_SECONDS, RESERVATION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.keyvalue.sqlite.session import Session
    from gateway.ports import AdmissionRequest, Claim, Settlement, Terms

_KEEP_DAYS = 2
"""Totals older than the newest by more are dropped: without running calls they can be read again."""


def supply(session: Session, project: str, day: str, *, epoch: int, token: str, spent: int) -> bool:
    """See `Gate.supply`."""
    accepted = session.run(
        "UPDATE days SET epoch = ?, spent = ?, token = NULL WHERE project = ? AND day = ? AND token = ?",
        (epoch, spent, project, day, token),
    )
    if accepted:
        oldest = (date.fromisoformat(day) - timedelta(days=_KEEP_DAYS)).isoformat()
        session.run("DELETE FROM days WHERE project = ? AND day < ? AND running = 0", (project, oldest))
    return bool(accepted)


def forget_total(session: Session, project: str, day: str) -> None:
    """See `Gate.forget_total`. A total that somebody is just reading is not believed either."""
    session.run(
        "UPDATE days SET spent = NULL, token = ? WHERE project = ? AND day = ?",
        (secrets.token_urlsafe(9), project, day),
    )


def settle(session: Session, settlement: Settlement) -> None:
    """See `Gate.settle`."""
    request = settlement.request
    clock = time.time()
    if not _finish(session, request, clock):
        return
    day = _drop_reservation(session, request)
    if day is None and request.terms is not None:
        day = request.terms.day
    if day is not None:
        # Whatever the epoch of a known total: leaving a cost out of one could exceed the cap, counting it can't.
        session.run(
            "UPDATE days SET spent = spent + ?, token = iif(spent IS NULL, ?, NULL) WHERE project = ? AND day = ?",
            (settlement.cost, f"after {request.request_id}", request.project, day),
        )
    if request.claim is not None:
        if settlement.answer is None and settlement.note is None:
            _drop_claim(session, request, request.claim)
        else:
            _keep(session, settlement, request.claim, clock)
    if settlement.cached is not None and request.cache_key is not None:
        session.run(
            "REPLACE INTO answers SELECT ?1, ?2, ?3, ?4, ?5"
            " WHERE ?3 = coalesce((SELECT number FROM generations WHERE project = ?1), 0)",
            (
                request.project,
                request.cache_key,
                settlement.generation,
                settlement.now + settlement.cache_seconds,
                settlement.cached,
            ),
        )


def release(session: Session, request: AdmissionRequest) -> None:
    """See `Gate.release`."""
    if not _finish(session, request, time.time()):
        return
    session.run(
        "DELETE FROM entries WHERE project = ? AND request_id = ?", (request.project, request.request_id)
    )
    _drop_reservation(session, request)
    if request.claim is not None:
        _drop_claim(session, request, request.claim)


def renew(session: Session, requests: Sequence[AdmissionRequest]) -> None:
    """See `Gate.renew`."""
    clock = time.time()
    for request in requests:
        if request.claim is not None:
            _renew_claim(session, request, request.claim, clock)
        if request.terms is not None:
            _renew_reservation(session, request, request.terms, clock)


def _renew_claim(session: Session, request: AdmissionRequest, claim: Claim, clock: float) -> None:
    renewed = session.run(
        "UPDATE claims SET lease = ? WHERE project = ? AND key = ? AND request_id = ? AND kept_at IS NULL",
        (clock + CLAIM_SECONDS, request.project, claim.key, request.request_id),
    )
    if renewed or _is_finished(session, request):
        return
    found = session.one(
        "SELECT owner, lease, kept_at FROM claims WHERE project = ? AND key = ?", (request.project, claim.key)
    )
    if found is None or (found[2] is None and session.is_free(found[0], found[1], clock)):
        claim_for(session, request, claim, clock)


def _renew_reservation(session: Session, request: AdmissionRequest, terms: Terms, clock: float) -> None:
    call = (request.project, request.request_id)
    renewed = session.run(
        "UPDATE reservations SET lease = ? WHERE project = ? AND request_id = ? AND owner = ? AND NOT handed",
        (clock + RESERVATION_SECONDS, *call, session.owner),
    )
    if renewed or _is_finished(session, request):
        return
    if session.one("SELECT 1 FROM reservations WHERE project = ? AND request_id = ?", call) is None:
        reserve(session, request, terms, clock)


def _keep(session: Session, settlement: Settlement, claim: Claim, clock: float) -> None:
    """Put the answer (or the note) under the key, unless the key belongs to another call by now."""
    request = settlement.request
    found = session.one(
        "SELECT request_id, owner, lease, kept_at FROM claims WHERE project = ? AND key = ?",
        (request.project, claim.key),
    )
    if found is not None:
        holder, owner, lease, kept_at = found
        if kept_at is not None:
            foreign = settlement.now < kept_at + KEPT_SECONDS
        else:
            foreign = holder != request.request_id and not session.is_free(owner, lease, clock)
        if foreign:
            return
    session.run(
        "REPLACE INTO claims VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)",
        (
            request.project,
            claim.key,
            claim.fingerprint,
            request.request_id,
            session.owner,
            settlement.now,
            settlement.answer or b"",
            settlement.note,
        ),
    )


def _drop_claim(session: Session, request: AdmissionRequest, claim: Claim) -> None:
    session.run(
        "DELETE FROM claims WHERE project = ? AND key = ? AND request_id = ? AND kept_at IS NULL",
        (request.project, claim.key, request.request_id),
    )


def _drop_reservation(session: Session, request: AdmissionRequest) -> str | None:
    """Remove it; the day it was held on."""
    gone = session.all(
        "DELETE FROM reservations WHERE project = ? AND request_id = ? RETURNING day",
        (request.project, request.request_id),
    )
    return str(gone[0][0]) if gone else None


def _finish(session: Session, request: AdmissionRequest, clock: float) -> bool:
    """Note that a call ended; False if it had ended before."""
    return bool(
        session.run(
            "INSERT INTO finished VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (request.project, request.request_id, clock),
        )
    )


def _is_finished(session: Session, request: AdmissionRequest) -> bool:
    found = session.one(
        "SELECT 1 FROM finished WHERE project = ? AND request_id = ?", (request.project, request.request_id)
    )
    return found is not None
