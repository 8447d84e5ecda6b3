"""What is not part of a call: orphans, dead processes, a removed project, and sweeping out what has expired."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from gateway.keyvalue.sqlite.admission import purge_window
from gateway.keyvalue.sqlite.schema import TABLES
from gateway.ports import KEPT_SECONDS, RESERVATION_SECONDS, WINDOW_SECONDS, Orphan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.keyvalue.sqlite.session import Session

FINISHED_SECONDS = 600
"""How long a settled or released call is remembered as such."""

_SWEEP_SECONDS = 1
_SWEEP_ROWS = 2_000
"""Of each kind, by each process: it keeps pace with as many calls a second."""
_EXPIRED_CLAIM_SECONDS = 600
"""A claim that nobody renewed nor took over for so long is swept out."""
_GRACE_SECONDS = 3_600
"""Business time by which the sweep stays behind: another process may have read its clock earlier."""


def orphans(session: Session, limit: int) -> Sequence[Orphan]:
    """See `Gate.orphans`."""
    clock = time.time()
    owners = [owner for (owner,) in session.all("SELECT DISTINCT owner FROM reservations")]
    gone = [owner for owner in owners if session.is_free(owner, clock + 1, clock)]
    found = session.all(
        "UPDATE reservations SET owner = ?, lease = ?, handed = 1 WHERE (project, request_id) IN ("
        "SELECT project, request_id FROM reservations"
        " WHERE lease <= ? OR owner IN (SELECT value FROM json_each(?)) ORDER BY lease LIMIT ?)"
        " RETURNING project, request_id, day, epoch, record",
        (session.owner, clock + RESERVATION_SECONDS, clock, json.dumps(gone), limit),
    )
    return [Orphan(*row) for row in found]


def generation(session: Session, project: str) -> int:
    """See `Gate.generation`."""
    found = session.one("SELECT number FROM generations WHERE project = ?", (project,))
    return 0 if found is None else int(found[0])


def forget_answers(session: Session, project: str) -> None:
    """See `Gate.forget_answers`."""
    session.run(
        "INSERT INTO generations VALUES (?, 1) ON CONFLICT (project) DO UPDATE SET number = number + 1",
        (project,),
    )
    session.run("DELETE FROM answers WHERE project = ?", (project,))


def forget_project(session: Session, project: str) -> None:
    """See `Gate.forget_project`."""
    for table in TABLES:
        session.run(f"DELETE FROM {table} WHERE project = ?", (project,))  # noqa: S608 - a constant


def free_the_dead(session: Session) -> None:
    """Drop the claims of processes that are gone; their reservations are orphans for whoever asks."""
    for owner in session.bury_the_dead():
        session.run("DELETE FROM claims WHERE owner = ? AND kept_at IS NULL", (owner,))


def sweep(session: Session, now: float) -> None:
    """Remove some of what has expired, at most every `_SWEEP_SECONDS`; `now` is business time."""
    clock = time.time()
    if clock - session.swept_at < _SWEEP_SECONDS:
        return
    session.swept_at = clock
    for table, column, where, before in (
        ("claims", "kept_at", "kept_at IS NOT NULL", now - KEPT_SECONDS - _GRACE_SECONDS),
        ("claims", "lease", "kept_at IS NULL", clock - _EXPIRED_CLAIM_SECONDS),
        ("answers", "expires", "true", now - _GRACE_SECONDS),
    ):
        session.run(
            f"DELETE FROM {table} WHERE rowid IN"  # noqa: S608 - constants
            f" (SELECT rowid FROM {table} WHERE {where} AND {column} <= ? LIMIT {_SWEEP_ROWS})",
            (before,),
        )
    session.run(
        "DELETE FROM finished WHERE (project, request_id) IN"
        " (SELECT project, request_id FROM finished WHERE at <= ? LIMIT ?)",
        (clock - FINISHED_SECONDS, _SWEEP_ROWS),
    )
    # Windows of projects that no longer call: one project at a time, in turn.
    project = session.one(
        "SELECT project FROM windows WHERE size > 0 AND project > ? ORDER BY project LIMIT 1",
        (session.swept_project,),
    )
    session.swept_project = "" if project is None else project[0]
    if project is not None:
        purge_window(session, project[0], now - WINDOW_SECONDS - _GRACE_SECONDS)
