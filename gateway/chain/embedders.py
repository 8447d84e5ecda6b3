"""Who makes vectors of a project's texts, and what that costs."""

from __future__ import annotations

from gateway import metrics
from gateway.chain.snapshot import Snapshot
from gateway.domain.calls import Attempt
from gateway.domain.errors import KNOWLEDGE_WITHOUT_KEY, PROVIDER_ERROR, PROVIDER_UNAVAILABLE, Failure
from gateway.domain.knowledge import KnowledgeState, Shelf
from gateway.domain.tenants import Project
from gateway.domain.usage import Price, Usage
from gateway.ports import Embedder

PAID_PROVIDERS = frozenset({"openai"})
"""Embedders whose tokens somebody bills; the others work on this machine."""


class Embedders:
    """The sandbox's own embedder for sandbox projects, the configured one for all others."""

    def __init__(self, sandbox: Embedder, configured: Embedder) -> None:
        self._sandbox = sandbox
        self._configured = configured

    def of(self, project: Project) -> Embedder:
        """Who reads this project's texts."""
        return self._sandbox if project.sandbox else self._configured


def price_of(snapshot: Snapshot, embedder: Embedder) -> Price | None:
    """What an embedder costs; None when it costs nothing.

    Raises:
        Failure: 502, it costs something and nobody knows what: it can't be used.

    """
    if embedder.provider not in PAID_PROVIDERS:
        return None
    price = snapshot.price(embedder.provider, embedder.model)
    if price is None:
        reason = (
            f"model {embedder.model} has no price: pepper price set {embedder.model} --input USD --output 0"
        )
        raise Failure(PROVIDER_ERROR, reason=reason)
    return price


def unready(embedder: Embedder) -> Failure:
    """Why an embedder that is not ready can't be asked."""
    fault = KNOWLEDGE_WITHOUT_KEY if embedder.provider in PAID_PROVIDERS else PROVIDER_UNAVAILABLE
    return Failure(fault, reason=f"the embedder {embedder.name} can't be asked")


def attempt_of(
    embedder: Embedder, price: Price | None, outcome: str, *, tokens: int, seconds: float
) -> Attempt:
    """Write down that an embedder was asked, and count it."""
    metrics.attempts_of(embedder.provider, embedder.model, outcome).inc()
    usage = Usage(input_tokens=tokens)
    billed = price is not None and tokens > 0
    return Attempt(
        provider=embedder.provider,
        model=embedder.model,
        outcome=outcome,
        usage=usage,
        cost=price.cost_of(usage) if price and billed else 0,
        prices=price.unit_for(tokens) if price and billed else None,
        duration_ms=round(seconds * 1000),
    )


def searchable(shelf: Shelf, embedder: Embedder) -> dict[int, int]:
    """The live versions whose vectors can be compared with this embedder's, by document."""
    return {
        document.id: document.version for document in shelf.documents if document.embedder == embedder.name
    }


def state_of(shelf: Shelf, embedder: Embedder, lost: frozenset[int]) -> KnowledgeState:
    """Tell what a project's knowledge is; `lost` are the documents that the index has lost."""
    return KnowledgeState(
        documents=len(shelf.documents),
        passages=shelf.passages,
        reader=embedder.provider,
        ready=embedder.ready,
        outdated=len(shelf.documents) - len(searchable(shelf, embedder).keys() - lost),
    )
