"""Technical limits: so many calls a minute, counted in this process alone. They shield the machine, never money."""

from __future__ import annotations

import math
from collections import deque
from datetime import datetime

from gateway.dilem.errors import RATE_LIMITED, DilemFailure

MINUTE_SECONDS = 60.0
SWEPT_EVERY = 10_000
"""Subjects remembered before those that are quiet again are forgotten."""


class MinuteLimit:
    """A sliding minute per subject (an address, an identity)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: dict[object, deque[float]] = {}
        self._sweep_at = SWEPT_EVERY

    def take(self, subject: object, now: datetime) -> None:
        """Count a call.

        Raises:
            DilemFailure: 429 `rate_limited`, with the seconds to wait.

        """
        instant = now.timestamp()
        calls = self._calls.get(subject)
        if calls is None:
            self._sweep(instant)
            calls = self._calls[subject] = deque()
        if calls and calls[-1] > instant:  # the clock was put back
            calls.clear()
        while calls and calls[0] <= instant - MINUTE_SECONDS:
            calls.popleft()
        if len(calls) >= self._most:
            first = calls[0] if calls else instant
            raise DilemFailure(RATE_LIMITED, retry_after=max(1, math.ceil(first + MINUTE_SECONDS - instant)))
        calls.append(instant)

    def _sweep(self, instant: float) -> None:
        if len(self._calls) < self._sweep_at:
            return
        quiet = [subject for subject, calls in self._calls.items() if calls[-1] <= instant - MINUTE_SECONDS]
        for subject in quiet:
            del self._calls[subject]
        self._sweep_at = max(SWEPT_EVERY, 2 * len(self._calls))
