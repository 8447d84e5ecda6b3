"""A plan made into a model call: what is sent, but for the model."""

from __future__ import annotations

from gateway.chain.plan import Plan
from gateway.domain.calls import ModelCall
from gateway.domain.catalog import Reasoning
from gateway.domain.completion import Turn


def prepare(plan: Plan) -> ModelCall:
    """Give the call of a plan; a brain that reasons is always watched, so that its first byte can come in time."""
    return ModelCall(
        request_id=plan.scope.request_id,
        instructions=plan.recipe.instructions,
        parameters=plan.parameters,
        turns=(*plan.recalled.turns, Turn("user", plan.request.content)),
        attachments=plan.features.attachments,
        cited=plan.features.cited,
        search=plan.features.search,
        answer_tokens=plan.answer_tokens,
        shape=plan.shape,
        watched=plan.request.stream or plan.brain.reasoning is not Reasoning.OFF,
        temperature=plan.policy.temperature,
    )
