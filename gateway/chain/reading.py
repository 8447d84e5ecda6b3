"""Vectors of a document's passages, paid like a call: reserved before, settled after, with a row in the ledger."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from zoneinfo import ZoneInfo

import msgspec

from gateway.chain.admit import Admission, Admitting, lost_record
from gateway.chain.current import Current
from gateway.chain.embedders import attempt_of, price_of
from gateway.chain.features import Features
from gateway.chain.leases import Leases
from gateway.chain.ledger import Ledger
from gateway.chain.memory import Recalled
from gateway.chain.plan import Plan
from gateway.chain.provide import DEFAULT_RETRY_AFTER, MOST_RETRY_AFTER
from gateway.chain.snapshot import Snapshot
from gateway.chain.worst_case import BYTES_PER_TOKEN
from gateway.domain.calls import Attempt, CallPolicy, Outcome
from gateway.domain.catalog import Level, Reasoning, Recipe, Target
from gateway.domain.clock import Clock
from gateway.domain.completion import CompletionRequest
from gateway.domain.errors import (
    INTERNAL_ERROR,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    STORE_UNAVAILABLE,
    Failure,
    StoreAwayError,
)
from gateway.domain.tenants import Scope
from gateway.domain.usage import Price, Usage
from gateway.ports import Embedded, Embedder, ProviderError, Settlement
from gateway.storage.calls import LedgerEntry

RECIPE = Recipe(
    name="conoscenza",
    description="",
    level=Level.ECONOMY,
    instructions="",
    max_tokens=0,
    base_tokens=0,
    tokens_per_input=0,
)
"""What stands in the ledger for a document that was read, and for a question that an operator tried out."""
POLICY = CallPolicy(counted=False)
PASSAGES_AT_ONCE = 256
"""What a failure in the middle can't lose the bill of."""


class Bill:
    """One document being read, and what that has cost so far."""

    def __init__(
        self,
        plan: Plan,
        embedder: Embedder,
        price: Price | None,
        passages: Sequence[str],
        limit: asyncio.Timeout,
    ) -> None:
        self.plan = plan
        self.attempts: list[Attempt] = []
        self._embedder = embedder
        self._price = price
        self._passages = passages
        self._limit = limit

    def cut(self) -> None:
        """End it now: the server is going down."""
        self._limit.reschedule(asyncio.get_running_loop().time())

    async def vectors(self) -> tuple[bytes, ...]:
        """Give a vector for each passage.

        Raises:
            Failure: 502 or 503, the embedder did not give them.

        """
        vectors: list[bytes] = []
        for start in range(0, len(self._passages), PASSAGES_AT_ONCE):
            passages = self._passages[start : start + PASSAGES_AT_ONCE]
            vectors += await self._read(self._embedder.embed_passages(passages))
        return tuple(vectors)

    async def question(self) -> bytes:
        """Give the vector of the one text as that of a question.

        Raises:
            Failure: As `vectors`.

        """
        (text,) = self._passages
        (vector,) = await self._read(self._embedder.embed_question(text))
        return vector

    async def _read(self, reading: Awaitable[Embedded]) -> tuple[bytes, ...]:
        started, outcome, tokens = time.monotonic(), "interrotta", 0
        try:
            embedded = await reading
            outcome, tokens = "ok", embedded.tokens
        except ProviderError as error:
            outcome, tokens = error.trouble.value, error.billed_tokens
            raise _failure(error) from error
        finally:
            seconds = time.monotonic() - started
            self.attempts.append(
                attempt_of(self._embedder, self._price, outcome, tokens=tokens, seconds=seconds)
            )
        return embedded.vectors


