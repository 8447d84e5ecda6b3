"""The reply of `/capacita.php`, field by field in the contract's order."""

from __future__ import annotations

from typing import Literal

import msgspec

from gateway.domain import limits
from gateway.domain.capabilities import Capabilities
from gateway.domain.catalog import Reasoning
from gateway.domain.money import dollars
from gateway.wire.glossary import Wire, words
from gateway.wire.knowledge import KnowledgeReply, state_reply


class PepperReply(Wire, frozen=True, kw_only=True):
    """`pepper`: the brain, for people."""

    name: str
    description: str
    reasoning: bool
    voice: bool


class RecipeReply(Wire, frozen=True, kw_only=True):
    """One entry of `ricette`."""

    name: str
    description: str
    level: str
    internet: bool


class PowersReply(
    Wire,
    frozen=True,
    kw_only=True,
    rename=words(
        conversations="conversazioni",
        documents="documenti",
        images="immagini",
        deferred="differito",
        agent="agente",
        streaming="streaming",
    ),
):
    """`puo`: what to switch on in an application."""

    conversations: bool
    documents: bool
    images: bool
    deferred: bool
    internet: bool
    agent: bool
    streaming: bool
    knowledge: bool


class LimitsReply(
    Wire,
    frozen=True,
    kw_only=True,
    rename=words(
        content_characters="contenuto_caratteri",
        attachments_per_call="documenti_per_chiamata",
        document_mb="documento_mb",
        image_mb="immagine_mb",
        document_pages="documento_pagine",
        image_types="immagini_tipi",
        document_pages_economy="documento_pagine_economico",
        deferred_contents="differito_testi",
        open_batches="differito_pratiche_aperte",
        hourly_calls="chiamate_ora",
        web_domains="domini_internet",
    ),
):
    """`limiti`."""

    content_characters: int = limits.MAX_CONTENT_CHARACTERS
    attachments_per_call: int = limits.MAX_ATTACHMENTS
    document_mb: int = limits.MAX_DOCUMENT_MB
    image_mb: int = limits.MAX_IMAGE_MB
    document_pages: int = limits.MAX_DOCUMENT_PAGES
    image_types: tuple[str, ...] = limits.IMAGE_TYPES
    document_pages_economy: int = limits.MAX_DOCUMENT_PAGES_ECONOMY
    deferred_contents: int = limits.MAX_DEFERRED_CONTENTS
    open_batches: int = limits.MAX_OPEN_BATCHES
    hourly_calls: int
    web_domains: tuple[str, ...]


class SpendingReply(
    Wire, frozen=True, kw_only=True, rename=words(today="oggi_usd", cap="tetto_usd", remaining="residuo_usd")
):
    """`spesa`, in US dollars."""

    today: float
    cap: float | None
    remaining: float | None


class ModelsReply(Wire, frozen=True, kw_only=True, rename=words(principal="principale", economy="economico")):
    """`modelli`."""

    provider: str
    principal: str
    economy: str


class CapabilitiesReply(Wire, frozen=True, kw_only=True, rename=words(powers="puo")):
    """The whole reply."""

    ok: Literal[True] = True
    project: str
    brain: str
    news: str
    pepper: PepperReply
    recipes: tuple[RecipeReply, ...]
    powers: PowersReply
    knowledge: KnowledgeReply | None
    limits: LimitsReply
    spending: SpendingReply
    models: ModelsReply


def encode_capabilities(found: Capabilities) -> bytes:
    """Encode the reply."""
    project, brain = found.project, found.brain
    return msgspec.json.encode(
        CapabilitiesReply(
            project=project.name,
            brain=brain.name,
            news=brain.news,
            pepper=PepperReply(
                name=brain.name,
                description=brain.description,
                reasoning=brain.reasoning is not Reasoning.OFF,
                voice=brain.voice,
            ),
            recipes=tuple(
                RecipeReply(
                    name=recipe.name,
                    description=recipe.description,
                    level=recipe.level.value,
                    internet=recipe.internet,
                )
                for recipe in found.recipes
            ),
            powers=PowersReply(
                conversations=True,
                documents=found.documents,
                images=found.images,
                deferred=found.deferred,
                internet=found.internet,
                agent=found.agent,
                streaming=True,
                knowledge=found.knowledge is not None,
            ),
            knowledge=state_reply(found.knowledge),
            limits=LimitsReply(hourly_calls=project.hourly_limit, web_domains=project.domains),
            spending=SpendingReply(
                today=dollars(found.spent),
                cap=None if project.daily_budget is None else dollars(project.daily_budget),
                remaining=None if found.remaining is None else dollars(found.remaining),
            ),
            models=ModelsReply(provider=brain.provider, principal=brain.principal, economy=brain.economy),
        )
    )
