"""How deferred work ends: asked for at its provider, settled, undone, or given up. Whoever asks, it ends once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from gateway.chain.batch_row import cost_of, ledger_record, new_notice, state_of
from gateway.chain.current import Current
from gateway.chain.leases import Leases
from gateway.domain.batches import (
    Batch,
    BatchState,
    Ended,
    Gone,
    ItemFailure,
    ItemOutcome,
    ItemTrouble,
    Running,
)
from gateway.domain.calls import Outcome
from gateway.domain.clock import Clock
from gateway.domain.errors import PROVIDER_UNAVAILABLE, Failure, StoreAwayError
from gateway.ports import BatchProvider, Gate, ProviderError
from gateway.storage.batches import Batches

KEPT = timedelta(days=30)
UNCLAIMED = timedelta(days=29)
LOST_AFTER = timedelta(hours=25)
UNSENT = timedelta(minutes=2)
"""A batch that nobody has begun to send for so long has lost its process."""
POLL_SECONDS = 20
RETRY_AFTER = 20

log = logging.getLogger(__name__)


class Closing:
    """Ends batches."""

    def __init__(
        self,
        *,
        current: Current,
        leases: Leases,
        gate: Gate,
        batches: Batches,
        providers: Mapping[str, BatchProvider],
        now: Clock,
    ) -> None:
        self._current = current
        self._leases = leases
        self._gate = gate
        self._batches = batches
        self._providers = providers
        self._now = now
        self._refused: dict[str, Batch] = {}

    async def look(self, batch: Batch) -> bool:
        """Ask the provider about a running batch, if it is its turn; True if it has ended, is written and paid.

        Raises:
            Failure: 503, the provider cannot be asked now.

        """
        now = self._now()
        if not await self._batches.take_turn(batch.project, batch.number, now, POLL_SECONDS):
            return False
        return await self._advance(batch, now)

    async def cancel(self, batch: Batch) -> None:
        """Undo a batch that nobody took, now or as soon as the database answers."""
        try:
            await self._batches.cancel(batch.project, batch.number)
        except StoreAwayError as error:
            self._refused[batch.number] = batch
            log.warning("a batch could not be cancelled: %s", error, extra={"request": batch.request_id})
        await self.forget_total(batch)

    async def sweep(self) -> None:
        """Undo what could not be cancelled, and what a process that died had not begun to send."""
        for batch in tuple(self._refused.values()):
            await self._batches.cancel(batch.project, batch.number)
            del self._refused[batch.number]
            await self.forget_total(batch)
        for batch in await self._batches.release_unsent(self._now() - UNSENT):
            log.warning("a batch was never sent and is undone", extra={"request": batch.request_id})
            await self.forget_total(batch)

    async def close_old(self) -> None:
        """Book what nobody collected for 29 days as it was reserved, and forget what is older than 30."""
        now = self._now()
        for batch in await self._batches.unsettled_before(now - UNCLAIMED):
            unclaimed = (ItemFailure(ItemTrouble.UNCLAIMED),) * batch.total
            log.warning("a batch was never collected and is booked as reserved: %s", batch.number)
            await self._settle(batch, unclaimed, BatchState.EXPIRED, Outcome.LOST, batch.reserved)
        await self._batches.delete_older_than(now - KEPT)

    async def forget_total(self, batch: Batch) -> bool:
        """The day's total has changed in the database: the gate reads it anew. False if it could not be told."""
        try:
            self._leases.require_gate()
            await self._gate.forget_total(batch.project, batch.day.isoformat())
        except StoreAwayError:
            await self._leases.gate_lost()
            return False
        return True

    async def _advance(self, batch: Batch, now: datetime) -> bool:
        provider = self._providers[batch.target.provider]
        try:
            provider_id = batch.provider_id or await self._find(provider, batch)
            if provider_id is None:
                if now - batch.created_at < LOST_AFTER:
                    return False
                return await self._end(batch, {}, ItemTrouble.MISSING)
            polled = await provider.poll(
                provider_id, batch.number, batch.total, shape=batch.shape, documents=batch.documents
            )
        except ProviderError as error:
            log.warning(
                "a batch could not be asked for: %s", error.reason, extra={"request": batch.request_id}
            )
            raise Failure(PROVIDER_UNAVAILABLE, retry_after=RETRY_AFTER, reason=error.reason) from error
        match polled:
            case Running():
                return False
            case Gone():
                return await self._end(batch, {}, ItemTrouble.MISSING)
            case Ended(outcomes):
                return await self._end(batch, outcomes, ItemTrouble.MISSING)

    async def _find(self, provider: BatchProvider, batch: Batch) -> str | None:
        held = await self._batches.held_ids(batch.target.provider)
        found = await provider.find(batch.number, batch.sent_at or batch.created_at, batch.total, held)
        if found is None or await self._batches.sent(batch.project, batch.number, found):
            return found
        return None  # it is another row's

    async def _end(self, batch: Batch, outcomes: Mapping[int, ItemOutcome], otherwise: ItemTrouble) -> bool:
        """Write the outcomes in the order of the texts, and what they cost."""
        ordered = tuple(outcomes.get(position) or ItemFailure(otherwise) for position in range(batch.total))
        price = self._current.snapshot.price(batch.target.provider, batch.target.model)
        cost = sum(cost_of(price, outcome) for outcome in ordered)
        state = state_of(ordered)
        outcome = Outcome.OK if state is BatchState.READY else Outcome.FAILED
        return await self._settle(batch, ordered, state, outcome, cost)

    async def _settle(
        self, batch: Batch, outcomes: tuple[ItemOutcome, ...], state: BatchState, outcome: Outcome, cost: int
    ) -> bool:
        ended = msgspec.structs.replace(batch, outcomes=outcomes, state=state, settled_at=self._now())
        price = self._current.snapshot.price(batch.target.provider, batch.target.model)
        await self._batches.settle(ended, ledger_record(ended, outcome, cost, price), new_notice())
        await self.forget_total(batch)
        return True
