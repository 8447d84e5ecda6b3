"""Telling an answer while writing down what it was: ledger, settlement, cache, conversation, whatever happens.

A caller who hangs up is billed and recorded like any other; `Told` leaves only when the ledger's row is safe.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator

import msgspec

from gateway import metrics
from gateway.chain.admit import Admission, lost_record
from gateway.chain.endings import Endings
from gateway.chain.keeping import CutCall, KeptAnswer, Note, note_of, pack, unpack
from gateway.chain.ledger import Durability
from gateway.chain.plan import Plan
from gateway.chain.provide import Providing
from gateway.chain.retrieval import Retrieval
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.clock import Clock
from gateway.domain.completion import Answer, Meta
from gateway.domain.errors import INTERNAL_ERROR, PROVIDER_UNAVAILABLE, REFUSED, STORE_UNAVAILABLE, Failure
from gateway.domain.events import Event, Finished, Piece, Stop, Told
from gateway.domain.usage import Usage
from gateway.ports import Settlement
from gateway.storage.calls import LedgerEntry
from gateway.storage.conversations import ConversationPair

SECONDS_PER_HOUR = 3_600
KNOWLEDGE_AWAY = "non_disponibile"


class Recording:
    """What one call leaves behind, and when."""

    def __init__(self, endings: Endings, now: Clock) -> None:
        self._endings = endings
        self._now = now
        self._running: set[Providing] = set()

    def cut(self) -> None:
        """End every call that runs: told as unavailable, recorded, billed for what came (the drain limit)."""
        for providing in tuple(self._running):
            providing.cut()

    async def tell(
        self, plan: Plan, admission: Admission, providing: Providing, began: float
    ) -> AsyncGenerator[Event | None, None]:
        """Tell the pieces and the answer; the first value is None, so that a primed sequence always ends recorded.

        Raises:
            Failure: The providers', a refusal (422), or 503 when a conversation could not be written.

        """
        call = _Call(plan, admission, providing, began)
        ended = False
        self._running.add(providing)
        try:
            yield None
            finished: Finished | None = None
            events = providing.events()
            try:
                async for event in events:
                    if isinstance(event, Finished):
                        finished = event
                        continue
                    if isinstance(event, Piece):
                        call.pieces.append(event.text)
                    yield event
                finished = _required(finished)
            except Failure as failure:
                ended = True
                await self._fail(call, failure)
                raise
            finally:
                await events.aclose()
            ended = True
            yield Told(await self._succeed(call, finished))
        finally:
            self._running.discard(providing)
            if not ended:
                left = isinstance(sys.exception(), (GeneratorExit, asyncio.CancelledError))
                await (self._interrupt(call) if left else self._fail(call, Failure(INTERNAL_ERROR)))
            metrics.overhead_seconds_of("stream" if plan.request.stream else "json").observe(call.overhead())

    async def cached(self, plan: Plan, admission: Admission, kept: bytes, began: float) -> Answer:
        """Give a cached answer: it costs nothing, and has its row like any other."""
        earlier = unpack(kept).answer
        milliseconds = round((time.monotonic() - began) * 1000)
        meta = Meta(
            project=plan.scope.project.name,
            recipe=plan.recipe.name,
            provider=earlier.meta.provider,
            model=earlier.meta.model,
            duration_ms=milliseconds,
            brain=earlier.meta.brain,
            cached=True,
            sources=earlier.meta.sources,
            request_id=plan.scope.request_id,
        )
        answer = Answer(earlier.text, None, meta)
        record = msgspec.structs.replace(
            lost_record(plan),
            outcome=Outcome.CACHE,
            cost=0,
            provider=meta.provider,
            model=meta.model,
            brain=meta.brain,
            duration_ms=milliseconds,
        )
        request = admission.lease.request

        def settlement(durability: Durability | None) -> Settlement:
            keeps = request.claim is not None and durability is not None
            kept = pack(KeptAnswer(answer)) if keeps else None
            return Settlement(request=request, cost=0, now=self._now().timestamp(), answer=kept)

        await self._endings.end(LedgerEntry(record=record), admission.lease, settlement)
        return answer

    async def _succeed(self, call: _Call, finished: Finished) -> Answer:
        answer = call.answer(finished)
        pair = call.pair(self._now)
        record = call.record(Outcome.OK, truncated=finished.stop is Stop.TRUNCATED)

        def settlement(durability: Durability | None) -> Settlement:
            caches = call.caches(record) and durability is not None
            claimed = call.claimed and durability is not None
            kept = b""
            if caches or claimed:
                kept = pack(KeptAnswer(answer, pair if durability is Durability.SPOOLED else None))
            return Settlement(
                request=call.admission.lease.request,
                cost=record.cost,
                now=self._now().timestamp(),
                answer=kept if claimed else None,
                cached=kept if caches else None,
                cache_seconds=call.plan.recipe.cache_hours * SECONDS_PER_HOUR,
                generation=call.admission.generation,
            )

        durability = await self._endings.end(call.entry(record, pair), call.admission.lease, settlement)
        if pair is not None and durability is Durability.SPOOLED:
            raise Failure(
                STORE_UNAVAILABLE, retry_after=5, reason="a conversation's pair could not be committed"
            )
        return answer

    async def _fail(self, call: _Call, failure: Failure) -> None:
        outcome = Outcome.REFUSED if failure.fault is REFUSED else Outcome.FAILED
        note = call.earlier_cut or note_of(failure)
        await self._close(call, call.record(outcome, fault=failure.fault.code), None, note)

    async def _interrupt(self, call: _Call) -> None:
        pair = call.pair(self._now) if call.text else None
        note = CutCall(pair.conversation, pair.request_id) if pair else call.earlier_cut
        await self._close(call, call.record(Outcome.INTERRUPTED), pair, note)

    async def _close(
        self, call: _Call, record: CallRecord, pair: ConversationPair | None, note: Note | None
    ) -> None:
        def settlement(durability: Durability | None) -> Settlement | None:
            if not call.providing.asked:
                return None
            lost = durability is None or (durability is Durability.SPOOLED and pair is not None)
            return Settlement(
                request=call.admission.lease.request,
                cost=record.cost,
                now=self._now().timestamp(),
                note=pack(note) if note and call.claimed and not lost else None,
            )

        await self._endings.end(call.entry(record, pair), call.admission.lease, settlement)


def _required(finished: Finished | None) -> Finished:
    if finished is None:
        raise Failure(PROVIDER_UNAVAILABLE, reason="the providers' sequence had no end")
    if finished.stop is Stop.REFUSED:
        raise Failure(REFUSED)
    return finished


def _as_planned(retrieval: Retrieval | None) -> bool:
    """Whether the project's documents were what a later call of the same cache key will find."""
    return retrieval is None or not (retrieval.unavailable or retrieval.changed or retrieval.incomplete)


