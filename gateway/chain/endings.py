"""The end of a call: its row made safe, then its lease settled, whatever becomes of the task that waits for it.

Calls that end together have one commit and one round trip to the gate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from gateway.chain.leases import Lease, Leases
from gateway.chain.ledger import Durability, Ledger
from gateway.domain.errors import StoreAwayError
from gateway.ports import Settlement
from gateway.storage.calls import LedgerEntry

SettlementOf: TypeAlias = Callable[[Durability | None], Settlement | None]
"""What the gate is told, by where the row came to rest (None: nowhere); None is said of a call that spent nothing, and
was never made: its admission is undone.
"""

log = logging.getLogger(__name__)


class Endings:
    """Ends calls."""

    def __init__(self, ledger: Ledger, leases: Leases) -> None:
        self._ledger = ledger
        self._leases = leases
        self._open = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._safe: list[_Ending] = []
        """Their rows are; their leases are settled next."""
        self._settling: set[asyncio.Task[None]] = set()

    async def end(self, entry: LedgerEntry, lease: Lease, settlement_of: SettlementOf) -> Durability:
        """Return when the row is safe and the lease has ended.

        Raises:
            StoreAwayError: Neither the database nor the spool took the row; the lease has ended all the same.

        """
        ending = _Ending(lease, settlement_of)
        self._open += 1
        self._quiet.clear()
        self._ledger.put(entry, lambda result: self._written(ending, result))
        return await ending.told

    async def ended(self) -> None:
        """Return when every call that began to end has ended."""
        await self._quiet.wait()

    def _written(self, ending: _Ending, result: Durability | Exception) -> None:
        ending.result = result
        if not self._safe:
            ending.told.get_loop().call_soon(self._settle_safe)
        self._safe.append(ending)

    def _settle_safe(self) -> None:
        endings, self._safe = self._safe, []
        task = asyncio.create_task(self._conclude(endings))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _conclude(self, endings: Sequence[_Ending]) -> None:
        try:
            await self._settle(endings)
        finally:
            for ending in endings:
                ending.tell()
            self._open -= len(endings)
            if not self._open:
                self._quiet.set()

    async def _settle(self, endings: Sequence[_Ending]) -> None:
        """Settle together; if that fails for another reason than the store, each alone, so that one can't harm the rest."""
        try:
            settlements = [ending.settlement() for ending in endings]
            await self._leases.settle(*filter(None, settlements))
            for ending, settlement in zip(endings, settlements, strict=True):
                if settlement is None:
                    await self._leases.release(ending.lease)
        except Exception as error:
            if len(endings) > 1:
                for ending in endings:
                    await self._settle([ending])
                return
            log.exception("a call could not be settled")
            endings[0].result = error


class _Ending:
    """A call that ends, and who waits for it."""

    __slots__ = ("_settlement_of", "lease", "result", "told")

    def __init__(self, lease: Lease, settlement_of: SettlementOf) -> None:
        self.lease = lease
        self.told: asyncio.Future[Durability] = asyncio.get_running_loop().create_future()
        self.result: Durability | Exception = StoreAwayError("the row was not written")
        self._settlement_of = settlement_of

    def settlement(self) -> Settlement | None:
        return self._settlement_of(self.result if isinstance(self.result, Durability) else None)

    def tell(self) -> None:
        if self.told.done():  # a task that was cancelled waits no longer
            return
        if isinstance(self.result, Durability):
            self.told.set_result(self.result)
        else:
            self.told.set_exception(self.result)
