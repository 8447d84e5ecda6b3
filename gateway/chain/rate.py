"""The limit of the addresses that do not count for the hourly limit: calls a minute and project, in this process."""

from __future__ import annotations

import math
import time
from collections import deque

from gateway.domain.errors import TOO_MANY_REQUESTS, Failure

CALLS_PER_MINUTE = 600
MINUTE_SECONDS = 60.0


class RateLimit:
    """A sliding minute per project."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[float]] = {}

    def take(self, project: str) -> None:
        """Count a call.

        Raises:
            Failure: 429 with the seconds to wait.

        """
        now = time.monotonic()
        calls = self._calls.setdefault(project, deque())
        while calls and calls[0] <= now - MINUTE_SECONDS:
            calls.popleft()
        if len(calls) >= CALLS_PER_MINUTE:
            raise Failure(TOO_MANY_REQUESTS, retry_after=max(1, math.ceil(calls[0] + MINUTE_SECONDS - now)))
        calls.append(now)
