"""What a call is going to be, decided before anything is consumed: recipe, extras, history, worst case.

Everything here may refuse, and a refusal leaves no trace.
"""

from __future__ import annotations

import hashlib
import math
from datetime import date, datetime
from zoneinfo import ZoneInfo

import msgspec

from gateway.chain.memory import Memory, Recalled
from gateway.chain.snapshot import Snapshot
from gateway.domain.catalog import Brain, Recipe, Target
from gateway.domain.completion import Choice, CompletionRequest, Fields, Shape, Turn
from gateway.domain.errors import (
    CONTRACT_FAULTS,
    DEFERRED_NOT_ENABLED,
    DOCUMENTS_NOT_ENABLED,
    INVALID_REQUEST,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    REFUSED,
    UNKNOWN_RECIPE,
    Failure,
)
from gateway.domain.sandbox import SANDBOX_PROVIDER, triggers
from gateway.domain.tenants import Scope
from gateway.recipe_files import NO_CACHE, ExtraError, ExtraValue, instructions_for, read_extras

PROVIDERS_FAULTS = frozenset({REFUSED.code, PROVIDER_ERROR.code, PROVIDER_UNAVAILABLE.code})
TRIGGERED = {fault.code: fault for fault in reversed(CONTRACT_FAULTS) if fault.code not in PROVIDERS_FAULTS}
"""What a trigger word makes happen before the model is asked; the provider `prova` does the others."""
TRIGGERED_RETRY_AFTER = 7
RETRY_AFTER_STATUSES = frozenset({429, 503})
BYTES_PER_TOKEN = 3
"""For estimates. Bounds use one byte a token, which no tokenizer exceeds."""
OVERHEAD_TOKENS = 1_000
"""What a provider may add around a request (roles, schema, its own system text)."""
SHAPE_TOKENS_PER_CHARACTER = 4


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One call, thought through.

    Attributes:
        now: The instant all business rules of this call are judged by.
        day: The project's day that pays.
        targets: Who is asked, in order: the brain's model, then its fallback.
        recalled: The conversation and its earlier turns.
        parameters: The sentences of the request's extras.
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
    answer_tokens: int
    worst_case: int
    estimate: int
    cache_key: str | None


async def make_plan(
    scope: Scope,
    request: CompletionRequest,
    *,
    snapshot: Snapshot,
    memory: Memory,
    zone: ZoneInfo,
    now: datetime,
) -> Plan:
    """Think a call through.

    Raises:
        Failure: 404 unknown recipe or conversation, 400 wrong extra, 403 missing permission, 502 a model without a
            price; in a sandbox project also the error that a trigger word asks for.

    """
    project = scope.project
    recipe = find_recipe(snapshot, scope, request.recipe)
    extras = _extras(recipe, request)
    brain = snapshot.brain_of(project)
    shape = _shape(extras)
    parameters = instructions_for(recipe, extras)
    _check_features(request)
    recalled = await memory.recall(scope, request.conversation, now)
    if project.sandbox:
        _raise_triggered(request.content)
    size = _input_bytes(recipe, parameters, shape, request.content, recalled.turns)
    answer_tokens = recipe.answer_tokens(math.ceil(size / BYTES_PER_TOKEN))
    targets = snapshot.targets(project, brain, recipe.level)
    return Plan(
        scope=scope,
        request=request,
        now=now,
        day=now.astimezone(zone).date(),
        recipe=recipe,
        brain=brain,
        targets=targets,
        recalled=recalled,
        parameters=parameters,
        shape=shape,
        answer_tokens=answer_tokens,
        worst_case=_worst_case(snapshot, targets, size + OVERHEAD_TOKENS, answer_tokens),
        estimate=_estimate(snapshot, targets[0], math.ceil(size / BYTES_PER_TOKEN)),
        cache_key=(
            None
            if extras.get(NO_CACHE)
            else _cache_key(recipe, targets[0], request, parameters=parameters, shape=shape)
        ),
    )


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


def _check_features(request: CompletionRequest) -> None:
    """Refuse what this version of Pepper, or this project, does not do."""
    if request.attachments:
        raise Failure(DOCUMENTS_NOT_ENABLED)
    if request.deferred:
        raise Failure(DEFERRED_NOT_ENABLED)


def _raise_triggered(content: str) -> None:
    """In a sandbox project: the error of the contract that a trigger word names, where the chain itself gives it."""
    for code in triggers(content).codes:
        fault = TRIGGERED.get(code)
        if fault is not None:
            retry_after = TRIGGERED_RETRY_AFTER if fault.status in RETRY_AFTER_STATUSES else None
            raise Failure(fault, f"{fault.message} (prova)", retry_after=retry_after)


def _input_bytes(
    recipe: Recipe, parameters: str, shape: Shape | None, content: str, history: tuple[Turn, ...]
) -> int:
    size = len(recipe.instructions.encode()) + len(parameters.encode()) + len(content.encode())
    size += sum(len(turn.text.encode()) for turn in history)
    if shape is not None:
        size += SHAPE_TOKENS_PER_CHARACTER * len(msgspec.json.encode(shape))
    return size


def _worst_case(
    snapshot: Snapshot, targets: tuple[Target, ...], input_tokens: int, answer_tokens: int
) -> int:
    """The dearest target's dearest tier, for all that is sent and may be answered."""
    dearest = 0
    for target in targets:
        if target.provider == SANDBOX_PROVIDER:
            continue
        price = snapshot.price(target.provider, target.model)
        if price is None:
            reason = f"model {target.model} has no price: pepper price set {target.model}"
            raise Failure(PROVIDER_ERROR, reason=reason)
        dearest = max(dearest, price.worst_case(input_tokens, answer_tokens + target.thinking_tokens))
    return dearest


def _estimate(snapshot: Snapshot, target: Target, input_tokens: int) -> int:
    if target.provider == SANDBOX_PROVIDER:
        return 0
    price = snapshot.price(target.provider, target.model)
    return price.worst_case(input_tokens, 0) if price else 0


def _cache_key(
    recipe: Recipe, target: Target, request: CompletionRequest, *, parameters: str, shape: Shape | None
) -> str | None:
    """A digest of all that decides the answer; None for what is never answered from the cache."""
    if recipe.cache_hours <= 0 or request.conversation is not None or request.attachments:
        return None
    parts = (recipe.instructions, recipe.max_tokens, parameters, shape, target, request.content)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
