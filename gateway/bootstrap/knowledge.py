"""The knowledge base, put together for a serving process and for the command line alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from gateway.bootstrap.gates import open_gate
from gateway.bootstrap.indexes import open_index
from gateway.bootstrap.provider_keys import ProviderKeys
from gateway.bootstrap.stores import Stores
from gateway.chain.admit import Admitting
from gateway.chain.authenticate import Authenticator
from gateway.chain.budget import BudgetJudge
from gateway.chain.current import Current
from gateway.chain.embedders import Embedders
from gateway.chain.leases import Leases
from gateway.chain.ledger import Ledger
from gateway.chain.library import Library
from gateway.chain.reading import Reading
from gateway.chain.retrieval import Consulting
from gateway.chain.shelves import Shelves
from gateway.chain.upkeep import RENEW_SECONDS
from gateway.domain.errors import StoreAwayError
from gateway.knowledge.embedding import OpenAIEmbedder
from gateway.knowledge.lexical import LexicalEmbedder
from gateway.knowledge.local import LocalEmbedder
from gateway.knowledge.questions import QuestionCache
from gateway.ports import Gate, VectorIndex
from gateway.providers.openai import OpenAI
from gateway.providers.transport import Transport
from gateway.storage.documents import Documents
from gateway.storage.sealing import Seal
from gateway.storage.spool import Spool


class KnowledgeParts(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind the library and behind the calls that look into it; `closers` in their order."""

    documents: Documents
    shelves: Shelves
    embedders: Embedders
    index: VectorIndex
    consulting: Consulting
    closers: tuple[Callable[[], Awaitable[None]], ...]


def make_knowledge(stores: Stores, openai: OpenAI) -> KnowledgeParts:
    """Put the parts together; nothing is connected or started yet."""
    documents = Documents(stores.database)
    shelves, index = Shelves(documents), open_index(stores.settings)
    local = LocalEmbedder() if stores.settings.embeddings == "local" else None
    embedders = Embedders(LexicalEmbedder(), local or OpenAIEmbedder(openai))
    return KnowledgeParts(
        documents=documents,
        shelves=shelves,
        embedders=embedders,
        index=index,
        consulting=Consulting(shelves, embedders, index, QuestionCache()),
        closers=(index.close, local.aclose) if local else (index.close,),
    )


def make_library(
    stores: Stores,
    parts: KnowledgeParts,
    *,
    current: Current,
    admitting: Admitting,
    ledger: Ledger,
    leases: Leases,
    gate: Gate,
) -> Library:
    """Put the library before the parts: who takes documents in and out."""
    reading = Reading(
        current=current,
        admitting=admitting,
        ledger=ledger,
        leases=leases,
        zone=stores.settings.timezone,
        now=stores.now,
    )
    return Library(
        current=current,
        reading=reading,
        leases=leases,
        gate=gate,
        documents=parts.documents,
        shelves=parts.shelves,
        embedders=parts.embedders,
        index=parts.index,
        now=stores.now,
    )


@asynccontextmanager
async def open_library(stores: Stores) -> AsyncIterator[tuple[Library, Authenticator]]:
    """Give the library to a command, beside servers or without one: the same chain, with leases of its own.

    Raises:
        StoreAwayError: The database does not answer.

    """
    settings, transport, gate = stores.settings, Transport(), open_gate(stores.settings)
    judge = BudgetJudge(stores.nodes)
    openai = OpenAI(transport, settings.openai_key, settings.openai_url)
    keys = ProviderKeys(settings, Seal(stores.secret), openai)
    current = Current(stores.database, stores.recipes, _no_objection, keys.adopt)
    ledger = Ledger(stores.calls, Spool(settings.data), current.lost)
    leases = Leases(gate, stores.calls, judge)
    parts = make_knowledge(stores, openai)
    admitting = Admitting(gate, stores.calls, judge, leases, zone=settings.timezone, now=stores.now)
    library = make_library(
        stores, parts, current=current, admitting=admitting, ledger=ledger, leases=leases, gate=gate
    )
    await transport.open()
    renewing = asyncio.create_task(_renewed(leases))
    try:
        installation = await current.refresh()
        if installation is None:
            raise StoreAwayError("the database does not answer")
        judge.adopt(installation)
        yield library, Authenticator(stores.secret, current, stores.tenants, stores.now)
    finally:
        await ledger.drained()
        renewing.cancel()
        for close in (*parts.closers, gate.close, transport.aclose):
            await close()


async def _no_objection() -> None:
    """Whoever opened the stores has looked at the secret."""


async def _renewed(leases: Leases) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        await leases.renew()
