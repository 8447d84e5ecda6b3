"""Letting a call in: idempotency, hourly limit, cached answer and reservation, in one atomic step at the gate.

A refusal consumes nothing. What may pass by waiting is waited for here: another call under the same key, room in
the budget.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from gateway.chain.budget import BudgetJudge
from gateway.chain.keeping import CutCall, KeptAnswer, unpack, unpack_note
from gateway.chain.leases import Lease, Leases, reservation_of
from gateway.chain.local_window import LocalWindow
from gateway.chain.plan import Plan
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.clock import Clock
from gateway.domain.errors import (
    BUDGET_EXHAUSTED,
    INVALID_REQUEST,
    STORE_UNAVAILABLE,
    TOO_MANY_REQUESTS,
    Failure,
    StoreAwayError,
)
from gateway.ports import (
    AdmissionRequest,
    Admitted,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Claim,
    Earlier,
    Gate,
    Interrupted,
    LimitReached,
    Mismatch,
    Terms,
    TotalUnknown,
    Verdict,
)
from gateway.storage.calls import Calls
from gateway.storage.reservations import Reserved, Spent

ROOM_SECONDS = 10.0
BUSY_SECONDS = 300.0
BUDGET_HELD_RETRY_AFTER = 2
BUSY_RETRY_AFTER = 5
FIRST_POLL_SECONDS = 0.02
LONGEST_POLL_SECONDS = 0.25

MISMATCH_NOTE = "Questa Idempotency-Key è già stata usata con una richiesta diversa."
HELD_NOTE = "Le chiamate in corso occupano il resto del budget giornaliero: riprovare fra poco."
BUSY_NOTE = "La prima richiesta con questa Idempotency-Key è ancora in corso: riprovare più tardi."


class Admission(msgspec.Struct, frozen=True):
    """A call that is in.

    Attributes:
        earlier: The bytes of a cached answer, which is all there is to tell; None for a call to be made.
        generation: The project's cache generation when the call began.

    """

    lease: Lease
    earlier: bytes | None = None
    generation: int = 0


log = logging.getLogger(__name__)


class Admitting:
    """The door of the chain."""

    def __init__(
        self, gate: Gate, calls: Calls, judge: BudgetJudge, leases: Leases, *, zone: ZoneInfo, now: Clock
    ) -> None:
        self._gate = gate
        self._calls = calls
        self._judge = judge
        self._leases = leases
        self._zone = zone
        self._now = now
        self._window = LocalWindow()
        self._supplied: dict[str, tuple[str, int]] = {}

    async def earlier(self, project: str, claim: Claim) -> KeptAnswer | CutCall | None:
        """Look whether a request is a repeat, before any work is planned: of an answered call, or of one that was cut.

        Raises:
            Failure: 400, the key belongs to another request.
            StoreAwayError: A key promises something that nobody can check now.

        """
        self._leases.require_gate()
        try:
            found = await self._gate.earlier(project, claim, self._now().timestamp())
        except StoreAwayError:
            await self._leases.gate_lost()
            raise
        if isinstance(found, Mismatch):
            raise Failure(INVALID_REQUEST, MISMATCH_NOTE)
        if isinstance(found, Interrupted):
            note = unpack_note(found.note)
            return note if isinstance(note, CutCall) else None
        return unpack(found.answer) if found else None

    async def admit(self, plan: Plan, *, leaves_record: bool = True) -> Admission | KeptAnswer | CutCall:
        """Let a call in, or wait until it can be; or give what the call under the same key left meanwhile.

        Args:
            leaves_record: If the process dies, the call is written in the ledger as lost; else its traces vanish.

        Raises:
            Failure: 400 key of another request, 429 limit or budget, 503 the first call under the key takes too long,
                or that call's own failure.
            StoreAwayError: Neither store can judge the cap, or the key needs the store that is away.

        """
        began = time.monotonic()
        poll = FIRST_POLL_SECONDS
        waited = False
        while True:
            verdict, lease = await self._ask(plan, waited=waited, leaves_record=leaves_record)
            match verdict:
                case Admitted(generation):
                    self._leases.hold(lease)
                    return Admission(lease, generation=generation)
                case Earlier(answer, cached=True):
                    lease.request = msgspec.structs.replace(lease.request, terms=None)  # it reserved nothing
                    self._leases.hold(lease)
                    return Admission(lease, earlier=answer)
                case Earlier(answer):
                    return unpack(answer)
                case Interrupted(packed):
                    note = unpack_note(packed)
                    if isinstance(note, CutCall):
                        return note
                    raise note.failure()
                case TotalUnknown(token, traced):
                    await self._supply(plan, token, traced=traced)
                    continue
                case Mismatch():
                    raise Failure(INVALID_REQUEST, MISMATCH_NOTE)
                case LimitReached(retry_after):
                    raise Failure(TOO_MANY_REQUESTS, retry_after=retry_after)
                case BudgetSpent():
                    raise Failure(BUDGET_EXHAUSTED, retry_after=self.until_midnight(plan.policy.zone))
                case BudgetHeld() if plan.policy.strict:
                    raise Failure(BUDGET_EXHAUSTED, retry_after=self.until_midnight(plan.policy.zone))
                case BudgetHeld() if time.monotonic() - began >= ROOM_SECONDS:
                    raise Failure(TOO_MANY_REQUESTS, HELD_NOTE, retry_after=BUDGET_HELD_RETRY_AFTER)
                case Busy() if time.monotonic() - began >= BUSY_SECONDS:
                    raise Failure(STORE_UNAVAILABLE, BUSY_NOTE, retry_after=BUSY_RETRY_AFTER)
                case _:
                    waited = waited or isinstance(verdict, Busy)
                    await asyncio.sleep(poll * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
                    poll = min(poll * 1.5, LONGEST_POLL_SECONDS)

    async def _ask(self, plan: Plan, *, waited: bool, leaves_record: bool) -> tuple[Verdict, Lease]:
        """One try: by the gate alone, or by the gate and the database while that judges caps."""
        capped = plan.cap is not None
        by_database = capped and self._judge.in_database
        if by_database and self._judge.settling > 0:
            await asyncio.sleep(self._judge.settling)
        request = self._request(plan, judged=not by_database, waited=waited, leaves_record=leaves_record)
        lease = Lease(request=request, in_gate=True, in_database=False, capped=capped)
        try:
            self._leases.require_gate()
            verdict = await self._gate.admit(request)
        except StoreAwayError:
            await self._leases.gate_lost()
            self._leases.abandon(request)
            if request.claim is not None:
                raise
            return await self._ask_without_gate(plan, lease)
        if by_database and isinstance(verdict, Admitted):
            return await self._reserve(lease, plan, verdict), lease
        return verdict, lease

    async def _ask_without_gate(self, plan: Plan, lease: Lease) -> tuple[Verdict, Lease]:
        lease.in_gate = False
        project, request = plan.scope.project, lease.request
        if request.hourly_limit is not None:
            wait = self._window.take(project.name, request.request_id, request.hourly_limit, request.now)
            if wait is not None:
                return LimitReached(wait), lease
        if not lease.capped:
            return Admitted(), lease
        if not self._judge.in_database:
            raise StoreAwayError("neither store can judge the cap")
        if self._judge.settling > 0:
            await asyncio.sleep(self._judge.settling)
        verdict = await self._reserve(lease, plan, Admitted())
        if not isinstance(verdict, Admitted):
            self._window.give_back(project.name, request.request_id)
        return verdict, lease

    async def _reserve(self, lease: Lease, plan: Plan, admitted: Admitted) -> Verdict:
        """Reserve in the database; a refusal there undoes what the gate let in."""
        try:
            found = await self._calls.reserve(
                reservation_of(lease.request), plan.cap, strict=plan.policy.strict
            )
        except StoreAwayError:
            await self._leases.release(lease)
            raise
        if isinstance(found, Reserved):
            lease.in_database = True
            return admitted
        await self._leases.release(lease)
        return BudgetSpent() if isinstance(found, Spent) else BudgetHeld()

    async def _supply(self, plan: Plan, token: str, *, traced: bool) -> None:
        """Tell the gate the day's total. That it has no trace of one it was told means that it lost its data."""
        project, day = plan.scope.project.name, plan.day.isoformat()
        if not traced and self._supplied.get(project) == (day, self._judge.epoch):
            log.warning("the key-value store has lost its data")
            del self._supplied[project]
            await self._leases.gate_emptied()
            return
        spent = await self._calls.spent(project, plan.day)
        epoch = self._judge.epoch
        if await self._gate.supply(project, day, epoch, token, spent):
            self._supplied[project] = (day, epoch)

    def _request(self, plan: Plan, *, judged: bool, waited: bool, leaves_record: bool) -> AdmissionRequest:
        scope, project = plan.scope, plan.scope.project
        counted = scope.caller.by is None and plan.policy.counted
        return AdmissionRequest(
            project=project.name,
            request_id=scope.request_id,
            now=self._now().timestamp(),
            hourly_limit=project.hourly_limit if counted else None,
            claim=claim_of(plan, waited=waited),
            cache_key=plan.cache_key,
            terms=Terms(
                day=plan.day.isoformat(),
                epoch=self._judge.epoch,
                cap=plan.cap if judged else None,
                strict=plan.policy.strict,
                worst_case=plan.worst_case,
                record=msgspec.json.encode(lost_record(plan)) if leaves_record else b"",
            ),
        )

    def until_midnight(self, zone: tzinfo | None = None) -> int:
        """Whole seconds until the next day's budget."""
        return seconds_to_midnight(self._now(), zone or self._zone)


