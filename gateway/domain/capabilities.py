"""What a project can do with Pepper now: the answer to `/capacita.php`, in the domain's words."""

from __future__ import annotations

import msgspec

from gateway.domain.catalog import Brain, Recipe
from gateway.domain.knowledge import KnowledgeState
from gateway.domain.tenants import Project


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """A project's powers, limits and spending at one moment.

    Attributes:
        recipes: Those the project can name, as it would get them (its own variants and the operator's switches).
        attachments: Whether the brain's provider reads attachments at all; the permissions come on top.
        knowledge: What its knowledge is; None when that is off.
        spent: Micro-dollars settled on the project's day.

    """

    project: Project
    brain: Brain
    recipes: tuple[Recipe, ...]
    documents: bool
    images: bool
    deferred: bool
    internet: bool
    agent: bool
    knowledge: KnowledgeState | None
    spent: int

    @property
    def remaining(self) -> int | None:
        """Micro-dollars left of the day's cap, never below zero; None without a cap."""
        cap = self.project.daily_budget
        return None if cap is None else max(0, cap - self.spent)
