"""Asking the providers: the one policy of attempts, deadlines, circuit and fallback.

Until the first piece is out the caller notices nothing but time; after it nothing is retried or replaced.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from gateway import metrics
from gateway.chain.circuit import Circuits
from gateway.chain.retrieval import Retrieval
from gateway.deadline import Deadline
from gateway.domain.calls import PARTNER_POLICY, TOTAL_SECONDS, Attempt, CallPolicy, ModelCall
from gateway.domain.catalog import Target
from gateway.domain.errors import INVALID_DOCUMENT, PROVIDER_ERROR, PROVIDER_UNAVAILABLE, Failure
from gateway.domain.events import Finished, Metered, Piece, ProviderEvent, Searched, Searching
from gateway.domain.usage import Price, Usage
from gateway.ports import Provider, ProviderError, Trouble

BACKOFF_SECONDS = (0.5, 2.0)
LONGEST_RETRY_AFTER_SECONDS = 20.0
FIRST_BYTE_SECONDS = 120.0
BYTES_PER_TOKEN = 3
"""For estimates of what was generated when no count came: close to Italian text on current tokenizers."""
DEFAULT_RETRY_AFTER = 5
MOST_RETRY_AFTER = 60
"""Seconds a caller is told to wait at most, whatever the provider says: there are other choices and better days."""

BAD_REQUEST = 400
UNUSABLE_NOTE = "La risposta nella forma richiesta supera il limite di lunghezza: riduci il testo o i campi."

log = logging.getLogger(__name__)

Passing: TypeAlias = Piece | Searching | Searched | Finished
"""What leaves this room: everything but the metering."""


class Providing:
    """One call's way through its targets, and what became of it.

    After (or in the middle of) the iteration, `attempts` and `target` tell who was asked, who answers, and what it
    cost so far; they are right also when the iteration is cut.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        circuits: Circuits,
        price_of: Callable[[str, str], Price | None],
        call: ModelCall,
        targets: Sequence[Target],
        *,
        policy: CallPolicy = PARTNER_POLICY,
        retrieval: Retrieval | None = None,
    ) -> None:
        self._providers = providers
        self._circuits = circuits
        self._price_of = price_of
        self._call = call
        self._targets = targets
        self._policy = policy
        self.retrieval = retrieval
        """The look into the project's documents that goes before, if there is one."""
        self.target = targets[0]
        self.attempts: list[Attempt] = []
        self.waited = 0.0
        """Seconds spent waiting for providers."""
        self.asked = False
        """Whether any provider was asked at all, be it for the vector of a question."""
        self._reached = False
        """Whether something may have arrived at one that failed."""
        self._cut = asyncio.Event()
        self._waiting: Deadline | None = None

    def cut(self) -> None:
        """End the call now, as unavailable: the server is going down."""
        self._cut.set()
        if self._waiting is not None:
            self._waiting.expire()

    async def events(self) -> AsyncGenerator[Passing, None]:
        """Tell the answer's pieces and its end.

        Raises:
            Failure: 502 or 503, when nobody answered; also in the middle, after pieces.

        """
        await self._consult()
        policy = self._policy
        deadline = time.monotonic() + TOTAL_SECONDS if policy.until is None else policy.until
        last: ProviderError | None = None
        for position, target in enumerate(self._targets):
            if last is not None and not self._goes_on(last):
                break
            others = any(self._circuit_closed(later) for later in self._targets[position + 1 :])
            circuit = self._circuits.of(target.provider, target.model)
            if others and not circuit.lets_through():
                continue
            self.target = target
            impatient = policy.asks_again and position + 1 < len(self._targets)
            first_byte = FIRST_BYTE_SECONDS if impatient else TOTAL_SECONDS
            for number in range(policy.attempts):
                attempt = _Running(self._call, target)
                events = self._ask(attempt, deadline, first_byte)
                try:
                    async for event in events:
                        yield event
                except ProviderError as error:
                    last = error
                    self._reached = self._reached or error.sent
                    log.warning(
                        "provider failed: %s",
                        error.reason,
                        extra={
                            "request": self._call.request_id,
                            "model": target.model,
                            "trouble": error.trouble.value,
                        },
                    )
                    if attempt.text_bytes:
                        circuit.failed()
                        raise self._failure(error) from error
                    if self._call.attachments and error.status == BAD_REQUEST:
                        circuit.answered()
                        raise Failure(INVALID_DOCUMENT, reason=error.reason) from error
                    if not error.trouble.repeatable:
                        circuit.answered()
                        break
                    pause = self._pause(number, error, deadline)
                    if pause is None:
                        circuit.failed()
                        break
                    await self._rest(pause)
                else:
                    circuit.answered()
                    return
                finally:
                    await events.aclose()
        raise self._failure(last)

    async def _consult(self) -> None:
        """Put the project's documents before the question, if the call looks into them."""
        if self.retrieval is None:
            return
        self._stop_if_cut()
        waiting = self._waiting = Deadline(TOTAL_SECONDS)
        try:
            with waiting:
                passages = await self.retrieval.block()
        except TimeoutError:
            self._stop_if_cut()
            raise
        finally:
            waiting.close()
            self.asked = bool(self.retrieval.attempts)
        self._call = msgspec.structs.replace(self._call, passages=passages)

    async def _ask(
        self, attempt: _Running, deadline: float, first_byte: float
    ) -> AsyncGenerator[Passing, None]:
        """One attempt, under its deadlines; always leaves its trace in `attempts`."""
        started = time.monotonic()
        waiting = self._waiting = Deadline(min(deadline - started, first_byte))
        heard = False
        self.asked = True
        outcome = "interrotta"
        events = self._providers[attempt.target.provider].stream(self._call, attempt.target)
        finished = False
        try:
            while True:
                try:
                    with waiting:
                        event = await anext(events, None)
                except TimeoutError:
                    self._stop_if_cut()
                    raise ProviderError(Trouble.TIMEOUT, "no answer within the deadline") from None
                if not heard:
                    heard = True
                    waiting.move(deadline - time.monotonic())
                if event is None:
                    break
                attempt.note(event)
                if isinstance(event, Metered):
                    continue
                finished = isinstance(event, Finished)
                if finished:
                    outcome = "ok"
                yield event
            _require_end(finished=finished)
        except ProviderError as error:
            outcome = error.trouble.value
            raise
        finally:
            await events.aclose()
            waiting.close()
            seconds = time.monotonic() - started
            self.waited += seconds
            self.attempts.append(self._attempt(attempt, outcome, seconds))
            metrics.attempts_of(attempt.target.provider, attempt.target.model, outcome).inc()

    def _attempt(self, running: _Running, outcome: str, seconds: float) -> Attempt:
        usage = running.consumed(cut=outcome != "ok")
        price = self._price_of(running.target.provider, running.target.model)
        billed = price is not None and usage != Usage()
        return Attempt(
            provider=running.target.provider,
            model=running.target.model,
            outcome=outcome,
            usage=usage,
            cost=price.cost_of(usage) if price and billed else 0,
            prices=price.unit_for(usage.total_input) if price and billed else None,
            duration_ms=round(seconds * 1000),
        )

    async def _rest(self, seconds: float) -> None:
        """Wait before the next attempt, unless the call is cut."""
        try:
            async with asyncio.timeout(seconds):
                await self._cut.wait()
        except TimeoutError:
            return
        self._stop_if_cut()

    def _stop_if_cut(self) -> None:
        if self._cut.is_set():
            raise Failure(
                PROVIDER_UNAVAILABLE, retry_after=DEFAULT_RETRY_AFTER, reason="cut at the drain limit"
            )

    def _circuit_closed(self, target: Target) -> bool:
        return not self._circuits.of(target.provider, target.model).open

    def _goes_on(self, error: ProviderError) -> bool:
        """Whether anybody may be asked after this failure."""
        return self._policy.asks_again or error.declined

    def _pause(self, number: int, error: ProviderError, deadline: float) -> float | None:
        """Seconds to wait before the same model is asked again; None when it is not."""
        if number + 1 >= self._policy.attempts or not self._goes_on(error):
            return None
        pause = BACKOFF_SECONDS[number] * random.uniform(0.75, 1.25)  # noqa: S311 - jitter, not a secret
        if error.retry_after is not None:
            if error.retry_after > LONGEST_RETRY_AFTER_SECONDS:
                return None
            pause = max(error.retry_after, 0.0) or pause
        return pause if time.monotonic() + pause < deadline else None

    def _failure(self, error: ProviderError | None) -> Failure:
        if error is None:
            return Failure(
                PROVIDER_UNAVAILABLE,
                retry_after=DEFAULT_RETRY_AFTER,
                reason="every circuit is open",
                unsent=True,
            )
        unsent = not self._reached
        if error.trouble is Trouble.UNUSABLE:
            return Failure(PROVIDER_ERROR, UNUSABLE_NOTE, reason=error.reason)
        if not error.trouble.absent:
            return Failure(PROVIDER_ERROR, reason=error.reason, unsent=unsent)
        wait = math.ceil(error.retry_after) if error.retry_after else DEFAULT_RETRY_AFTER
        return Failure(
            PROVIDER_UNAVAILABLE,
            retry_after=min(max(1, wait), MOST_RETRY_AFTER),
            reason=error.reason,
            unsent=unsent,
            late=error.trouble is Trouble.TIMEOUT and error.status is None,
        )