class Reading:
    """Reads documents for projects."""

    def __init__(
        self,
        *,
        current: Current,
        admitting: Admitting,
        ledger: Ledger,
        leases: Leases,
        zone: ZoneInfo,
        now: Clock,
    ) -> None:
        self._current = current
        self._admitting = admitting
        self._ledger = ledger
        self._leases = leases
        self._zone = zone
        self._now = now
        self._running: set[Bill] = set()

    def cut(self) -> None:
        """End every reading: told as unavailable, billed for what came (the drain limit)."""
        for bill in tuple(self._running):
            bill.cut()

    @asynccontextmanager
    async def billed(self, scope: Scope, embedder: Embedder, passages: Sequence[str]) -> AsyncIterator[Bill]:
        """Reserve the most that reading can cost; settle, whatever happens, what it did cost.

        Raises:
            Failure: 429 no room under the cap, 502 the embedder has no price, 503 the server goes down.

        """
        began = time.monotonic()
        snapshot = await self._current.snapshot_for(scope.project)
        price = price_of(snapshot, embedder)
        plan = self._plan(scope, snapshot, embedder, price, passages)
        admission = await self._admitting.admit(plan) if plan.worst_case else None
        if not isinstance(admission, Admission | None):
            raise TypeError("the reading of a document has neither key nor cache")
        limit = asyncio.timeout(None)
        bill = Bill(plan, embedder, price, passages, limit)
        try:
            async with limit:
                self._running.add(bill)
                yield bill
        except TimeoutError:
            raise Failure(
                PROVIDER_UNAVAILABLE, retry_after=DEFAULT_RETRY_AFTER, reason="cut at the drain limit"
            ) from None
        finally:
            self._running.discard(bill)
            await asyncio.shield(self._settle(bill, admission, _fault_of(sys.exception()), began))

    def _plan(
        self,
        scope: Scope,
        snapshot: Snapshot,
        embedder: Embedder,
        price: Price | None,
        passages: Sequence[str],
    ) -> Plan:
        now = self._now()
        size = sum(len(passage.encode()) for passage in passages)
        return Plan(
            scope=scope,
            request=CompletionRequest(project=scope.project.name, recipe=RECIPE.name, content=""),
            now=now,
            day=now.astimezone(self._zone).date(),
            recipe=RECIPE,
            brain=snapshot.brain_of(scope.project),
            targets=(Target(embedder.provider, embedder.model, "", Reasoning.OFF),),
            recalled=Recalled(),
            parameters="",
            shape=None,
            features=Features(),
            answer_tokens=0,
            worst_case=price.worst_case(size, 0) if price else 0,
            estimate=price.worst_case(math.ceil(size / BYTES_PER_TOKEN), 0) if price else 0,
            cache_key=None,
            policy=POLICY,
        )

    async def _settle(self, bill: Bill, admission: Admission | None, fault: str | None, began: float) -> None:
        attempts = tuple(bill.attempts)
        record = msgspec.structs.replace(
            lost_record(bill.plan),
            outcome=Outcome.OK if fault is None else Outcome.FAILED,
            fault=fault,
            usage=sum((attempt.usage for attempt in attempts), Usage()),
            cost=sum(attempt.cost for attempt in attempts),
            attempts=attempts,
            duration_ms=round((time.monotonic() - began) * 1000),
            provider_ms=sum(attempt.duration_ms for attempt in attempts),
        )
        in_database = admission is not None and admission.lease.in_database
        await self._ledger.write(LedgerEntry(record=record, reserved_in_database=in_database))
        if admission is None:
            return
        if not attempts:
            await self._leases.release(admission.lease)
            return
        settlement = Settlement(
            request=admission.lease.request, cost=record.cost, now=self._now().timestamp()
        )
        await self._leases.settle(settlement)


def _failure(error: ProviderError) -> Failure:
    if not error.trouble.absent:
        return Failure(PROVIDER_ERROR, reason=error.reason)
    wait = math.ceil(error.retry_after) if error.retry_after else DEFAULT_RETRY_AFTER
    return Failure(PROVIDER_UNAVAILABLE, retry_after=min(max(1, wait), MOST_RETRY_AFTER), reason=error.reason)


def _fault_of(error: BaseException | None) -> str | None:
    """The code of the error that the caller gets."""
    match error:
        case None:
            return None
        case Failure():
            return error.fault.code
        case StoreAwayError():
            return STORE_UNAVAILABLE.code
        case TimeoutError():
            return PROVIDER_UNAVAILABLE.code
        case _:
            return INTERNAL_ERROR.code
