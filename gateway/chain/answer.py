"""The sentence: from a scope and a request to the events of an answer.

*Awaiting may refuse; iterating only tells.* Everything that is decided before a model is asked happens in the await
and becomes an HTTP status; from then on a failure is told like the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import cast
from zoneinfo import ZoneInfo

from gateway.chain.admit import Admission, Admitting
from gateway.chain.authenticate import Authenticator
from gateway.chain.batch import Deferred
from gateway.chain.capabilities import capabilities_of, knows
from gateway.chain.circuit import Circuits
from gateway.chain.current import Current
from gateway.chain.keeping import CutCall, KeptAnswer
from gateway.chain.library import Library
from gateway.chain.plan import Plan, Planner
from gateway.chain.prepare import prepare
from gateway.chain.provide import Providing
from gateway.chain.rate import RateLimit
from gateway.chain.record import Recording
from gateway.chain.replay import as_repeat, replay
from gateway.chain.retrieval import Consulting
from gateway.chain.snapshot import Snapshot
from gateway.domain.batches import Batch
from gateway.domain.calls import PARTNER_POLICY, CallPolicy
from gateway.domain.capabilities import Capabilities
from gateway.domain.clock import Clock
from gateway.domain.completion import CompletionRequest
from gateway.domain.events import Events
from gateway.domain.knowledge import Shelf, Uploaded
from gateway.domain.tenants import Caller, Scope
from gateway.ports import Claim, Provider
from gateway.storage.calls import Calls
from gateway.storage.conversations import Conversations


class Chain:
    """What the front doors see of the gateway's inside: tenant data is reached through here alone."""

    def __init__(
        self,
        *,
        current: Current,
        authenticator: Authenticator,
        planner: Planner,
        admitting: Admitting,
        recording: Recording,
        providers: Mapping[str, Provider],
        calls: Calls,
        conversations: Conversations,
        deferred: Deferred,
        consulting: Consulting,
        library: Library,
        zone: ZoneInfo,
        now: Clock,
    ) -> None:
        self._current = current
        self._authenticator = authenticator
        self._planner = planner
        self._admitting = admitting
        self._recording = recording
        self._providers = providers
        self._calls = calls
        self._conversations = conversations
        self._deferred = deferred
        self._consulting = consulting
        self._library = library
        self._zone = zone
        self._now = now
        self._rate = RateLimit()
        self.circuits = Circuits()

    async def caller(self, key: str) -> Caller:
        """Who shows this key (401 if nobody)."""
        return await self._authenticator.caller(key)

    def on_behalf(self, project: str, by: str) -> Caller:
        """A caller without a key, for the gateway's own front doors."""
        return self._authenticator.on_behalf(project, by)

    async def answer(
        self, scope: Scope, request: CompletionRequest, policy: CallPolicy = PARTNER_POLICY
    ) -> Events:
        """Answer a request by a front door's rules.

        Awaiting refuses (`Failure` with an HTTP status, `StoreAwayError`); the events that come back only tell. They
        must be iterated or closed: closing them early is how a caller who leaves is told to the provider.
        """
        began = time.monotonic()
        snapshot = await self._current.snapshot_for(scope.project)
        earlier: KeptAnswer | CutCall | None = None
        if request.idempotency_key is not None:
            claim = Claim(request.idempotency_key, request.fingerprint)
            earlier = await self._admitting.earlier(scope.project.name, claim)
        while not isinstance(earlier, KeptAnswer):
            self._current.require_database()
            plan = await self._planner.plan(scope, request, snapshot, self._now(), earlier, policy=policy)
            admitted = await self._admitting.admit(plan)
            if isinstance(admitted, Admission):
                if admitted.earlier is not None:
                    return replay(await self._recording.cached(plan, admitted, admitted.earlier, began))
                return await self._told(snapshot, plan, admitted, began)
            earlier = admitted
        if earlier.pair is not None:
            await self._conversations.append(earlier.pair)
        return replay(as_repeat(earlier.answer))

    async def affords(self, scope: Scope, request: CompletionRequest, policy: CallPolicy) -> bool:
        """Whether the day's settled spending leaves room for the worst case of a request.

        Raises:
            Failure: The request could not be answered at all.
            StoreAwayError: The database does not answer.

        """
        snapshot = await self._current.snapshot_for(scope.project)
        plan = await self._planner.plan(scope, request, snapshot, self._now(), policy=policy)
        spent = await self._calls.spent(scope.project.name, plan.day)
        return plan.cap is None or (spent < plan.cap and spent + plan.worst_case <= plan.cap)

    async def submit(self, scope: Scope, request: CompletionRequest) -> Batch:
        """Take deferred work in: see `Deferred.submit`."""
        return await self._deferred.submit(scope, request)

    async def collect(self, scope: Scope, number: str) -> Batch:
        """Say what became of deferred work: see `Deferred.collect`."""
        self._rate.take(scope.project.name)
        return await self._deferred.collect(scope, number)

    async def capabilities(self, scope: Scope) -> Capabilities:
        """What the scope's project can do now, and what it has spent today."""
        self._rate.take(scope.project.name)
        day = self._now().astimezone(self._zone).date()
        spent = await self._calls.spent(scope.project.name, day)
        knowledge = await self._library.state(scope) if knows(scope.project) else None
        return capabilities_of(await self._current.snapshot_for(scope.project), scope, spent, knowledge)

    async def add_document(self, scope: Scope, name: str, text: str) -> Uploaded:
        """Take a document into the project's knowledge: see `Library.add`."""
        self._rate.take(scope.project.name)
        return await self._library.add(scope, name, text)

    async def documents(self, scope: Scope) -> Shelf:
        """Give the project's documents: see `Library.shelf`."""
        self._rate.take(scope.project.name)
        return await self._library.shelf(scope)

    async def remove_document(self, scope: Scope, document: int) -> None:
        """Take a document out of the project's knowledge: see `Library.remove`."""
        self._rate.take(scope.project.name)
        await self._library.remove(scope, document)

    async def _told(self, snapshot: Snapshot, plan: Plan, admission: Admission, began: float) -> Events:
        providing = Providing(
            self._providers,
            self.circuits,
            snapshot.price,
            prepare(plan),
            plan.targets,
            policy=plan.policy,
            retrieval=self._consulting.begin(plan.scope, plan.request.content, plan.knowledge, snapshot),
        )
        telling = self._recording.tell(plan, admission, providing, began)
        await anext(telling)  # from here on the call is recorded, however it ends
        return cast("Events", telling)
