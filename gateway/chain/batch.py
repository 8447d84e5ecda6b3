"""The deferred sentence: work handed in once, at half the price, and collected when somebody comes for it.

Nothing is lost and nothing is paid twice: the batch's row stands before the provider is asked, a submission is sent
once, and what came of it is written, paid and told from one transaction.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from gateway.chain.admit import Admission, Admitting
from gateway.chain.batch_closing import KEPT, RETRY_AFTER, Closing
from gateway.chain.batch_row import begun
from gateway.chain.current import Current
from gateway.chain.leases import Leases
from gateway.chain.plan import Plan, Planner
from gateway.chain.prepare import prepare
from gateway.chain.provide import BACKOFF_SECONDS, BAD_REQUEST, LONGEST_RETRY_AFTER_SECONDS
from gateway.domain.batches import Batch, BatchState
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
from gateway.ports import BatchProvider, ProviderError, Settlement
from gateway.storage.batch_rows import NoRoom, Opened, TooManyOpen
from gateway.storage.batches import Batches
from gateway.storage.refusals import UnknownError

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
        closing: Closing,
        batches: Batches,
        providers: Mapping[str, BatchProvider],
        now: Clock,
    ) -> None:
        self._current = current
        self._planner = planner
        self._admitting = admitting
        self._leases = leases
        self._closing = closing
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
        settled = await self._closing.look(batch)
        return await self._batches.get(project, number, now - KEPT) or batch if settled else batch

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
            raise Failure(TOO_MANY_BATCHES, retry_after=RETRY_AFTER)
        if isinstance(opened, NoRoom):
            await self._leases.release(admission.lease)
            raise self._no_room(batch.reserved, alone=opened.alone)
        # A total that somebody has just loaded holds the batch already: adding it would count it twice.
        cost = 0 if await self._closing.forget_total(batch) else batch.reserved
        settlement = Settlement(request=admission.lease.request, cost=cost, now=self._now().timestamp())
        await self._leases.settle(settlement)

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
            await self._closing.cancel(batch)
            raise

    async def _send(self, batch: Batch, plans: tuple[Plan, ...]) -> Batch:
        """Hand it in. Only what was clearly refused is tried again; what is ambiguous stays and is found later."""
        provider = self._providers[batch.target.provider]
        calls = [prepare(plan) for plan in plans]
        batch = await self._begin(batch)
        for number in range(len(BACKOFF_SECONDS) + 1):
            try:
                provider_id = await provider.submit(batch.number, calls, batch.target)
            except ProviderError as error:
                log.warning("a batch was not accepted: %s", error.reason, extra={"request": batch.request_id})
                if not _accepted_nothing(error):
                    return batch
                pause = _pause(number, error)
                if pause is None:
                    await self._closing.cancel(batch)
                    raise _refusal(error, attached=bool(calls[0].attachments)) from error
                await asyncio.sleep(pause)
            else:
                await self._mark_sent(batch, provider_id)
                return msgspec.structs.replace(batch, provider_id=provider_id)
        return batch

    async def _begin(self, batch: Batch) -> Batch:
        """Note that from now on the provider may have it: without that note it is certain that nobody was asked."""
        sent_at = datetime.now(UTC)
        try:
            there = await self._batches.sending(batch.project, batch.number, sent_at)
        except StoreAwayError:
            await self._closing.cancel(batch)
            raise
        if not there:
            raise StoreAwayError("the batch was taken for one whose process had died")
        return msgspec.structs.replace(batch, sent_at=sent_at)

    async def _mark_sent(self, batch: Batch, provider_id: str) -> None:
        """Write the provider's name down; if the database is away just now, it is found again by its contents."""
        try:
            async with asyncio.timeout(MARK_SECONDS):
                await self._batches.sent(batch.project, batch.number, provider_id)
        except (StoreAwayError, TimeoutError) as error:
            log.warning("a batch's name could not be written: %s", error, extra={"request": batch.request_id})


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
