"""Brains, prices set by operators, switches and versions of recipes. Every change is audited and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import delete, func, insert, select, update

from gateway.storage import catalog_rows, schema
from gateway.storage.audit import begin_change, record_change
from gateway.storage.catalog_rows import RecipeVersion
from gateway.storage.changes import RecipeSwitches, changed
from gateway.storage.refusals import DuplicateError, RefusalError, check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.catalog import Brain
    from gateway.domain.tenants import Operator
    from gateway.domain.usage import Price
    from gateway.storage.changes import BrainChanges, SwitchChanges
    from gateway.storage.database import Database

__all__ = ["Catalog", "RecipeVersion"]

FIRST_OWN_VERSION = 2
"""Version 1 of a recipe is its file."""


class _VersionTold(msgspec.Struct, frozen=True):
    """What the audit says of a version: the text is in the history."""

    recipe: str
    project: str
    version: int


class Catalog:
    """Brains, prices and recipes in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- brains -----------------------------------------------------------------------------------------------------

    async def add_brain(self, brain: Brain, by: Operator, at: datetime) -> Brain:
        """Add a brain, the last of the list; it is the default only if it says so.

        Raises:
            DuplicateError: The name is taken.
            UnknownError: It falls back to a brain that does not exist.
            RefusalError: It falls back to itself.

        """

        async def work(connection: AsyncConnection) -> Brain:
            await begin_change(connection)
            known = await catalog_rows.read_brains(connection)
            if brain.name in known:
                raise DuplicateError(f"model {brain.name!r} exists already")
            catalog_rows.check_fallback(brain, known)
            await catalog_rows.insert_brain(connection, brain, position=len(known) + 1)
            await record_change(connection, by, at, "brain.add", brain.name, after=brain)
            return brain

        return await self._database.transact(work)

    async def set_brain(self, name: str, changes: BrainChanges, by: Operator, at: datetime) -> Brain:
        """Change what is set in `changes`; gives the brain as it is now.

        Raises:
            UnknownError: No such brain, or it falls back to one that does not exist.
            RefusalError: Its fallback would lead back to itself.

        """

        async def work(connection: AsyncConnection) -> Brain:
            await begin_change(connection)
            known = await catalog_rows.read_brains(connection)
            before = catalog_rows.known_brain(known, name)
            after = changed(before, changes)
            catalog_rows.check_fallback(after, known)
            check_sizes(schema.brains, catalog_rows.brain_row(after))
            await connection.execute(
                update(schema.brains)
                .where(schema.brains.c.name == name)
                .values(catalog_rows.brain_row(after))
            )
            await record_change(connection, by, at, "brain.set", name, before=before, after=after)
            return after

        return await self._database.transact(work)

    async def set_default_brain(self, name: str, by: Operator, at: datetime) -> Brain:
        """Make this the brain of projects that name none. Raises `UnknownError`."""

        async def work(connection: AsyncConnection) -> Brain:
            await begin_change(connection)
            before = catalog_rows.known_brain(await catalog_rows.read_brains(connection), name)
            after = msgspec.structs.replace(before, default=True)
            await catalog_rows.make_default(connection, name)
            await record_change(connection, by, at, "brain.default", name, before=before, after=after)
            return after

        return await self._database.transact(work)

    async def list_brains(self) -> Sequence[Brain]:
        """Give every brain in the order they were added."""
        async with self._database.connect() as connection:
            return tuple((await catalog_rows.read_brains(connection)).values())

    async def install_brains(self, brains: Sequence[Brain], by: Operator, at: datetime) -> Sequence[str]:
        """Add the brains whose names are missing, in this order; gives their names. Only the first default counts."""
        async with self._database.connect() as connection:
            missing = {brain.name for brain in brains} - set(await catalog_rows.read_brains(connection))
        if not missing:
            return ()

        async def work(connection: AsyncConnection) -> Sequence[str]:
            await begin_change(connection)
            known = await catalog_rows.read_brains(connection)
            installed = []
            for brain in brains:
                if brain.name in known:
                    continue
                fresh = msgspec.structs.replace(
                    brain, default=brain.default and not any(other.default for other in known.values())
                )
                catalog_rows.check_fallback(fresh, known)
                await catalog_rows.insert_brain(connection, fresh, position=len(known) + 1)
                await record_change(connection, by, at, "brain.add", fresh.name, after=fresh)
                known[fresh.name] = fresh
                installed.append(fresh.name)
            return tuple(installed)

        return await self._database.transact(work)

    # --- prices -----------------------------------------------------------------------------------------------------

    async def set_price(self, price: Price, by: Operator, at: datetime) -> Price:
        """Set a model's price, before the bundled one; gives it with the operator's origin.

        Raises:
            RefusalError: It has no tier from zero, or its tiers do not rise.

        """
        starts = [tier.above_input_tokens for tier in price.tiers]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            raise RefusalError("the tiers of a price begin with 0 and rise")
        after = msgspec.structs.replace(price, origin=catalog_rows.OPERATOR_PRICE)

        async def work(connection: AsyncConnection) -> Price:
            await begin_change(connection)
            table = schema.prices
            found = (await connection.execute(select(table).where(table.c.model == price.model))).mappings()
            before = next((catalog_rows.read_price(row) for row in found), None)
            await connection.execute(delete(table).where(table.c.model == price.model))
            row = {"model": price.model, "tiers": price.tiers, "day": price.day}
            check_sizes(table, row)
            await connection.execute(insert(table).values(row))
            await record_change(connection, by, at, "price.set", price.model, before=before, after=after)
            return after

        return await self._database.transact(work)

    async def list_prices(self) -> Sequence[Price]:
        """Give the prices set by operators, by model."""
        async with self._database.connect() as connection:
            rows = await connection.execute(select(schema.prices).order_by(schema.prices.c.model))
            return tuple(catalog_rows.read_price(row) for row in rows.mappings())

    # --- recipes ----------------------------------------------------------------------------------------------------

    async def set_switches(
        self, recipe: str, changes: SwitchChanges, by: Operator, at: datetime
    ) -> RecipeSwitches:
        """Switch what is set in `changes`; whether the recipe exists is the caller's to know."""

        async def work(connection: AsyncConnection) -> RecipeSwitches:
            await begin_change(connection)
            table = schema.recipe_switches
            found = (await connection.execute(select(table).where(table.c.recipe == recipe))).mappings()
            before = next((catalog_rows.read_switches(row) for row in found), RecipeSwitches(recipe=recipe))
            after = changed(before, changes)
            await connection.execute(delete(table).where(table.c.recipe == recipe))
            check_sizes(table, msgspec.structs.asdict(after))
            await connection.execute(insert(table).values(msgspec.structs.asdict(after)))
            await record_change(connection, by, at, "recipe.set", recipe, before=before, after=after)
            return after

        return await self._database.transact(work)

    async def add_recipe_version(
        self, recipe: str, text: str, by: Operator, at: datetime, *, project: str | None = None
    ) -> RecipeVersion:
        """Put a new text in force, for everybody or (a variant) for one project; the earlier ones stay in the history.

        Raises:
            UnknownError: No such project.

        """

        async def work(connection: AsyncConnection) -> RecipeVersion:
            await begin_change(connection)
            await catalog_rows.check_project(connection, project)
            table = schema.recipe_versions
            newest = await connection.scalar(
                select(func.max(table.c.version)).where(table.c.recipe == recipe)
            )
            version = RecipeVersion(
                recipe=recipe,
                project=project or "",
                version=FIRST_OWN_VERSION if newest is None else newest + 1,
                text=text,
                live=True,
                created_at=at,
                created_by=by.name,
            )
            check_sizes(table, msgspec.structs.asdict(version))
            await catalog_rows.end_versions(connection, recipe, version.project)
            await connection.execute(insert(table).values(msgspec.structs.asdict(version)))
            told = _VersionTold(recipe, version.project, version.version)
            await record_change(connection, by, at, "recipe.version", recipe, after=told)
            return version

        return await self._database.transact(work)

    async def withdraw_recipe(
        self, recipe: str, by: Operator, at: datetime, *, project: str | None = None
    ) -> bool:
        """Take the text in force out: the project's variant, or everybody's text (the file counts again).

        The history stays. False when there was none.
        """

        async def work(connection: AsyncConnection) -> bool:
            await begin_change(connection)
            version = await catalog_rows.end_versions(connection, recipe, project or "")
            if version is None:
                return False
            told = _VersionTold(recipe, project or "", version)
            await record_change(connection, by, at, "recipe.withdraw", recipe, before=told)
            return True

        return await self._database.transact(work)

    async def recipe_history(self, recipe: str, *, project: str | None = None) -> Sequence[RecipeVersion]:
        """Give every text made for a recipe (everybody's, or one project's variants), newest first."""
        table = schema.recipe_versions
        query = select(table).where(table.c.recipe == recipe, table.c.project == (project or ""))
        async with self._database.connect() as connection:
            rows = await connection.execute(query.order_by(table.c.version.desc()))
            return tuple(catalog_rows.read_version(row) for row in rows.mappings())
