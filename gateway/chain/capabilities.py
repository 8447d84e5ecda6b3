"""What a project can do now, told from the same snapshot that its calls are judged by."""

from __future__ import annotations

import msgspec

from gateway.chain.features import ATTACHMENT_PROVIDERS
from gateway.chain.snapshot import Snapshot
from gateway.domain.capabilities import Capabilities
from gateway.domain.knowledge import KnowledgeState
from gateway.domain.sandbox import SANDBOX_PROVIDER
from gateway.domain.tenants import Permission, Project, Scope

SERVED = frozenset(Permission) - {Permission.AGENT}
"""What this release serves: a permission for anything else switches no button on."""


def knows(project: Project) -> bool:
    """Whether a project's knowledge is switched on."""
    return Permission.KNOWLEDGE in SERVED and project.may(Permission.KNOWLEDGE)


def capabilities_of(
    snapshot: Snapshot, scope: Scope, spent: int, knowledge: KnowledgeState | None
) -> Capabilities:
    """Tell a project's powers; `spent` is the day's settled spending in micro-dollars."""
    project = scope.project
    brain = snapshot.brain_of(project)
    if project.sandbox:
        brain = msgspec.structs.replace(brain, provider=SANDBOX_PROVIDER)
    attachments = brain.provider in ATTACHMENT_PROVIDERS
    return Capabilities(
        project=project,
        brain=brain,
        recipes=snapshot.partner_recipes(project.name),
        documents=attachments and project.may(Permission.DOCUMENTS),
        images=attachments and project.may(Permission.IMAGES),
        deferred=project.may(Permission.DEFERRED),
        internet=attachments and project.may(Permission.INTERNET),
        agent=Permission.AGENT in SERVED and project.may(Permission.AGENT),
        knowledge=knowledge,
        spent=spent,
    )
