"""Turns of dilemmas: admitted, worked on and written down, in a task that outlives a caller who leaves.

One credit per case, taken with its first turn and given back if nothing was sent. What a turn came to is written even if
the database is away at that moment: then later, from this machine's disk.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from datetime import UTC, datetime, timedelta

import msgspec

from gateway.dilem import errors
from gateway.dilem.contract import Clarification, DecideRequest, Error, Result
from gateway.dilem.decide import Deciding, NotSentError
from gateway.dilem.errors import DilemFailure, code_named
from gateway.dilem.policy import ADDRESS_ADMISSIONS, LEASE_SECONDS, TURNS_PER_CASE, Policy
from gateway.dilem.sessions import Caller, seconds_until
from gateway.domain.clock import Clock
from gateway.domain.errors import StoreAwayError
from gateway.storage.dilem.cases import Cases, Ending, Refusal, Turn, Wish
from gateway.storage.dilem.unwritten import Unwritten

BUSY_RETRY_AFTER = 5
STORE_RETRY_AFTER = 5

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode


class _Progress:
    """How far a turn has come, for whoever must say what its failure means."""

    admitted = False


class Turns:
    """The turns of one process."""

    def __init__(
        self, cases: Cases, deciding: Deciding, unwritten: Unwritten, policy: Policy, now: Clock
    ) -> None:
        self._cases = cases
        self._deciding = deciding
        self._unwritten = unwritten
        self._policy = policy
        self._now = now
        self._running: set[asyncio.Task[Clarification | Result]] = set()

    async def take(
        self, caller: Caller, case_id: str, request: DecideRequest, request_id: str, seconds: float
    ) -> Clarification | Result:
        """Take one turn; it goes on if the caller is lost.

        Args:
            request_id: New for every turn: it holds the case's lock and names the ledger's row.
            seconds: How long the caller can be kept waiting, whatever is slow.

        Raises:
            DilemFailure: A refusal before admission, or what became of the turn after it.
            StoreAwayError: Before admission: nothing was consumed.

        """
        progress = _Progress()
        task = asyncio.create_task(self._turn(caller, case_id, request, request_id, progress))
        self._running.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise DilemFailure(errors.OUTCOME_UNKNOWN, reason="a turn outlasted its caller's patience")
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, DilemFailure) or (isinstance(error, StoreAwayError) and not progress.admitted):
            raise error
        code = errors.OUTCOME_UNKNOWN if progress.admitted else errors.SERVICE_UNAVAILABLE
        raise DilemFailure(code) from error

    async def ended(self) -> None:
        """Return when every turn has been written down."""
        while self._running:
            await asyncio.wait(tuple(self._running))

    async def write_waiting(self) -> None:
        """Write the endings that the database did not take.

        Raises:
            StoreAwayError: It still does not.

        """
        await self._unwritten.hand_over(self._cases.end)

    def _ended(self, task: asyncio.Task[Clarification | Result]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, (DilemFailure, StoreAwayError)):
            log.error("a turn failed", exc_info=error)

    async def _turn(
        self, caller: Caller, case_id: str, request: DecideRequest, request_id: str, progress: _Progress
    ) -> Clarification | Result:
        turn = await self._admitted(self._wish(caller, case_id, request_id))
        progress.admitted = True
        ending = Ending(
            identity=turn.identity,
            case_id=turn.case_id,
            holder=turn.holder,
            turn=turn.number,
            at=self._now(),
            request=_encode(request).decode(),
        )
        try:
            outcome = await self._deciding.turn(request, request_id)
            ending = self._answered(ending, outcome)
        except NotSentError:
            ending = msgspec.structs.replace(ending, undone=True)
            raise
        finally:
            written = await self._write(ending)
        if isinstance(outcome, Error):
            raise DilemFailure(code_named(outcome.code), outcome.message or None)
        if written is False:
            raise DilemFailure(errors.CASE_COMPLETED)
        if written is None or not isinstance(outcome, Result):
            return outcome
        return msgspec.structs.replace(outcome, result_id=ending.result_id or msgspec.UNSET)

    # --- before -----------------------------------------------------------------------------------------------------

    def _wish(self, caller: Caller, case_id: str, request_id: str) -> Wish:
        now = self._now()
        return Wish(
            identity=caller.identity,
            case_id=case_id,
            holder=request_id,
            address=caller.address,
            now=now,
            day=now.date(),
            daily_limit=self._policy.daily_limit,
            address_limit=ADDRESS_ADMISSIONS * self._policy.daily_limit,
            turn_limit=TURNS_PER_CASE,
            capacity=self._policy.capacity,
            lease_seconds=LEASE_SECONDS,
        )

    async def _admitted(self, wish: Wish) -> Turn:
        try:
            verdict = await self._cases.admit(wish)
        except StoreAwayError as error:
            # It may have been carried out all the same.
            ending = Ending(
                identity=wish.identity, case_id=wish.case_id, holder=wish.holder, at=wish.now, undone=True
            )
            await self._keep(ending)
            raise DilemFailure(
                errors.SERVICE_UNAVAILABLE, retry_after=STORE_RETRY_AFTER, reason=str(error)
            ) from error
        if isinstance(verdict, Turn):
            return verdict
        raise await self._refusal(verdict, wish)

    async def _refusal(self, verdict: Refusal, wish: Wish) -> DilemFailure:
        tomorrow = next_day(wish.now)
        wait = seconds_until(tomorrow, wish.now)
        match verdict:
            case "gone":
                return DilemFailure(errors.SESSION_INVALID)
            case "completed":
                return DilemFailure(errors.CASE_COMPLETED)
            case "in_progress":
                return DilemFailure(errors.CASE_IN_PROGRESS, retry_after=BUSY_RETRY_AFTER)
            case "turn_limit":
                return DilemFailure(errors.CASE_TURN_LIMIT)
            case "credits":
                return DilemFailure(errors.CREDITS_EXHAUSTED, retry_after=wait, resets_at=tomorrow)
            case "address":
                return DilemFailure(
                    errors.RATE_LIMITED, "Too many dilemmas from this address today.", retry_after=wait
                )
            case "capacity":
                if not await self._deciding.affordable():
                    return DilemFailure(errors.BUDGET_EXHAUSTED, retry_after=wait, resets_at=tomorrow)
                return DilemFailure(errors.CAPACITY_EXCEEDED, retry_after=BUSY_RETRY_AFTER)

    # --- after ------------------------------------------------------------------------------------------------------

    def _answered(self, ending: Ending, outcome: Clarification | Result | Error) -> Ending:
        completes = isinstance(outcome, Result)
        return msgspec.structs.replace(
            ending,
            at=self._now(),
            response=_encode(outcome).decode(),
            completes=completes,
            result_id=secrets.token_hex(16) if completes else None,
        )

    async def _write(self, ending: Ending) -> bool | None:
        """Write an ending; None when that must wait, False when another turn has completed the case."""
        try:
            return await self._cases.end(ending)
        except StoreAwayError as error:
            log.warning(
                "the end of a turn waits for the database: %s", error, extra={"request": ending.holder}
            )
            # Nobody will know the result's id: only that the case is completed is still to be written.
            await self._keep(msgspec.structs.replace(ending, result_id=None))
            return None

    async def _keep(self, ending: Ending) -> None:
        if not await asyncio.to_thread(self._unwritten.keep, ending):
            log.error("the end of a turn waits in memory alone", extra={"request": ending.holder})


def next_day(now: datetime) -> datetime:
    """Give the next UTC midnight."""
    return datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
