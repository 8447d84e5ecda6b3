"""The number of pages of a PDF, or the sentence that refuses it.

The promise of this module: no file stops the gateway, and no project stops another. A project has at most two counts
at the same time and there are twice as many processes, so one project's hostile files leave room for the rest.

An encrypted PDF is refused even when it opens without a password: the provider doesn't read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from gateway.attachments.processes import CountingAwayError, CountingProcesses
from gateway.attachments.refusals import unreadable
from gateway.attachments.verdicts import Outcome
from gateway.domain.errors import STORE_UNAVAILABLE, TOO_MANY_REQUESTS, Failure

COUNTS_PER_PROJECT = 2
PATIENCE_SECONDS = 10.0
RETRY_SECONDS = 5

_PROBLEMS = {
    Outcome.ENCRYPTED: "è un PDF protetto da password o cifrato: va salvato senza protezione",
    Outcome.DAMAGED: "è un PDF danneggiato o incompleto",
    Outcome.NO_PAGES: "è un PDF senza pagine",
    Outcome.TOO_COMPLEX: "è un PDF danneggiato o troppo complesso da leggere",
    Outcome.TOO_SLOW: "è un PDF danneggiato o troppo complesso da leggere",
    Outcome.CRASHED: "è un PDF danneggiato o troppo complesso da leggere",
}


class PageCounter:
    """Counts the pages of projects' PDFs, a few at a time.

    Args:
        processes: Who counts; by default the usual processes.
        patience: Seconds that a file may wait for its turn.

    """

    def __init__(
        self, processes: CountingProcesses | None = None, *, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._processes = processes or CountingProcesses()
        self._patience = patience
        # An entry lives as long as somebody counts or waits for it.
        self._projects: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def count(self, project: str, name: str, text: str) -> int:
        """Give the number of pages, at least 1, of a base64 PDF.

        Raises:
            Failure: 400, it can't be read; 429, the project's other files take too long; 503, nobody could count.

        """
        async with self._turn(project):
            try:
                verdict = await self._processes.count(text)
            except CountingAwayError as error:
                raise Failure(STORE_UNAVAILABLE, retry_after=RETRY_SECONDS, reason=str(error)) from None
        if verdict.outcome is not Outcome.COUNTED:
            raise unreadable(name, _PROBLEMS[verdict.outcome])
        return verdict.pages

    async def aclose(self) -> None:
        """End the counting processes."""
        await self._processes.aclose()

    @asynccontextmanager
    async def _turn(self, project: str) -> AsyncIterator[None]:
        counts = self._projects.setdefault(project, asyncio.Semaphore(COUNTS_PER_PROJECT))
        try:
            async with asyncio.timeout(self._patience):
                await counts.acquire()
        except TimeoutError:
            raise Failure(
                TOO_MANY_REQUESTS,
                "Il progetto ha già altri PDF in lettura: riprovare fra qualche secondo.",
                retry_after=RETRY_SECONDS,
                reason="waited too long for the project's other page counts",
            ) from None
        try:
            yield
        finally:
            counts.release()
