"""One duty of this process among all that share the database: whether it is its own just now, asked as seldom as may be."""

from __future__ import annotations

import time

from gateway.storage.duties import Duties

LEASE_SECONDS = 15.0
"""So long a duty stays with a process that doesn't say any more that it lives."""
ASK_SECONDS = 5.0


class Duty:
    """A lease that is kept while somebody asks for it."""

    def __init__(self, duties: Duties, name: str, holder: str) -> None:
        self._duties = duties
        self._name = name
        self._holder = holder
        self._until = 0.0
        self._ask_at = 0.0

    async def is_mine(self) -> bool:
        """Whether this process is the one. Doubtful cases are not its own.

        Raises:
            StoreAwayError: The database does not answer.

        """
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask_at = now + ASK_SECONDS
            mine = await self._duties.take(self._name, self._holder, LEASE_SECONDS)
            # From before the question: by then the database may have counted longer.
            self._until = now + LEASE_SECONDS if mine else 0.0
        return time.monotonic() < self._until

    async def leave(self) -> None:
        """Let another process have it at once.

        Raises:
            StoreAwayError: It passes by itself.

        """
        if self._until:
            self._until = 0.0
            await self._duties.leave(self._name, self._holder)
