"""Everything a worker keeps in memory of the configuration, read at one instant; and the cheap question whether it
has changed.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import select

from gateway.domain.catalog import Brain
from gateway.domain.operator_settings import PanelSettings
from gateway.domain.tenants import Project
from gateway.domain.usage import Price
from gateway.storage import schema
from gateway.storage.audit import THE_INSTALLATION
from gateway.storage.catalog_rows import RecipeVersion, read_brain, read_price, read_switches, read_version
from gateway.storage.changes import RecipeSwitches
from gateway.storage.columns import database_now
from gateway.storage.operator_settings import read_panel_settings
from gateway.storage.outages import MissingSchemaError
from gateway.storage.tenant_rows import read_project

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The state that all nodes share.

    Attributes:
        revision: Rises with every change of the configuration.
        budget_epoch: Number of the current or last reign of the database over budgets; 0 before the first.
        database_until: End of that reign, on the database's clock.
        now: The database's clock.

    """

    revision: int
    budget_epoch: int
    database_until: datetime | None
    now: datetime

    @property
    def database_reigns(self) -> bool:
        """Whether capped projects reserve in the database now."""
        return self.database_until is not None and self.now < self.database_until


class ConfigurationRows(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration at one revision.

    Attributes:
        keys: Live keys by digest: project and key id.
        brains: In the order they were added.
        prices: Set by operators, by model.
        versions: Recipe texts in force, by recipe and project ('' is everybody's).
        settings: What owners set in the panel.

    """

    revision: int
    projects: dict[str, Project]
    keys: dict[bytes, tuple[str, int]]
    brains: tuple[Brain, ...]
    prices: dict[str, Price]
    switches: dict[str, RecipeSwitches]
    versions: dict[tuple[str, str], RecipeVersion]
    settings: PanelSettings = PanelSettings()


async def read_installation(connection: AsyncConnection) -> Installation:
    """Read the shared state in a connection that is open."""
    table = schema.installation
    query = select(
        table.c.revision, table.c.budget_epoch, table.c.database_until, database_now().label("now")
    ).where(table.c.id == THE_INSTALLATION)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise MissingSchemaError("the database is not installed: run `pepper migrate`")
    return Installation(revision=row[0], budget_epoch=row[1], database_until=row[2], now=row[3])


async def read_revision(database: Database) -> Installation:
    """Ask for the shared state: one row, cheap enough for every second.

    Raises:
        StoreAwayError: The store does not answer, or has no tables.

    """
    async with database.connect() as connection:
        return await read_installation(connection)


async def read_configuration(database: Database) -> ConfigurationRows:
    """Read the configuration at one instant.

    Raises:
        StoreAwayError: The store does not answer, or has no tables.

    """
    keys, versions, brains = schema.project_keys, schema.recipe_versions, schema.brains
    live_keys = select(keys.c.digest, keys.c.project, keys.c.id).where(keys.c.revoked_at.is_(None))
    live_versions = select(versions).where(versions.c.live.is_(True))
    async with database.snapshot() as connection:
        state = await read_installation(connection)
        project_rows = (await connection.execute(select(schema.projects))).mappings()
        key_rows = await connection.execute(live_keys)
        brain_rows = (await connection.execute(select(brains).order_by(brains.c.position))).mappings()
        price_rows = (await connection.execute(select(schema.prices))).mappings()
        switch_rows = (await connection.execute(select(schema.recipe_switches))).mappings()
        version_rows = (await connection.execute(live_versions)).mappings()
        settings = await read_panel_settings(connection)
    return ConfigurationRows(
        revision=state.revision,
        projects={row["name"]: read_project(row) for row in project_rows},
        keys={digest: (project, key_id) for digest, project, key_id in key_rows},
        brains=tuple(read_brain(row) for row in brain_rows),
        prices={row["model"]: read_price(row) for row in price_rows},
        switches={row["recipe"]: read_switches(row) for row in switch_rows},
        versions={(row["recipe"], row["project"]): read_version(row) for row in version_rows},
        settings=settings,
    )
