"""A `decide` turn through the chain: one forced JSON answer, checked, repaired at most once, nothing invented.

A turn is asked of a provider once. After a failure that leaves open whether a model worked nobody is asked again; only
a clear refusal to serve lets the brain's fallback be asked, and only an answer that is no turn is asked to be mended.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta

import msgspec

from gateway.chain.answer import Chain
from gateway.chain.isolate import isolate
from gateway.dilem.contract import Clarification, DecideRequest, Error, Result
from gateway.dilem.dilemma import Dilemma, Repair, dilemma_of, message_of
from gateway.dilem.errors import (
    BUDGET_EXHAUSTED,
    MODEL_OUTPUT_INVALID,
    OUTCOME_UNKNOWN,
    PROVIDER_ERROR,
    PROVIDER_PAYLOAD_TOO_LARGE,
    PROVIDER_REFUSED,
    PROVIDER_TIMEOUT,
    SERVICE_UNAVAILABLE,
    DilemFailure,
)
from gateway.dilem.turn_schema import TURN_SCHEMA
from gateway.dilem.validation import Invalid, check
from gateway.domain import errors as faults
from gateway.domain.calls import CallPolicy
from gateway.domain.clock import Clock
from gateway.domain.completion import Answer, CompletionRequest
from gateway.domain.errors import Failure, StoreAwayError
from gateway.domain.events import Events, collect
from gateway.domain.tenants import BUILT_IN_PROJECT

RECIPE = "decide"
DOOR = "dilem"
"""Who asks, in the ledger."""
LEAST_REPAIR_SECONDS = 25.0
TEMPERATURE = 0.2
STORE_RETRY_AFTER = 5
LONGEST_REPAIRED_CHARACTERS = 24_000
"""Of an invalid answer that is shown again."""

log = logging.getLogger(__name__)


class NotSentError(DilemFailure):
    """Nothing was sent to a provider and nothing was spent: the caller undoes the admission, then answers this.

    Its code is `provider_payload_too_large` (413), `budget_exhausted` (429, with `resets_at`) or
    `service_unavailable` (503).
    """


class Deciding:
    """Produces turns.

    Args:
        chain: The sentence.
        daily_budget: Micro-dollars that all turns of a UTC day may cost together.
        seconds: Deadline of a turn (`PEPPER_DILEM_PIPELINE_SECONDS`).
        now: The clock of business rules.

    """

    def __init__(self, chain: Chain, *, daily_budget: int, seconds: float, now: Clock) -> None:
        self._chain = chain
        self._seconds = seconds
        self._now = now
        self._policy = CallPolicy(
            attempts=1,
            asks_again=False,
            zone=UTC,
            daily_budget=daily_budget,
            strict=True,
            cached=False,
            weighed=True,
            shape=TURN_SCHEMA,
            temperature=TEMPERATURE,
        )

    async def turn(self, request: DecideRequest, request_id: str) -> Clarification | Result | Error:
        """Produce one turn.

        A result comes without `result_id`. A Error is what is told at HTTP 200: `provider_timeout`,
        `provider_error`, `provider_refused`, `model_output_invalid`. A turn runs to its end and is billed whoever
        leaves: run it, with the admission before and the completion after, in a task that no lost caller cancels.

        Args:
            request_id: New for every turn, at most 62 characters: it names the ledger's row.

        Raises:
            NotSentError: Nothing was sent: undo the admission.
            DilemFailure: `outcome_unknown`: something failed after something was sent. So is whatever else is raised.

        """
        turn = _Turn(request, self._seconds)
        try:
            events = await self._ask(turn, turn.dilemma, request_id)
        except (Failure, StoreAwayError) as error:
            raise self._not_sent(error) from error
        try:
            told = await self._finish(turn, events, request_id)
        except StoreAwayError as error:
            raise DilemFailure(OUTCOME_UNKNOWN, reason=str(error)) from error
        except Failure as failure:
            if failure.unsent:
                raise self._not_sent(failure) from failure
            return _failed(failure)
        if isinstance(told, Invalid):
            return DilemFailure(MODEL_OUTPUT_INVALID).body()
        return turn.dressed(told)

    async def affordable(self) -> bool:
        """Whether the day's budget still has room for a short turn.

        Raises:
            StoreAwayError: The database does not answer.

        """
        shortest = Dilemma(text="?", refinements=(), language="en", force=False, clarification_count=0)
        try:
            scope = isolate(self._chain.on_behalf(BUILT_IN_PROJECT, DOOR), BUILT_IN_PROJECT, "")
            return await self._chain.affords(scope, _asked(shortest), self._policy)
        except Failure as failure:
            log.warning("no turn can be made: %s", failure.reason or failure.fault.code)
            return False

    async def _ask(self, turn: _Turn, dilemma: Dilemma, request_id: str) -> Events:
        caller = self._chain.on_behalf(BUILT_IN_PROJECT, DOOR)
        scope = isolate(caller, BUILT_IN_PROJECT, request_id)
        policy = msgspec.structs.replace(self._policy, until=turn.deadline)
        return await self._chain.answer(scope, _asked(dilemma), policy)

    async def _finish(self, turn: _Turn, events: Events, request_id: str) -> Clarification | Result | Invalid:
        """Take the answer; have one that is no turn mended once, if there is time and money for it.

        Raises:
            Failure: The providers'.
            StoreAwayError: The call could not be written down.

        """
        turn.phase("admission")
        answer = await collect(events)
        turn.phase("model")
        turn.note("decision", answer)
        checked = turn.check(answer)
        turn.phase("validation")
        if not isinstance(checked, Invalid):
            return checked
        log.warning(
            "the model's answer is no turn: %d problems", len(checked.problems), extra={"request": request_id}
        )
        if turn.seconds_left < LEAST_REPAIR_SECONDS:
            return checked
        try:
            repairing = await self._ask(turn, turn.mended(answer, checked), f"{request_id}-2")
        except (Failure, StoreAwayError) as error:
            log.warning("no repair: %s", error, extra={"request": request_id})
            return checked
        try:
            repaired = await collect(repairing)
        except Failure as failure:
            if failure.unsent:
                return checked
            raise
        turn.phase("repair")
        turn.note("repair", repaired)
        return turn.check(repaired)

    def _not_sent(self, error: Failure | StoreAwayError) -> NotSentError:
        if isinstance(error, StoreAwayError):
            return NotSentError(SERVICE_UNAVAILABLE, retry_after=STORE_RETRY_AFTER, reason=str(error))
        reason = error.reason or error.fault.code
        match error.fault:
            case faults.BUDGET_EXHAUSTED | faults.TOO_MANY_REQUESTS:
                now = self._now()
                midnight = _next_midnight(now)
                wait = max(1, round((midnight - now).total_seconds()))
                return NotSentError(BUDGET_EXHAUSTED, retry_after=wait, resets_at=midnight, reason=reason)
            case faults.CONTENT_TOO_LARGE:
                return NotSentError(PROVIDER_PAYLOAD_TOO_LARGE, reason=reason)
            case _:
                return NotSentError(SERVICE_UNAVAILABLE, retry_after=error.retry_after, reason=reason)


class _Turn:
    """The facts of one turn, as they gather."""

    def __init__(self, request: DecideRequest, seconds: float) -> None:
        self._began = self._phase_began = time.monotonic()
        self.deadline = self._began + seconds
        self._request = request
        self.dilemma = dilemma_of(request)
        self._timings: dict[str, int] = {}
        self._models: dict[str, str] = {}
        self._asked = 0

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def phase(self, name: str) -> None:
        """Note that a phase has ended."""
        now = time.monotonic()
        self._timings[name] = round((now - self._phase_began) * 1000)
        self._phase_began = now

    def note(self, role: str, answer: Answer) -> None:
        """Note who answered in which role."""
        self._models[role] = answer.meta.model
        self._asked += answer.meta.attempts or 1

    def check(self, answer: Answer) -> Clarification | Result | Invalid:
        return check(answer.text, forced=self.dilemma.force, truncated=answer.meta.truncated)

    def mended(self, answer: Answer, invalid: Invalid) -> Dilemma:
        """The same dilemma, with what was wrong with the answer."""
        repair = Repair(answer.text[:LONGEST_REPAIRED_CHARACTERS], invalid.problems)
        return msgspec.structs.replace(self.dilemma, repair=repair)

    def dressed(self, told: Clarification | Result) -> Clarification | Result:
        """The turn with what the server alone knows of it."""
        metrics = {
            "provider_calls": self._asked,
            "repairs": len(self._models) - 1,
            "refinements": len(self.dilemma.refinements),
            "clarifications": self._request.clarification_count,
        }
        if isinstance(told, Clarification):
            return msgspec.structs.replace(told, metrics=metrics)
        total = round((time.monotonic() - self._began) * 1000)
        return msgspec.structs.replace(
            told,
            timings={**self._timings, "total": total},
            models=self._models,
            metrics={**metrics, "options": len(told.options)},
        )


def _asked(dilemma: Dilemma) -> CompletionRequest:
    return CompletionRequest(project=BUILT_IN_PROJECT, recipe=RECIPE, content=message_of(dilemma))


def _failed(failure: Failure) -> Error:
    """What is told of a failure after something was sent.

    Raises:
        DilemFailure: `outcome_unknown`.

    """
    if failure.fault is faults.REFUSED:
        return DilemFailure(PROVIDER_REFUSED).body()
    if failure.late:
        return DilemFailure(PROVIDER_TIMEOUT).body()
    if failure.fault in (faults.PROVIDER_ERROR, faults.PROVIDER_UNAVAILABLE):
        return DilemFailure(PROVIDER_ERROR).body()
    raise DilemFailure(OUTCOME_UNKNOWN, reason=failure.reason or failure.fault.code) from failure


def _next_midnight(now: datetime) -> datetime:
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)
