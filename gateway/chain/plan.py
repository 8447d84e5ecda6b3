"""What a call is going to be, decided before anything is consumed: recipe, extras, features, history, worst case.

Everything here may refuse, and a refusal leaves no trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime
from zoneinfo import ZoneInfo

import msgspec

from gateway.attachments.read import Attachments
from gateway.chain.features import Features, most_pages, read_features
from gateway.chain.keeping import CutCall
from gateway.chain.memory import Memory, Recalled
from gateway.chain.retrieval import Consultation, Consulting
from gateway.chain.snapshot import Snapshot
from gateway.chain.worst_case import Weight, input_cost, weigh, weigh_attachments, worst_case
from gateway.domain.calls import PARTNER_POLICY, CallPolicy
from gateway.domain.catalog import Brain, Recipe, Target
from gateway.domain.completion import Choice, CompletionRequest, Fields, Pdf, Shape
from gateway.domain.errors import (
    CONTENT_TOO_LARGE,
    CONTRACT_FAULTS,
    DEFERRED_NOT_ENABLED,
    INVALID_REQUEST,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    REFUSED,
    UNKNOWN_RECIPE,
    Failure,
    Fault,
)
from gateway.domain.sandbox import triggers
from gateway.domain.tenants import Permission, Scope
from gateway.recipe_files import NO_CACHE, ExtraError, ExtraValue, instructions_for, read_extras

PROVIDERS_FAULTS = frozenset({REFUSED.code, PROVIDER_ERROR.code, PROVIDER_UNAVAILABLE.code})
TRIGGERED = {fault.code: fault for fault in reversed(CONTRACT_FAULTS) if fault.code not in PROVIDERS_FAULTS}
"""What a trigger word makes happen before the model is asked; the provider `prova` does the others."""
TRIGGERED_RETRY_AFTER = 7
RETRY_AFTER_STATUSES = frozenset({429, 503})


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One call, thought through.

    Attributes:
        now: The instant all business rules of this call are judged by.
        day: The project's day that pays.
        targets: Who is asked, in order: the brain's model, then its fallback.
        recalled: The conversation and its earlier turns.
        parameters: The sentences of the request's extras.
        features: Attachments, citations, web search.
        shape: The forced form of the answer, if any.
        answer_tokens: Limit of the answer.
        worst_case: Micro-dollars the call can cost at most.
        estimate: Micro-dollars its input costs at least: what a call whose process died is charged.
        cache_key: Where an equal answer may be found; None when the call is not to be cached.
        policy: The rules of the front door it came through.
        knowledge: That it is answered with the project's documents; None when it is not.

    """

    scope: Scope
    request: CompletionRequest
    now: datetime
    day: date
    recipe: Recipe
    brain: Brain
    targets: tuple[Target, ...]
    recalled: Recalled
    parameters: str
    shape: Shape | None
    features: Features
    answer_tokens: int
    worst_case: int
    estimate: int
    cache_key: str | None
    policy: CallPolicy = PARTNER_POLICY
    knowledge: Consultation | None = None

    @property
    def cap(self) -> int | None:
        """Micro-dollars that the day may cost, or None."""
        own = self.policy.daily_budget
        return self.scope.project.daily_budget if own is None else own


