"""Admission in one transaction: every check comes before the first write, so a refusal leaves no trace."""

from __future__ import annotations

import math
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

from gateway.ports import (
    CLAIM_SECONDS,
    KEPT_SECONDS,
    RESERVATION_SECONDS,
    WINDOW_SECONDS,
    Admitted,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Earlier,
    Interrupted,
    LimitReached,
    Mismatch,
    TotalUnknown,
)

if TYPE_CHECKING:
    from gateway.keyvalue.sqlite.session import Session
    from gateway.ports import AdmissionRequest, Claim, Terms, Verdict

_PURGE_ROWS = 5_000
"""Expired window entries removed by one admission, so that none takes long."""
_TOKEN_BYTES = 9

# Everything a decision needs, in one statement: each further one would hand the interpreter's lock to and fro.
_LOOK = """
SELECT
    c.fingerprint, c.request_id, c.owner, c.lease, c.kept_at, c.answer, c.note,
    EXISTS (SELECT 1 FROM entries WHERE project = :project AND request_id = :request_id),
    (SELECT size FROM windows WHERE project = :project),
    (SELECT at FROM entries WHERE project = :project ORDER BY at LIMIT 1),
    a.answer,
    EXISTS (SELECT 1 FROM reservations WHERE project = :project AND request_id = :request_id),
    d.epoch, d.spent, d.token, d.reserved, d.running,
    EXISTS (SELECT 1 FROM finished WHERE project = :project AND request_id = :request_id),
    coalesce((SELECT number FROM generations WHERE project = :project), 0)
FROM (SELECT 1)
LEFT JOIN claims c ON c.project = :project AND c.key = :key
LEFT JOIN answers a ON a.project = :project AND a.key = :cache_key AND a.expires > :now
    AND a.generation = coalesce((SELECT number FROM generations WHERE project = :project), 0)
LEFT JOIN days d ON d.project = :project AND d.day = :day
"""


class _Seen(NamedTuple):
    """The columns of `_LOOK`."""

    claim_fingerprint: str | None
    claim_request_id: str | None
    claim_owner: str
    claim_lease: float
    kept_at: float | None
    kept_answer: bytes
    note: bytes | None
    counted: int
    window_size: int | None
    oldest_at: float | None
    cached_answer: bytes | None
    reserved_already: int
    epoch: int | None
    spent: int | None
    token: str | None
    reserved: int | None
    running: int | None
    finished: int
    generation: int


def earlier(
    session: Session, project: str, claim: Claim, now: float
) -> Earlier | Interrupted | Mismatch | None:
    """See `Gate.earlier`."""
    found = session.one(
        "SELECT fingerprint, owner, lease, kept_at, answer, note FROM claims WHERE project = ? AND key = ?",
        (project, claim.key),
    )
    if found is None:
        return None
    fingerprint, owner, lease, kept_at, answer, note = found
    if kept_at is None:
        taken = fingerprint != claim.fingerprint and not session.is_free(owner, lease, time.time())
        return Mismatch() if taken else None
    if now >= kept_at + KEPT_SECONDS:
        return None
    if fingerprint != claim.fingerprint:
        return Mismatch()
    return Earlier(answer, cached=False) if note is None else Interrupted(note)


def admit(session: Session, request: AdmissionRequest) -> Verdict:
    """See `Gate.admit`."""
    clock = time.time()
    terms = request.terms
    seen = _Seen(
        *session.one(
            _LOOK,
            {
                "project": request.project,
                "request_id": request.request_id,
                "key": None if request.claim is None else request.claim.key,
                "cache_key": request.cache_key,
                "now": request.now,
                "day": None if terms is None else terms.day,
            },
        )
    )
    verdict = (
        _check_claim(session, request, seen, clock)
        or _check_window(session, request, seen)
        or (None if seen.cached_answer is None else Earlier(seen.cached_answer, cached=True))
        or (None if terms is None else _check_budget(session, request, terms, seen))
        or Admitted(seen.generation)
    )
    match verdict:
        case Admitted():
            _take_place(session, request, seen, clock)
            if terms is not None and not seen.reserved_already:
                reserve(session, request, terms, clock)
        case Earlier(cached=True):
            _take_place(session, request, seen, clock)
    return verdict


