"""What a serving process does besides answering: it looks for changes, keeps leases, buries the dead, says it lives.

Each loop survives the absence of any store and goes on when it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from gateway.chain.authenticate import Authenticator
from gateway.chain.batch_closing import Closing
from gateway.chain.budget import BudgetJudge
from gateway.chain.current import Current
from gateway.chain.leases import Leases
from gateway.chain.ledger import Ledger
from gateway.chain.library import Library
from gateway.chain.memory import Memory
from gateway.chain.notifying import Notifying
from gateway.domain.calls import CallRecord
from gateway.domain.clock import Clock
from gateway.domain.errors import StoreAwayError
from gateway.ports import AdmissionRequest, Gate, Orphan, Settlement, Terms
from gateway.storage.calls import Calls, LedgerEntry
from gateway.storage.nodes import Node, Nodes
from gateway.storage.tenants import Tenants

WATCH_SECONDS = 1.0
RENEW_SECONDS = 2.0
SWEEP_SECONDS = 5.0
NOTIFY_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
RETENTION_SECONDS = 3_600.0
MOST_FIRST_PAUSE_SECONDS = 60.0

log = logging.getLogger(__name__)


class Upkeep:
    """The loops of one process."""

    def __init__(
        self,
        *,
        current: Current,
        judge: BudgetJudge,
        leases: Leases,
        ledger: Ledger,
        authenticator: Authenticator,
        memory: Memory,
        closing: Closing,
        notifying: Notifying,
        library: Library,
        gate: Gate,
        calls: Calls,
        nodes: Nodes,
        tenants: Tenants,
        node: Node,
        now: Clock,
        more: Sequence[tuple[Callable[[], Awaitable[None]], float]] = (),
    ) -> None:
        self._current = current
        self._judge = judge
        self._leases = leases
        self._ledger = ledger
        self._authenticator = authenticator
        self._memory = memory
        self._closing = closing
        self._notifying = notifying
        self._library = library
        self._gate = gate
        self._calls = calls
        self._nodes = nodes
        self._tenants = tenants
        self._node = node
        self._now = now
        self._more = more
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Look once, then begin the loops."""
        with suppress(StoreAwayError):
            await self.watch()
        loops: Sequence[tuple[Callable[[], Awaitable[None]], float]] = (
            (self.watch, WATCH_SECONDS),
            (self._leases.renew, RENEW_SECONDS),
            (self.sweep, SWEEP_SECONDS),
            (self._closing.sweep, SWEEP_SECONDS),
            (self._notifying.work, NOTIFY_SECONDS),
            (self.beat, HEARTBEAT_SECONDS),
            (self.forget, RETENTION_SECONDS),
            *self._more,
        )
        self._tasks = [asyncio.create_task(_forever(work, pause)) for work, pause in loops]

    async def stop(self) -> None:
        """End the loops and take this process out of the nodes' table."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._notifying.stop()
        try:
            await self._authenticator.write_uses()
            await self._nodes.unregister(self._node.id)
        except StoreAwayError as error:
            log.warning("the node could not take its leave: %s", error)

    async def watch(self) -> None:
        """Take over what changed in the database; once it answers, hand it what was spooled."""
        installation = await self._current.refresh()
        if installation is None:
            return
        if self._judge.adopt(installation):
            await self._leases.write_to_database()
        await self._ledger.import_spool()

    async def beat(self) -> None:
        """Say that this process lives, and which keys were used."""
        if not await self._nodes.heartbeat(self._node.id):
            await self._nodes.register(self._node)
        await self._authenticator.write_uses()

    async def sweep(self) -> None:
        """Charge the calls whose process died, and end their reservations."""
        for orphan in await self._gate.orphans():
            await self._bury(orphan)
        for reservation in await self._calls.orphan_reservations():
            if not reservation.record:
                await self._calls.release_reservations(reservation.project, [reservation.request_id])
                continue
            record = msgspec.json.decode(reservation.record, type=CallRecord)
            await self._calls.commit([LedgerEntry(record=record, reserved_in_database=True)], again=True)

    async def forget(self) -> None:
        """Delete what is past its retention, names of removed projects that a late row brought back, stale passages."""
        await self._memory.forget_old(self._now())
        await self._tenants.anonymise_strays()
        await self._closing.close_old()
        await self._notifying.forget_old()
        await self._library.sweep()

    async def _bury(self, orphan: Orphan) -> None:
        if not orphan.record:  # deferred work, which the database knows all about
            await self._gate.forget_total(orphan.project, orphan.day)
            await self._end(orphan, 0)
            return
        record = msgspec.json.decode(orphan.record, type=CallRecord)
        new = await self._calls.commit([LedgerEntry(record=record, reserved_in_database=True)], again=True)
        if not new:  # its row was written before its process died: that one counts
            found = await self._calls.find_call(record.project, record.request_id)
            record = found or msgspec.structs.replace(record, cost=0)
        else:
            log.warning("a call was lost with its process", extra={"request": record.request_id})
        await self._end(orphan, record.cost)

    async def _end(self, orphan: Orphan, cost: int) -> None:
        terms = Terms(day=orphan.day, epoch=orphan.epoch, cap=None, worst_case=0, record=orphan.record)
        request = AdmissionRequest(
            project=orphan.project, request_id=orphan.request_id, now=self._now().timestamp(), terms=terms
        )
        await self._gate.settle(Settlement(request=request, cost=cost, now=self._now().timestamp()))


async def _forever(work: Callable[[], Awaitable[None]], pause: float) -> None:
    first = min(pause, MOST_FIRST_PAUSE_SECONDS)
    while True:
        await asyncio.sleep(first)
        first = pause
        try:
            await work()
        except StoreAwayError as error:
            log.info("upkeep waits for a store: %s", error)
        except Exception:
            log.exception("upkeep failed and goes on")
