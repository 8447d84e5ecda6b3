"""The brakes on guessing. An attempt is counted before it is looked at: of a burst that comes all at once, no more are
looked at than of one that comes in turn.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from gateway.core import Office
from gateway.domain.operators import normal_email

WINDOW = timedelta(minutes=15)
MOST_PER_ACCOUNT_AND_ADDRESS = 5
MOST_PER_ADDRESS = 30
MOST_PER_ACCOUNT = 50
LONGEST_NAME = 254


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that is being looked at: it stays counted until it succeeds."""

    subjects: tuple[str, str, str]
    rows: tuple[int, ...]


class Brakes:
    """Counts attempts by account and address together, by address, and by account."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def begin(self, name: str, address: str) -> Attempt | None:
        """Count an attempt; None when there were so many lately that nothing is looked at (then it does not count)."""
        sessions, now = self._office.sessions, self._office.now()
        subjects = _subjects(name, address)
        rows = await sessions.count_attempt(subjects, now)
        counts = await sessions.attempts(subjects, now - WINDOW)
        most = (MOST_PER_ACCOUNT_AND_ADDRESS, MOST_PER_ADDRESS, MOST_PER_ACCOUNT)
        if any(count > limit for count, limit in zip(counts, most, strict=True)):
            await sessions.forget_attempt(rows)
            return None
        return Attempt(subjects, rows)

    async def succeeded(self, attempt: Attempt) -> None:
        """The attempt was right: it and the account's earlier ones from there count no more."""
        await self._office.sessions.forget_attempt(attempt.rows)
        await self._office.sessions.forget_failures(attempt.subjects[0])


def _subjects(name: str, address: str) -> tuple[str, str, str]:
    known = normal_email(name) or name.strip().lower()[:LONGEST_NAME]
    return (f"both {known} {address}", f"from {address}", f"for {known}")
