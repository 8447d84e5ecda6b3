"""The hourly limit while the key-value store is away: counted by this process alone, so that calls go on."""

from __future__ import annotations

import math
from collections import deque

from gateway.ports import WINDOW_SECONDS


class LocalWindow:
    """A sliding window per project, in memory."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[tuple[float, str]]] = {}

    def take(self, project: str, request_id: str, limit: int, now: float) -> int | None:
        """Count a call in; or give the seconds after which the next one fits."""
        calls = self._calls.setdefault(project, deque())
        while calls and calls[0][0] <= now - WINDOW_SECONDS:
            calls.popleft()
        if len(calls) >= limit:
            oldest = calls[len(calls) - limit][0] if limit else now
            return max(1, math.ceil(oldest + WINDOW_SECONDS - now))
        calls.append((now, request_id))
        return None

    def give_back(self, project: str, request_id: str) -> None:
        """Forget a call that spent nothing."""
        calls = self._calls.get(project)
        if calls is not None:
            self._calls[project] = deque(entry for entry in calls if entry[1] != request_id)