def _require_end(*, finished: bool) -> None:
    if not finished:
        raise ProviderError(Trouble.FAULTY, "the provider's answer has no end")


class _Running:
    """What one attempt has shown of itself so far."""

    def __init__(self, call: ModelCall, target: Target) -> None:
        self._call = call
        self.target = target
        self.text_bytes = 0
        self._metered = Usage()

    def note(self, event: ProviderEvent) -> None:
        """Keep count of an event."""
        if isinstance(event, Piece):
            self.text_bytes += len(event.text.encode())
        elif isinstance(event, (Metered, Finished)):
            self._metered = event.usage

    def consumed(self, *, cut: bool) -> Usage:
        """What to bill: the provider's count; for a cut attempt at least what was seen of it."""
        if not cut or not self.text_bytes:
            return self._metered
        generated = math.ceil(self.text_bytes / BYTES_PER_TOKEN)
        usage = self._metered
        if usage.total_input == 0:
            usage = usage + Usage(input_tokens=estimated_input(self._call))
        return usage + Usage(output_tokens=max(0, generated - usage.output_tokens))


def estimated_input(call: ModelCall) -> int:
    """Input tokens of a call, guessed from its length."""
    characters = len(call.instructions.encode()) + len(call.parameters.encode())
    characters += len(call.passages.encode())
    characters += sum(len(turn.text.encode()) for turn in call.turns)
    return math.ceil(characters / BYTES_PER_TOKEN)
