"""What every installation has from the start (brains, the built-in project) and what an empty embedded store gets once."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from gateway.domain.catalog import Brain, BrainFallback, ModelFallback, Reasoning
from gateway.domain.operators import Role
from gateway.domain.secrets import key_digest, new_key
from gateway.domain.tenants import BUILT_IN_PROJECT, FIRST_START, Project
from gateway.storage import schema
from gateway.storage.audit import THE_INSTALLATION, begin_change, record_change
from gateway.storage.catalog import Catalog
from gateway.storage.operators import LINK_BYTES, LINK_LIFE, link_digest
from gateway.storage.refusals import DuplicateError, UnknownError
from gateway.storage.tenant_rows import add_key, add_project
from gateway.storage.tenants import Tenants

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

DEMO_PROJECT = "demo"
DEMO_LABEL = "primo avvio"
FIRST_OWNER = "proprietario@localhost"
"""Until the set-up page is told their real address."""

BRAINS = (
    Brain(
        name="Pepper 6",
        provider="claude",
        principal="claude-opus-5",
        economy="claude-haiku-4-5",
        fallback=ModelFallback("claude-haiku-4-5"),
        description="Il modello di sempre: risponde subito, scrive un buon italiano, legge documenti e foto.",
        news="È il modello di partenza: chi non ne sceglie un altro parla con lui.",
        default=True,
    ),
    Brain(
        name="Pepper 6 · OpenAI",
        provider="openai",
        principal="gpt-5.5",
        economy="gpt-5.4-mini",
        description="Lo stesso mestiere con i motori di OpenAI. Non legge allegati e non cerca sul web.",
        news="Un secondo fornitore, per chi non vuole dipendere da uno solo.",
    ),
    Brain(
        name="Pepper 7",
        provider="claude",
        principal="claude-opus-5-5",
        economy="claude-haiku-4-5",
        reasoning=Reasoning.MEDIUM,
        fallback=BrainFallback("Pepper 6"),
        description="Ragiona prima di rispondere: più attento sui testi difficili, un po' più lento.",
        news="Pensa prima di scrivere; se non è disponibile risponde Pepper 6.",
    ),
)
"""Installed wherever they are missing."""


async def install(database: Database, now: datetime, brains: tuple[Brain, ...] = BRAINS) -> None:
    """Put the brains and the built-in project in place where they are missing; cheap when nothing is.

    Raises:
        StoreAwayError: The store does not answer, or has no tables.

    """
    await Catalog(database).install_brains(brains, FIRST_START, now)
    tenants = Tenants(database)
    try:
        await tenants.get_project(BUILT_IN_PROJECT)
    except UnknownError:
        try:
            await tenants.add_project(
                Project(name=BUILT_IN_PROJECT, internal=True, created_at=now), FIRST_START
            )
        except DuplicateError:
            return  # another process was faster


async def first_start(database: Database, secret: bytes, now: datetime) -> str | None:
    """Create the sandbox project `demo` in a store that has no project of an operator yet; gives its key, once for ever.

    For embedded stores only. Of processes that start together one gets the key, the others None.

    Raises:
        StoreAwayError: The store does not answer, or has no tables.

    """
    table, projects = schema.installation, schema.projects
    mine = (table.c.id == THE_INSTALLATION, table.c.first_started_at.is_(None))
    async with database.connect() as connection:
        if (await connection.execute(select(table.c.id).where(*mine))).first() is None:
            return None
    key = new_key()
    project = Project(name=DEMO_PROJECT, sandbox=True, created_at=now)

    async def work(connection: AsyncConnection) -> bool:
        won = await connection.execute(update(table).where(*mine).values(first_started_at=now))
        if not won.rowcount:
            return False
        others = await connection.execute(
            select(projects.c.name).where(projects.c.internal.is_(False)).limit(1)
        )
        if others.first() is not None:
            return False
        await add_project(connection, project, FIRST_START)
        digest = key_digest(secret, key)
        await add_key(connection, DEMO_PROJECT, digest=digest, label=DEMO_LABEL, by=FIRST_START, at=now)
        return True

    return key if await database.transact(work) else None


async def first_owner(database: Database, now: datetime) -> str | None:
    """Create the panel's first owner where nobody may use it yet; gives the token of their set-up link, once for ever.

    Raises:
        StoreAwayError: The store does not answer, or has no tables.

    """
    table, links = schema.operators, schema.set_up_links
    async with database.connect() as connection:
        if (await connection.execute(select(table.c.id).limit(1))).first() is not None:
            return None
    token = secrets.token_urlsafe(LINK_BYTES)
    row = {"email": FIRST_OWNER, "role": Role.OWNER.value, "active": True, "recovery": (), "created_at": now}

    async def work(connection: AsyncConnection) -> bool:
        await begin_change(connection)
        if (await connection.execute(select(table.c.id).limit(1))).first() is not None:
            return False
        made = await connection.execute(insert(table).values(row))
        key = made.inserted_primary_key
        link = {"digest": link_digest(token), "operator": key[0] if key else 0, "expires_at": now + LINK_LIFE}
        await connection.execute(insert(links).values(link))
        await record_change(connection, FIRST_START, now, "operator.add", FIRST_OWNER)
        return True

    return token if await database.transact(work) else None