def claim_for(session: Session, request: AdmissionRequest, claim: Claim, clock: float) -> None:
    """Write the claim of a running call, over whatever was there."""
    session.run(
        "REPLACE INTO claims (project, key, fingerprint, request_id, owner, lease) VALUES (?, ?, ?, ?, ?, ?)",
        (
            request.project,
            claim.key,
            claim.fingerprint,
            request.request_id,
            session.owner,
            clock + CLAIM_SECONDS,
        ),
    )


def reserve(session: Session, request: AdmissionRequest, terms: Terms, clock: float) -> None:
    """Write the reservation of a running call; the day's sums follow by trigger."""
    session.run(
        "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            request.project,
            request.request_id,
            terms.day,
            terms.epoch,
            terms.worst_case,
            terms.record,
            session.owner,
            clock + RESERVATION_SECONDS,
        ),
    )


def purge_window(session: Session, project: str, horizon: float) -> int:
    """Remove expired entries, a bounded number; how many went."""
    return session.run(
        "DELETE FROM entries WHERE project = ?1 AND request_id IN"
        " (SELECT request_id FROM entries WHERE project = ?1 AND at <= ?2 ORDER BY at LIMIT ?3)",
        (project, horizon, _PURGE_ROWS),
    )


def _take_place(session: Session, request: AdmissionRequest, seen: _Seen, clock: float) -> None:
    if request.hourly_limit is not None and not seen.counted:
        session.run(
            "INSERT INTO entries VALUES (?, ?, ?)", (request.project, request.request_id, request.now)
        )
    if request.claim is not None:
        claim_for(session, request, request.claim, clock)
    if seen.finished:
        session.run(
            "DELETE FROM finished WHERE project = ? AND request_id = ?", (request.project, request.request_id)
        )


def _check_claim(
    session: Session, request: AdmissionRequest, seen: _Seen, clock: float
) -> Earlier | Interrupted | Busy | Mismatch | None:
    if request.claim is None or seen.claim_fingerprint is None:
        return None
    same = seen.claim_fingerprint == request.claim.fingerprint
    if seen.kept_at is not None:
        if request.now >= seen.kept_at + KEPT_SECONDS:
            return None
        if not same:
            return Mismatch()
        if seen.note is None:
            return Earlier(seen.kept_answer, cached=False)
        return Interrupted(seen.note) if request.claim.waited else None
    if seen.claim_request_id == request.request_id or session.is_free(
        seen.claim_owner, seen.claim_lease, clock
    ):
        return None
    return Busy() if same else Mismatch()


def _check_window(session: Session, request: AdmissionRequest, seen: _Seen) -> LimitReached | None:
    limit = request.hourly_limit
    if limit is None or seen.counted:
        return None
    if limit <= 0:
        return LimitReached(WINDOW_SECONDS)
    horizon = request.now - WINDOW_SECONDS
    size = seen.window_size or 0
    if seen.oldest_at is not None and seen.oldest_at <= horizon:
        size -= purge_window(session, request.project, horizon)
    if size < limit:
        return None
    (expired,) = session.one(
        "SELECT count(*) FROM entries WHERE project = ? AND at <= ?", (request.project, horizon)
    )
    size -= expired
    if size < limit:
        return None
    (decisive,) = session.one(
        "SELECT at FROM entries WHERE project = ? AND at > ? ORDER BY at LIMIT 1 OFFSET ?",
        (request.project, horizon, size - limit),
    )
    return LimitReached(max(1, math.ceil(decisive + WINDOW_SECONDS - request.now)))


def _check_budget(
    session: Session, request: AdmissionRequest, terms: Terms, seen: _Seen
) -> TotalUnknown | BudgetSpent | BudgetHeld | None:
    if terms.cap is None or seen.reserved_already:
        return None
    if seen.spent is None or seen.epoch != terms.epoch:
        token = seen.token or _new_token(session, request.project, terms.day)
        return TotalUnknown(token, traced=seen.reserved is not None)
    if seen.spent >= terms.cap:
        return BudgetSpent()
    fits = seen.spent + (seen.reserved or 0) + terms.worst_case <= terms.cap
    if not fits and (seen.running or terms.strict):
        return BudgetHeld()
    return None


def _new_token(session: Session, project: str, day: str) -> str:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    session.run(
        "INSERT INTO days (project, day, token) VALUES (?, ?, ?)"
        " ON CONFLICT (project, day) DO UPDATE SET token = excluded.token",
        (project, day, token),
    )
    return token
