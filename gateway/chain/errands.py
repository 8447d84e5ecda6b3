"""Work in the background that is begun again and again: so much at once, and under each key one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.domain.errors import StoreAwayError

log = logging.getLogger(__name__)


class Errands:
    """Errands of one kind; `what` is what the log calls them, in the plural."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._room = asyncio.Semaphore(most)
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin it, unless something runs under the key."""
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._run(key, work))

    async def stop(self) -> None:
        """Break all of it off."""
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with self._room:
                await work()
        except StoreAwayError as error:
            log.info("%s wait for a store: %s", self._what, error)
        except Exception:
            log.exception("%s failed and go on", self._what)
        finally:
            del self._running[key]
