"""A batch's row, without input or output: how it begins, what its outcomes make of it, and what they cost."""

from __future__ import annotations

import secrets
from decimal import Decimal

from gateway.chain.plan import Plan
from gateway.domain.batches import Batch, BatchState, ItemAnswer, ItemFailure, ItemOutcome, ItemTrouble
from gateway.domain.calls import Attempt, CallRecord, Outcome
from gateway.domain.completion import Pdf
from gateway.domain.usage import Price, Usage

HALF = Decimal("0.5")
NUMBER_BYTES = 6
NOTICE_BYTES = 12


def new_number() -> str:
    """Make a receipt."""
    return f"prt_{secrets.token_hex(NUMBER_BYTES)}"


def begun(whole: Plan, plans: tuple[Plan, ...], amount: int) -> Batch:
    """Give the row that stands before the provider is asked."""
    return Batch(
        number=new_number(),
        project=whole.scope.project.name,
        request_id=whole.scope.request_id,
        key_id=whole.scope.caller.key_id,
        day=whole.day,
        created_at=whole.now,
        recipe=whole.recipe.name,
        recipe_version=whole.recipe.version,
        target=whole.targets[0],
        total=len(plans),
        single=len(plans) == 1,
        shape=whole.shape,
        documents=tuple(part.name for part in whole.features.attachments if isinstance(part, Pdf)),
        cited=whole.features.cited,
        reserved=amount,
    )


def ledger_record(batch: Batch, outcome: Outcome, cost: int, price: Price | None) -> CallRecord:
    """Give the ledger row of a batch that has ended."""
    usage = sum((one.usage for one in batch.outcomes if isinstance(one, ItemAnswer)), Usage())
    attempt = Attempt(
        provider=batch.target.provider,
        model=batch.target.model,
        outcome=batch.state.value,
        usage=usage,
        cost=cost,
        prices=price.unit_for(0) if price else None,
    )
    return CallRecord(
        request_id=batch.request_id,
        project=batch.project,
        day=batch.day,
        started_at=batch.created_at,
        recipe=batch.recipe,
        recipe_version=batch.recipe_version,
        outcome=outcome,
        key_id=batch.key_id,
        brain=batch.target.brain,
        provider=batch.target.provider,
        model=batch.target.model,
        usage=usage,
        cost=cost,
        attempts=(attempt,),
        batch=batch.number,
    )


def cost_of(price: Price | None, outcome: ItemOutcome) -> int:
    """An answer costs half; what has none costs nothing, also a refusal that the provider bills."""
    return price.cost_of(outcome.usage, share=HALF) if price and isinstance(outcome, ItemAnswer) else 0


def new_notice() -> str:
    """Make a notice's name."""
    return f"avv_{secrets.token_hex(NOTICE_BYTES)}"


def state_of(outcomes: tuple[ItemOutcome, ...]) -> BatchState:
    """The contract's state of a batch with these outcomes."""
    if any(isinstance(outcome, ItemAnswer) for outcome in outcomes):
        return BatchState.READY
    if all(isinstance(one, ItemFailure) and one.trouble is ItemTrouble.EXPIRED for one in outcomes):
        return BatchState.EXPIRED
    return BatchState.FAILED
