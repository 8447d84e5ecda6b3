"""The operator's side of a served gateway: projects, keys, models and the ledger, straight in its stores."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import redis
from sqlalchemy import Table, func, select

from gateway.domain.calls import CallRecord
from gateway.domain.catalog import Brain, Fallback, NoFallback, Reasoning
from gateway.domain.secrets import key_digest, new_key
from gateway.domain.tenants import Operator, Permission, Project
from gateway.domain.usage import Price, UnitPrice
from gateway.storage import schema
from gateway.storage.calls import Calls
from gateway.storage.catalog import Catalog
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.migrate import migrate
from gateway.storage.nodes import Nodes
from gateway.storage.tenants import Tenants

TESTER = Operator("tester")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Tenant:
    """A project and a key of it."""

    name: str
    key: str
    key_id: int = 0


@dataclass(frozen=True)
class Place:
    """Where the database is."""

    data: Path
    database_url: str | None


def prepare(database_url: str) -> None:
    """Make the tables of a production database, as `pepper migrate` does."""

    async def work() -> None:
        database = Database.open(Place(Path(), database_url))
        try:
            await migrate(database)
        finally:
            await database.close()

    asyncio.run(work())


class Desk:
    """The stores, from another process than the server's."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self.database = database
        self.tenants = Tenants(database)
        self.catalog = Catalog(database)
        self.calls = Calls(database)
        self.conversations = Conversations(database)
        self.nodes = Nodes(database)
        self._secret = secret

    @classmethod
    @asynccontextmanager
    async def opened(cls, data: Path, database_url: str | None, secret: bytes) -> AsyncIterator[Desk]:
        database = Database.open(Place(data, database_url))
        desk = cls(database, secret)
        try:
            yield desk
        finally:
            await desk.calls.close()
            await database.close()

    # --- making -----------------------------------------------------------------------------------------------------

    async def project(
        self,
        name: str | None = None,
        *,
        cap: float | None = None,
        per_hour: int = 100_000,
        allow: Sequence[Permission] = (),
        brain: str | None = None,
        **fields: Any,
    ) -> Tenant:
        """A new project with one key."""
        project = Project(
            name=name or f"progetto-{next(_numbers)}",
            daily_budget=None if cap is None else round(cap * 1_000_000),
            hourly_limit=per_hour,
            permissions=frozenset(allow),
            brain=brain,
            created_at=datetime.now(UTC),
            **fields,
        )
        await self.tenants.add_project(project, TESTER)
        return await self.key(project.name)

    async def key(self, project: str) -> Tenant:
        """One more key of a project."""
        key = new_key()
        digest = key_digest(self._secret, key)
        added = await self.tenants.add_key(project, digest, "prova", TESTER, datetime.now(UTC))
        return Tenant(project, key, added.id)

    async def brain(
        self,
        *,
        provider: str = "claude",
        model: str | None = None,
        fallback: Fallback | None = None,
        reasoning: Reasoning = Reasoning.OFF,
        usd: tuple[float, float] = (5.0, 25.0),
    ) -> Brain:
        """A new brain; without a `model` it has one of its own (the fake must be told), so that no test sees another's
        circuits.
        """
        number = next(_numbers)
        model = model or f"{provider}-model-{number}"
        await self.price(model, *usd)
        brain = Brain(
            name=f"Pepper {number} di prova",
            provider=provider,
            principal=model,
            economy=model,
            fallback=fallback or NoFallback(),
            reasoning=reasoning,
        )
        return await self.catalog.add_brain(brain, TESTER, datetime.now(UTC))

    async def price(self, model: str, given: float, taken: float) -> None:
        """US dollars per million tokens."""
        unit = UnitPrice(
            input=Decimal(str(given)),
            output=Decimal(str(taken)),
            cache_read=Decimal(str(given)),
            cache_write=Decimal(str(given)),
        )
        price = Price(model=model, tiers=(unit,), origin="operatore", day=date(2026, 1, 1))
        await self.catalog.set_price(price, TESTER, datetime.now(UTC))

    # --- looking ----------------------------------------------------------------------------------------------------

    async def rows(self, tenant: Tenant) -> list[CallRecord]:
        """A project's ledger, the oldest first."""
        found = await self.calls.recent_calls(tenant.name, 100_000)
        return sorted(found, key=lambda row: row.started_at)

    async def row(self, tenant: Tenant, request_id: str) -> CallRecord | None:
        return await self.calls.find_call(tenant.name, request_id)

    async def spent(self, tenant: Tenant) -> int:
        """Micro-dollars settled over all days."""
        days = {(tenant.name, row.day) for row in await self.rows(tenant)}
        return sum((await self.calls.spent_many(days)).values())

    async def pairs(self, tenant: Tenant, conversation: str) -> list[tuple[str, str]] | None:
        """What a conversation holds: questions and answers."""
        found = await self.conversations.history(tenant.name, conversation, LONG_AGO, 10_000_000)
        return None if found is None else [(pair.question, pair.answer) for pair in found]

    async def conversation_count(self, tenant: Tenant) -> int:
        return await self._count(schema.conversations, tenant)

    async def reservations(self, tenant: Tenant) -> int:
        """How many calls hold something of the budget in the database."""
        return await self._count(schema.reservations, tenant)

    async def _count(self, table: Table, tenant: Tenant) -> int:
        query = select(func.count()).select_from(table).where(table.c.project == tenant.name)
        async with self.database.connect() as connection:
            return int(await connection.scalar(query) or 0)


def held_in_gate(tenant: Tenant, data: Path, redis_url: str | None) -> int:
    """How many calls hold something of the budget in the key-value store."""
    if redis_url is not None:
        with closing(redis.Redis.from_url(redis_url)) as client:
            return int(client.hlen(f"pepper:{{{tenant.name}}}:reserved"))
    with closing(sqlite3.connect(f"file:{data / 'gate.db'}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*) FROM reservations WHERE project = ?"
        return int(connection.execute(query, (tenant.name,)).fetchone()[0])
