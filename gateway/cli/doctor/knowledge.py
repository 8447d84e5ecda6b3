"""What the knowledge base needs: somebody who reads the texts, documents that can be compared."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gateway.bootstrap.knowledge import make_knowledge
from gateway.bootstrap.provider_keys import keys_in_force
from gateway.chain.embedders import PAID_PROVIDERS, state_of
from gateway.chain.losses import lost_documents
from gateway.chain.snapshot import Snapshot
from gateway.cli.doctor.problem import Problem
from gateway.domain.errors import StoreAwayError
from gateway.domain.tenants import Permission
from gateway.knowledge.local import REMEDY
from gateway.providers.openai import OpenAI
from gateway.providers.transport import Transport
from gateway.storage.sealing import Seal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from gateway.bootstrap.knowledge import KnowledgeParts
    from gateway.bootstrap.stores import Stores
    from gateway.domain.tenants import Project
    from gateway.ports import Embedder
    from gateway.storage.configuration import ConfigurationRows


async def knowledge_problems(stores: Stores, rows: ConfigurationRows) -> Sequence[Problem]:
    """Look at the knowledge of every active project that has it switched on; without one, at nothing."""
    projects = [one for one in rows.projects.values() if one.active and one.may(Permission.KNOWLEDGE)]
    if not projects:
        return ()
    keys = keys_in_force(stores.settings, rows.settings, Seal(stores.secret))
    parts = make_knowledge(stores, OpenAI(Transport(), keys["openai"]))
    try:
        return [problem async for problem in _problems(stores, rows, projects, parts)]
    finally:
        for close in parts.closers:
            await close()


async def _problems(
    stores: Stores, rows: ConfigurationRows, projects: Sequence[Project], parts: KnowledgeParts
) -> AsyncIterator[Problem]:
    for project in projects:
        embedder, shelf = parts.embedders.of(project), await parts.shelves.now(project.name)
        lost: frozenset[int] = frozenset()
        with suppress(StoreAwayError):  # an index that is away is a problem by itself
            lost = await lost_documents(
                project.name, shelf, embedder, shelves=parts.shelves, index=parts.index
            )
        outdated = state_of(shelf, embedder, lost).outdated
        if outdated:
            yield Problem(
                f"{outdated} documenti del progetto {project.name} mancano dall'indice e non si cercano"
                if outdated > 1
                else f"un documento del progetto {project.name} manca dall'indice e non si cerca",
                f"pepper knowledge reindex --project {project.name}",
            )
    snapshot = Snapshot(rows, stores.recipes)
    for embedder in {parts.embedders.of(one).name: parts.embedders.of(one) for one in projects}.values():
        for problem in _reader_problems(embedder, snapshot):
            yield problem


def _reader_problems(embedder: Embedder, snapshot: Snapshot) -> Iterator[Problem]:
    paid = embedder.provider in PAID_PROVIDERS
    if not embedder.ready:
        yield Problem(
            "la conoscenza non ha chi legge i testi: "
            + (
                "manca la chiave di OpenAI"
                if paid
                else "il pacchetto per PEPPER_EMBEDDINGS=local non è installato"
            ),
            "impostare OPENAI_API_KEY, o la chiave nel pannello, oppure PEPPER_EMBEDDINGS=local"
            if paid
            else REMEDY,
        )
    if paid and snapshot.price(embedder.provider, embedder.model) is None:
        yield Problem(
            f"il modello {embedder.model} non ha un prezzo e non si può usare (serve alla conoscenza)",
            f"pepper price set {embedder.model} --input USD --output 0",
        )
