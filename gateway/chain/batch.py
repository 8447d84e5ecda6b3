"""The deferred sentence: work handed in once, at half the price, and collected when somebody comes for it.

Nothing is lost and nothing is paid twice: the batch's row stands before the provider is asked, a submission is sent
once, and what came of it is written, paid and told from one transaction.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from gateway.chain.admit import Admission, Admitting
from gateway.chain.batch_row import begun, cost_of, ledger_record, state_of
from gateway.chain.current import Current
from gateway.chain.leases import Leases
from gateway.chain.plan import Plan, Planner
from gateway.chain.prepare import prepare
from gateway.chain.provide import BACKOFF_SECONDS, BAD_REQUEST, LONGEST_RETRY_AFTER_SECONDS
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
from gateway.domain.completion import CompletionRequest
from gateway.domain.errors import (
    BUDGET_EXHAUSTED,
    INVALID_DOCUMENT,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    TOO_MANY_BATCHES,
    UNAUTHORIZED,
    UNKNOWN_BATCH,
    Failure,
    StoreAwayError,
)
from gateway.domain.limits import MAX_OPEN_BATCHES
from gateway.domain.money import dollars
from gateway.domain.tenants import Scope
from gateway.ports import BatchProvider, Gate, ProviderError, Settlement
from gateway.storage.batches import Batches, NoRoom, Opened, TooManyOpen
from gateway.storage.refusals import UnknownError

KEPT = timedelta(days=30)
UNCLAIMED = timedelta(days=29)
LOST_AFTER = timedelta(hours=25)
POLL_SECONDS = 20
RETRY_AFTER = 20
OVERLOADED_STATUSES = frozenset({429, 529})
MARK_SECONDS = 5.0
REOPEN_SECONDS = 0.3

log = logging.getLogger(__name__)


class Deferred:
    """Deferred work for a scope."""

    def __init__(
        self,
        *,
        current: Current,
        planner: Planner,
        admitting: Admitting,
        leases: Leases,
        gate: Gate,
        batches: Batches,
        providers: Mapping[str, BatchProvider],
        now: Clock,
    ) -> None:
        self._current = current
        self._planner = planner
        self._admitting = admitting
        self._leases = leases
        self._gate = gate
        self._batches = batches
        self._providers = providers
        self._now = now

    async def submit(self, scope: Scope, request: CompletionRequest) -> Batch:
        """Take work in and hand it to the provider.

        Raises:
            Failure: As for a call; 429 too many open batches or no room under the cap; 502 and 503 when the provider
                clearly accepted nothing (nothing is kept or paid then).

        """
        self._current.require_database()
        plans = await self._planner.plan_batch(
            scope, request, await self._current.snapshot_for(scope.project), self._now()
        )
        amount = sum(plan.worst_case for plan in plans)
        cap = scope.project.daily_budget
        if cap is not None and amount > cap:
            raise self._no_room(amount, alone=True)  # no waiting for other calls would make room
        whole = msgspec.structs.replace(plans[0], worst_case=amount)
        admission = await self._admitting.admit(whole, leaves_record=False)
        if not isinstance(admission, Admission):
            raise TypeError("deferred work has neither key nor cache")
        batch = begun(whole, plans, amount)
        await self._open(batch, scope, admission)
        return await self._send(batch, plans)

    async def collect(self, scope: Scope, number: str) -> Batch:
        """Say how far a batch is; with its outcomes once it has ended.

        Raises:
            Failure: 404, the same for a number that never was, is older than 30 days, or another project's; 503 when
                the provider cannot be asked now.

        """
        self._current.require_database()
        now = self._now()
        project = scope.project.name
        batch = await self._batches.get(project, number, now - KEPT)
        if batch is None:
            raise Failure(UNKNOWN_BATCH)
        if batch.state is not BatchState.RUNNING:
            return batch
        if not await self._batches.take_turn(project, number, now, POLL_SECONDS):
            return batch
        settled = await self._advance(batch, now)
        return await self._batches.get(project, number, now - KEPT) or batch if settled else batch

    async def close_old(self) -> None:
        """Book what nobody collected for 29 days as it was reserved, and forget what is older than 30."""
        now = self._now()
        for batch in await self._batches.unsettled_before(now - UNCLAIMED):
            expired = tuple(ItemFailure(ItemTrouble.EXPIRED) for _ in range(batch.total))
            log.warning("a batch was never collected and is booked as reserved: %s", batch.number)
            await self._settle(batch, expired, BatchState.EXPIRED, Outcome.LOST, batch.reserved)
        await self._batches.delete_older_than(now - KEPT)

    async def _open(self, batch: Batch, scope: Scope, admission: Admission) -> None:
        """Write the row and its reservation; from then on the gate learns of it with the day's total."""
        cap = scope.project.daily_budget
        try:
            opened = await self._open_surely(batch, cap)
        except StoreAwayError:
            await self._leases.release(admission.lease)
            raise
        except UnknownError:  # disabled or removed meanwhile
            await self._leases.release(admission.lease)
            raise Failure(UNAUTHORIZED) from None
        if isinstance(opened, TooManyOpen):
            await self._leases.release(admission.lease)
            raise Failure(TOO_MANY_BATCHES)
        if isinstance(opened, NoRoom):
            await self._leases.release(admission.lease)
            raise self._no_room(batch.reserved, alone=opened.alone)
        # A total that somebody has just loaded holds the batch already: adding it would count it twice.
        cost = 0 if await self._forget_total(batch) else batch.reserved
        settlement = Settlement(request=admission.lease.request, cost=cost, now=self._now().timestamp())
        await self._leases.settle(admission.lease, settlement)

    def _no_room(self, amount: int, *, alone: bool) -> Failure:
        why = ": da solo supera il tetto giornaliero" if alone else " e non entra nel tetto di oggi"
        note = f"Il lavoro costa al massimo {dollars(amount):.2f} USD{why}."
        return Failure(BUDGET_EXHAUSTED, note, retry_after=self._admitting.until_midnight())

    async def _open_surely(self, batch: Batch, cap: int | None) -> Opened | TooManyOpen | NoRoom:
        """Open it; after a lost answer ask again, and if that fails leave nothing behind."""
        try:
            return await self._batches.open(batch, cap, MAX_OPEN_BATCHES)
        except StoreAwayError:
            await asyncio.sleep(REOPEN_SECONDS)
        try:
            return await self._batches.open(batch, cap, MAX_OPEN_BATCHES)
        except StoreAwayError:
            await self._cancel(batch)
            raise

    async def _cancel(self, batch: Batch) -> None:
        try:
            await self._batches.cancel(batch.project, batch.number)
        except StoreAwayError as error:
            log.warning("a batch could not be cancelled: %s", error, extra={"request": batch.request_id})
        await self._forget_total(batch)

    async def _send(self, batch: Batch, plans: tuple[Plan, ...]) -> Batch:
        """Hand it in. Only what was clearly refused is tried again; what is ambiguous stays and is found later."""
        provider = self._providers[batch.target.provider]
        calls = [prepare(plan) for plan in plans]
        for number in range(len(BACKOFF_SECONDS) + 1):
            try:
                provider_id = await provider.submit(batch.number, calls, batch.target)
            except ProviderError as error:
                log.warning("a batch was not accepted: %s", error.reason, extra={"request": batch.request_id})
                if not _accepted_nothing(error):
                    return batch
                pause = _pause(number, error)
                if pause is None:
                    await self._cancel(batch)
                    raise _refusal(error, attached=bool(calls[0].attachments)) from error
                await asyncio.sleep(pause)
            else:
                await self._mark_sent(batch, provider_id)
                return msgspec.structs.replace(batch, provider_id=provider_id)
        return batch

    async def _mark_sent(self, batch: Batch, provider_id: str) -> None:
        """Write the provider's name down; if the database is away just now, it is found again by its contents."""
        try:
            async with asyncio.timeout(MARK_SECONDS):
                await self._batches.sent(batch.project, batch.number, provider_id)
        except (StoreAwayError, TimeoutError) as error:
            log.warning("a batch's name could not be written: %s", error, extra={"request": batch.request_id})

    async def _advance(self, batch: Batch, now: datetime) -> bool:
        """Ask the provider; True if the batch has ended and is written and paid."""
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
        await self._batches.settle(ended, ledger_record(ended, outcome, cost, price))
        await self._forget_total(batch)
        return True

    async def _forget_total(self, batch: Batch) -> bool:
        """The day's total has changed in the database: the gate reads it anew. False if it could not be told."""
        try:
            self._leases.require_gate()
            await self._gate.forget_total(batch.project, batch.day.isoformat())
        except StoreAwayError:
            await self._leases.gate_lost()
            return False
        return True


def _accepted_nothing(error: ProviderError) -> bool:
    status = error.status or 0
    return not error.sent or 400 <= status < 500 or status in OVERLOADED_STATUSES


def _pause(number: int, error: ProviderError) -> float | None:
    """Seconds before it is handed in again; None when that is futile."""
    again = error.trouble.repeatable and (not error.sent or error.status in OVERLOADED_STATUSES)
    if not again or number >= len(BACKOFF_SECONDS) or (error.retry_after or 0) > LONGEST_RETRY_AFTER_SECONDS:
        return None
    jittered = BACKOFF_SECONDS[number] * random.uniform(0.75, 1.25)  # noqa: S311 - jitter, not a secret
    return error.retry_after or jittered


def _refusal(error: ProviderError, *, attached: bool) -> Failure:
    if error.status == BAD_REQUEST and attached:
        return Failure(INVALID_DOCUMENT, reason=error.reason)
    if error.trouble.repeatable and (not error.sent or error.status in OVERLOADED_STATUSES):
        return Failure(PROVIDER_UNAVAILABLE, retry_after=RETRY_AFTER, reason=error.reason)
    return Failure(PROVIDER_ERROR, reason=error.reason)
