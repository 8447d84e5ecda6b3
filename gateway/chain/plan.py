"""What a call is going to be, decided before anything is consumed: recipe, extras, features, history, worst case.

Everything here may refuse, and a refusal leaves no trace.
"""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from zoneinfo import ZoneInfo

import msgspec

from gateway.attachments.read import Attachments
from gateway.chain.features import Features, most_pages, read_features
from gateway.chain.keeping import CutCall
from gateway.chain.memory import Memory, Recalled
from gateway.chain.snapshot import Snapshot
from gateway.chain.worst_case import Weight, input_cost, weigh, weigh_attachments, worst_case
from gateway.domain.catalog import Brain, Recipe, Target
from gateway.domain.completion import Choice, CompletionRequest, Fields, Pdf, Shape
from gateway.domain.errors import (
    CONTRACT_FAULTS,
    DEFERRED_NOT_ENABLED,
    INVALID_REQUEST,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    REFUSED,
    UNKNOWN_RECIPE,
    Failure,
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


class Planner:
    """Thinks calls through."""

    def __init__(self, memory: Memory, attachments: Attachments, zone: ZoneInfo) -> None:
        self._memory = memory
        self._attachments = attachments
        self._zone = zone

    async def plan(
        self,
        scope: Scope,
        request: CompletionRequest,
        snapshot: Snapshot,
        now: datetime,
        cut: CutCall | None = None,
    ) -> Plan:
        """Think a call through; `cut` is the call that this one repeats, if that left half a pair.

        Raises:
            Failure: 404 unknown recipe or conversation, 400 wrong extra, 400, 403 and 413 for attachments, 502 a model
                without a price; in a sandbox project also the error that a trigger word asks for.

        """
        choice = await self._choose(scope, request, snapshot)
        recalled = await self._memory.recall(scope, request.conversation, now, cut)
        if scope.project.sandbox:
            _raise_triggered(request.content)
        targets = snapshot.targets(scope.project, choice.brain, choice.recipe.level)
        targets = _fit(snapshot, targets, choice.features)
        return self._plan(scope, request, choice, snapshot, now=now, recalled=recalled, targets=targets)

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
                _raise_triggered(content)
            one = msgspec.structs.replace(request, content=content, contents=())
            plan = self._plan(scope, one, choice, snapshot, now=now, recalled=Recalled(), targets=targets)
            halved = -(-plan.worst_case // 2)
            plans.append(msgspec.structs.replace(plan, worst_case=halved, estimate=0, cache_key=None))
        return tuple(plans)

    async def _choose(self, scope: Scope, request: CompletionRequest, snapshot: Snapshot) -> _Choice:
        recipe = find_recipe(snapshot, scope, request.recipe)
        extras = _extras(recipe, request)
        brain = snapshot.brain_of(scope.project)
        shape = _shape(extras)
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
    ) -> Plan:
        recipe, shape, features = choice.recipe, choice.shape, choice.features
        parameters = instructions_for(recipe, choice.extras)
        weight = Weight(
            weigh(recipe, (parameters, request.content), recalled.turns, shape),
            weigh_attachments(features.attachments, most_pages(recipe.level))
            + (features.search.most_input_tokens if features.search else 0),
        )
        if features.search is not None:  # what all its turns may weigh is what is reserved for them
            search = msgspec.structs.replace(features.search, most_input_tokens=weight.bound)
            features = msgspec.structs.replace(features, search=search)
        answer_tokens = recipe.answer_tokens(weight.estimate)
        cacheable = not choice.extras.get(NO_CACHE) and features == Features()
        return Plan(
            scope=scope,
            request=request,
            now=now,
            day=now.astimezone(self._zone).date(),
            recipe=recipe,
            brain=choice.brain,
            targets=targets,
            recalled=recalled,
            parameters=parameters,
            shape=shape,
            features=features,
            answer_tokens=answer_tokens,
            worst_case=worst_case(snapshot, targets, weight, answer_tokens, features.search),
            estimate=input_cost(snapshot, targets[0], weight),
            cache_key=_cache_key(recipe, targets[0], request, parameters, shape) if cacheable else None,
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


def _raise_triggered(content: str) -> None:
    """In a sandbox project: the error of the contract that a trigger word names, where the chain itself gives it."""
    for code in triggers(content).codes:
        fault = TRIGGERED.get(code)
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


def _cache_key(
    recipe: Recipe, target: Target, request: CompletionRequest, parameters: str, shape: Shape | None
) -> str | None:
    """A digest of all that decides the answer; None for what is never answered from the cache."""
    if recipe.cache_hours <= 0 or request.conversation is not None:
        return None
    parts = (recipe.instructions, recipe.max_tokens, parameters, shape, target, request.content)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