def question_of(plan: Plan) -> str:
    """What a conversation keeps of a request: its text and the names of what was attached, never the files."""
    names = ", ".join(part.name for part in plan.features.attachments)
    return f"{plan.request.content}\n\n[Allegati: {names}]" if names else plan.request.content


class _Call:
    """The facts of one call, as they gather."""

    def __init__(self, plan: Plan, admission: Admission, providing: Providing, began: float) -> None:
        self.plan = plan
        self.admission = admission
        self.providing = providing
        self.pieces: list[str] = []
        self._began = began

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def claimed(self) -> bool:
        return self.admission.lease.request.claim is not None

    @property
    def earlier_cut(self) -> CutCall | None:
        """The cut call that this one repeats: its half pair still waits for a repeat that succeeds."""
        recalled = self.plan.recalled
        if recalled.conversation is None or recalled.replaces is None:
            return None
        return CutCall(recalled.conversation, recalled.replaces)

    def caches(self, record: CallRecord) -> bool:
        """Whether its answer is one for others with the same request."""
        return (
            self.plan.cache_key is not None
            and not record.truncated
            and record.fallback is None
            and _as_planned(self.providing.retrieval)
        )

    def answer(self, finished: Finished) -> Answer:
        return Answer(
            self.text,
            self.plan.recalled.conversation,
            answer_meta(self.plan, self.providing, self.milliseconds(), finished),
        )

    def pair(self, now: Clock) -> ConversationPair | None:
        plan = self.plan
        conversation = plan.recalled.conversation
        if conversation is None or not self.text:
            return None
        return ConversationPair(
            project=plan.scope.project.name,
            conversation=conversation,
            request_id=plan.scope.request_id,
            question=question_of(plan),
            answer=self.text,
            at=now(),
            replaces=plan.recalled.replaces,
        )

    def entry(self, record: CallRecord, pair: ConversationPair | None) -> LedgerEntry:
        return LedgerEntry(record=record, pair=pair, reserved_in_database=self.admission.lease.in_database)

    def record(self, outcome: Outcome, *, fault: str | None = None, truncated: bool = False) -> CallRecord:
        plan, providing, target = self.plan, self.providing, self.providing.target
        lookups = providing.retrieval.attempts if providing.retrieval else ()
        attempts = (*lookups, *providing.attempts)
        return CallRecord(
            request_id=plan.scope.request_id,
            project=plan.scope.project.name,
            day=plan.day,
            started_at=plan.now,
            recipe=plan.recipe.name,
            recipe_version=plan.recipe.version,
            outcome=outcome,
            key_id=plan.scope.caller.key_id,
            by=plan.scope.caller.by,
            brain=target.brain,
            provider=target.provider,
            model=target.model,
            fault=fault,
            usage=sum((attempt.usage for attempt in attempts), Usage()),
            cost=sum(attempt.cost for attempt in attempts),
            attempts=attempts,
            fallback=target.fallback,
            truncated=truncated,
            duration_ms=self.milliseconds(),
            provider_ms=round(providing.waited * 1000),
        )

    def milliseconds(self) -> int:
        return round((time.monotonic() - self._began) * 1000)

    def overhead(self) -> float:
        """Seconds so far that no provider was waited for."""
        return time.monotonic() - self._began - self.providing.waited


def answer_meta(plan: Plan, providing: Providing, milliseconds: int, finished: Finished) -> Meta:
    """What is said about an answer that a provider gave."""
    target, attempts, features = providing.target, len(providing.attempts), plan.features
    retrieval = providing.retrieval
    cites = features.cited or (features.search is not None and finished.usage.searches > 0)
    return Meta(
        project=plan.scope.project.name,
        recipe=plan.recipe.name,
        provider=target.provider,
        model=target.model,
        duration_ms=milliseconds,
        brain=target.brain,
        truncated=finished.stop is Stop.TRUNCATED,
        attempts=attempts if attempts > 1 else None,
        fallback=target.fallback,
        citations=finished.citations if cites else None,
        citations_off=features.citations_off,
        sources=retrieval.sources or None if retrieval else None,
        knowledge=KNOWLEDGE_AWAY if retrieval and retrieval.unavailable else None,
        searches=finished.usage.searches or None,
        pages=features.pages,
        request_id=plan.scope.request_id,
    )
