"""The ledger's one writer in this process: concurrent rows share a commit, and no answer leaves before its row is safe.

Safe is: committed in the database, or, when that has not been possible for five seconds, appended to the spool and
synced to the disk, to be imported when the database is back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto

import msgspec

from gateway.domain.errors import StoreAwayError
from gateway.storage.calls import Calls, LedgerEntry
from gateway.storage.spool import Spool

TRY_SECONDS = 5.0
PAUSE_SECONDS = 0.2
LEAST_SECONDS = 0.5
"""What a try gets that begins when the time is up already."""
MOST_ROWS_PER_COMMIT = 200

log = logging.getLogger(__name__)


class Durability(Enum):
    """Where a row came to rest."""

    COMMITTED = auto()
    SPOOLED = auto()


class Ledger:
    """Writes rows in the order they come, as many at once as have come together."""

    def __init__(self, calls: Calls, spool: Spool, lost: Callable[[], None]) -> None:
        """Begin with nothing waiting; `lost` is told when the database did not take rows for too long."""
        self._lost = lost
        self._calls = calls
        self._spool = spool
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._away = False
        self._unwritten: list[LedgerEntry] = []

    async def write(self, entry: LedgerEntry) -> Durability:
        """Return when the row is safe.

        A conversation pair that rides along is committed with the row or, if the row had to be spooled, not at all:
        the spool holds no contents.

        Raises:
            StoreAwayError: Neither the database nor the spool took it.

        """
        future: asyncio.Future[Durability] = asyncio.get_running_loop().create_future()

        def told(result: Durability | Exception) -> None:
            if future.done():  # a task that was cancelled waits no longer
                return
            if isinstance(result, Durability):
                future.set_result(result)
            else:
                future.set_exception(result)

        self.put(entry, told)
        return await future

    def put(self, entry: LedgerEntry, told: Callable[[Durability | Exception], None]) -> None:
        """`write` without waiting: `told` is called with what came of it, and must not fail."""
        self._waiting.append(_Waiting(entry, told))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())

    async def import_spool(self) -> None:
        """Commit what was spooled. Called whenever the database answers; costs nothing when there is nothing.

        Raises:
            StoreAwayError: It went away again; what was not committed stays in the spool.

        """
        if self._unwritten:
            entries = [
                msgspec.structs.replace(entry, pair=None) for entry in self._unwritten[:MOST_ROWS_PER_COMMIT]
            ]
            await self._calls.commit(entries, again=True)
            del self._unwritten[: len(entries)]
        await self._spool.drain(lambda entries: self._calls.commit(entries, again=True))
        self._away = False

    async def drained(self) -> None:
        """Return when nothing is waiting to be written."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:MOST_ROWS_PER_COMMIT]
                del self._waiting[: len(batch)]
                await self._write_batch(batch)
        finally:
            self._writing = None

    async def _write_batch(self, batch: Sequence[_Waiting]) -> None:
        """Write rows together; if that fails for another reason than the store, each alone, so that one row can't harm the rest."""
        try:
            result = await self._write([each.entry for each in batch], oldest=batch[0].since)
        except StoreAwayError as error:
            for each in batch:
                each.told(error)
        except Exception as error:
            log.exception("a ledger commit failed")
            if len(batch) == 1:
                batch[0].told(error)
                return
            for each in batch:
                await self._write_batch([each])
        else:
            for each in batch:
                each.told(result)

    async def _write(self, entries: Sequence[LedgerEntry], oldest: float) -> Durability:
        again = False
        while not self._away:
            left = oldest + TRY_SECONDS - time.monotonic()
            try:
                # A store that hangs must not keep the callers longer than one that is gone.
                async with asyncio.timeout(max(left, LEAST_SECONDS)):
                    await self._calls.commit(entries, again=again)
            except (StoreAwayError, TimeoutError) as error:
                again = True
                if time.monotonic() - oldest >= TRY_SECONDS:
                    log.warning("the ledger goes to the spool: %s", error or "the database hangs")
                    self._away = True
                    self._lost()
                else:
                    await asyncio.sleep(PAUSE_SECONDS)
            else:
                return Durability.COMMITTED
        try:
            await self._spool.append([msgspec.structs.replace(entry, pair=None) for entry in entries])
        except OSError as error:
            self._unwritten.extend(entries)  # this process still knows of them
            raise StoreAwayError(f"neither database nor spool takes the ledger: {error.strerror}") from error
        return Durability.SPOOLED


class _Waiting:
    """A row that waits to be safe, and who is told."""

    __slots__ = ("entry", "since", "told")

    def __init__(self, entry: LedgerEntry, told: Callable[[Durability | Exception], None]) -> None:
        self.entry = entry
        self.since = time.monotonic()
        self.told = told