def claim_of(plan: Plan, *, waited: bool) -> Claim | None:
    """The claim of a request with an Idempotency-Key."""
    key = plan.request.idempotency_key
    return Claim(key, plan.request.fingerprint, waited) if key is not None else None


def lost_record(plan: Plan) -> CallRecord:
    """The ledger row of a call whose process died: charged at its input's estimate."""
    target = plan.targets[0]
    return CallRecord(
        request_id=plan.scope.request_id,
        project=plan.scope.project.name,
        day=plan.day,
        started_at=plan.now,
        recipe=plan.recipe.name,
        recipe_version=plan.recipe.version,
        outcome=Outcome.LOST,
        key_id=plan.scope.caller.key_id,
        by=plan.scope.caller.by,
        brain=target.brain,
        provider=target.provider,
        model=target.model,
        cost=plan.estimate,
    )


def seconds_to_midnight(now: datetime, zone: tzinfo) -> int:
    """Whole seconds until the project's next day begins, at least 1."""
    local = now.astimezone(zone)
    tomorrow = datetime.combine(local.date() + timedelta(days=1), datetime.min.time(), zone)
    # Between instants of one zone Python reckons by the wall clock, and some days have 23 or 25 hours.
    return max(1, math.ceil((tomorrow.astimezone(UTC) - local.astimezone(UTC)).total_seconds()))