class Planner:
    """Thinks calls through."""

    def __init__(
        self, memory: Memory, attachments: Attachments, consulting: Consulting, zone: ZoneInfo
    ) -> None:
        self._memory = memory
        self._attachments = attachments
        self._consulting = consulting
        self._zone = zone

    async def plan(
        self,
        scope: Scope,
        request: CompletionRequest,
        snapshot: Snapshot,
        now: datetime,
        cut: CutCall | None = None,
        *,
        policy: CallPolicy = PARTNER_POLICY,
    ) -> Plan:
        """Think a call through; `cut` is the call that this one repeats, if that left half a pair.

        Raises:
            Failure: 404 unknown recipe or conversation, 400 wrong extra, 400, 403 and 413 for attachments, 413 more
                than the model holds (if the policy says so), 502 a model without a price; in a sandbox project also
                the error that a trigger word asks for.

        """
        choice = await self._choose(scope, request, snapshot, policy)
        recalled = await self._memory.recall(scope, request.conversation, now, cut)
        if scope.project.sandbox:
            raise_triggered(request.content)
        targets = snapshot.targets(scope.project, choice.brain, choice.recipe.level)
        targets = _fit(snapshot, targets, choice.features)
        knowledge = await self._consulting.plan(scope, choice.recipe, request.content, snapshot)
        return self._plan(
            scope,
            request,
            choice,
            snapshot,
            now=now,
            recalled=recalled,
            targets=targets,
            policy=policy,
            knowledge=knowledge,
        )

    async def plan_batch(
        self, scope: Scope, request: CompletionRequest, snapshot: Snapshot, now: datetime
    ) -> tuple[Plan, ...]:
        """Think deferred work through, a plan for each text: the brain's own model alone, at half the price.

        Raises:
            Failure: As `plan`, and 403 when the project may not defer.

        """
        find_recipe(snapshot, scope, request.recipe)
        if not scope.project.may(Permission.DEFERRED):
            raise Failure(DEFERRED_NOT_ENABLED)
        choice = await self._choose(scope, request, snapshot)
        targets = snapshot.targets(scope.project, choice.brain, choice.recipe.level)[:1]
        plans = []
        for content in request.contents or (request.content,):
            if scope.project.sandbox:
                raise_triggered(content)
            one = msgspec.structs.replace(request, content=content, contents=())
            plan = self._plan(scope, one, choice, snapshot, now=now, recalled=Recalled(), targets=targets)
            halved = -(-plan.worst_case // 2)
            plans.append(msgspec.structs.replace(plan, worst_case=halved, estimate=0, cache_key=None))
        return tuple(plans)

    async def _choose(
        self,
        scope: Scope,
        request: CompletionRequest,
        snapshot: Snapshot,
        policy: CallPolicy = PARTNER_POLICY,
    ) -> _Choice:
        recipe = find_recipe(snapshot, scope, request.recipe)
        extras = _extras(recipe, request)
        brain = snapshot.brain_of(scope.project)
        shape = policy.shape or _shape(extras)
        features = await read_features(
            self._attachments, scope.project, request, recipe=recipe, brain=brain, shape=shape
        )
        return _Choice(recipe, extras, brain, shape, features)

    def _plan(
        self,
        scope: Scope,
        request: CompletionRequest,
        choice: _Choice,
        snapshot: Snapshot,
        *,
        now: datetime,
        recalled: Recalled,
        targets: tuple[Target, ...],
        policy: CallPolicy = PARTNER_POLICY,
        knowledge: Consultation | None = None,
    ) -> Plan:
        recipe, shape, features = choice.recipe, choice.shape, choice.features
        parameters = instructions_for(recipe, choice.extras)
        weight = Weight(
            weigh(recipe, (parameters, request.content), recalled.turns, shape),
            weigh_attachments(features.attachments, most_pages(recipe.level))
            + (features.search.most_input_tokens if features.search else 0),
        )
        answer_tokens = recipe.answer_tokens(weight.estimate)
        estimate = input_cost(snapshot, targets[0], weight)
        if knowledge is not None:  # passages leave the answer as long as it was
            weight = Weight(weight.text_bytes, weight.other_tokens + knowledge.block_bytes)
        if features.search is not None:  # what all its turns may weigh is what is reserved for them
            search = msgspec.structs.replace(features.search, most_input_tokens=weight.bound)
            features = msgspec.structs.replace(features, search=search)
        if policy.weighed:
            targets = _hold(snapshot, targets, weight.estimate + answer_tokens)
        cacheable = policy.cached and not choice.extras.get(NO_CACHE) and features == Features()
        return Plan(
            scope=scope,
            request=request,
            now=now,
            day=now.astimezone(policy.zone or self._zone).date(),
            recipe=recipe,
            brain=choice.brain,
            targets=targets,
            recalled=recalled,
            parameters=parameters,
            shape=shape,
            features=features,
            answer_tokens=answer_tokens,
            worst_case=worst_case(snapshot, targets, weight, answer_tokens, features.search)
            + (knowledge.worst_case if knowledge else 0),
            estimate=estimate,
            cache_key=_cache_key(recipe, targets[0], request, parameters, shape, knowledge=knowledge)
            if cacheable
            else None,
            policy=policy,
            knowledge=knowledge,
        )


class _Choice(msgspec.Struct, frozen=True):
    """What a request chose: the same for all its texts."""

    recipe: Recipe
    extras: dict[str, ExtraValue]
    brain: Brain
    shape: Shape | None
    features: Features


def find_recipe(snapshot: Snapshot, scope: Scope, name: str) -> Recipe:
    """The recipe a project gets under this name.

    Raises:
        Failure: 404 with the list of the recipes that there are.

    """
    recipe = snapshot.recipe(scope.project.name, name)
    if recipe is None or (scope.caller.by is None and not recipe.partner):
        known = ", ".join(one.name for one in snapshot.partner_recipes(scope.project.name))
        raise Failure(UNKNOWN_RECIPE, f"La ricetta '{name[:100]}' non esiste. Disponibili: {known}.")
    return recipe


def _extras(recipe: Recipe, request: CompletionRequest) -> dict[str, ExtraValue]:
    try:
        return read_extras(recipe, request.extra)
    except ExtraError as error:
        raise Failure(INVALID_REQUEST, error.message_it) from None


def _shape(extras: dict[str, ExtraValue]) -> Shape | None:
    fields, options = extras.get("campi"), extras.get("categorie")
    if isinstance(fields, tuple):
        return Fields(fields)
    if isinstance(options, tuple):
        return Choice(options)
    return None


def raise_triggered(content: str, faults: Mapping[str, Fault] = TRIGGERED) -> None:
    """In a sandbox project: the error of the contract that a trigger word names, where the chain itself gives it."""
    for code in triggers(content).codes:
        fault = faults.get(code)
        if fault is not None:
            retry_after = TRIGGERED_RETRY_AFTER if fault.status in RETRY_AFTER_STATUSES else None
            raise Failure(fault, f"{fault.message} (prova)", retry_after=retry_after)


def _fit(snapshot: Snapshot, targets: tuple[Target, ...], features: Features) -> tuple[Target, ...]:
    """Leave out a fallback that can't read what is attached: another provider, or a model for fewer pages."""
    if not features.attachments:
        return targets
    first, pages = targets[0], features.pages or 0
    unknown = any(isinstance(part, Pdf) and part.pages is None for part in features.attachments)
    return tuple(
        target
        for target in targets
        if target is first
        or (
            target.provider == first.provider
            and not unknown
            and pages <= most_pages(snapshot.level_of(target))
        )
    )


def _hold(snapshot: Snapshot, targets: tuple[Target, ...], tokens: int) -> tuple[Target, ...]:
    """Leave out a fallback that can't hold so many tokens; what nobody knows of a model is not held against it.

    Raises:
        Failure: 413, the first choice can't.

    """

    def holds(target: Target) -> bool:
        window = snapshot.context_window(target)
        return window is None or tokens + target.thinking_tokens <= window

    if not holds(targets[0]):
        raise Failure(CONTENT_TOO_LARGE)
    return tuple(filter(holds, targets))


def _cache_key(
    recipe: Recipe,
    target: Target,
    request: CompletionRequest,
    parameters: str,
    shape: Shape | None,
    *,
    knowledge: Consultation | None,
) -> str | None:
    """A digest of all that decides the answer; None for what is never answered from the cache."""
    if recipe.cache_hours <= 0 or request.conversation is not None:
        return None
    known = (knowledge.version, knowledge.embedder) if knowledge else None
    parts = (recipe.instructions, recipe.max_tokens, parameters, shape, target, request.content, known)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
