"""Rows of brains, prices and recipes, and the rules that are checked against other rows in an open transaction."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, func, insert, select, update

from gateway.domain.catalog import Brain, BrainFallback, Level, Reasoning, parse_fallback
from gateway.domain.usage import Price
from gateway.storage import schema
from gateway.storage.changes import RecipeSwitches
from gateway.storage.refusals import RefusalError, UnknownError, check_sizes

if TYPE_CHECKING:
    from sqlalchemy import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

OPERATOR_PRICE = "operatore"
"""`Price.origin` of what is kept here."""


class RecipeVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe's text made by an operator.

    Attributes:
        project: Whose variant it is; '' for everybody.
        version: From 2 upwards, counted over everybody's and all projects' texts of the recipe.
        text: The whole file: front matter and instructions.
        live: Whether it is in force.

    """

    recipe: str
    project: str = ""
    version: int
    text: str
    live: bool
    created_at: datetime
    created_by: str


def read_brain(row: RowMapping) -> Brain:
    """Make the noun of a row."""
    return Brain(
        name=row["name"],
        provider=row["provider"],
        principal=row["principal"],
        economy=row["economy"],
        reasoning=Reasoning(row["reasoning"]),
        fallback=parse_fallback(row["fallback"]),
        description=row["description"],
        news=row["news"],
        voice=row["voice"],
        default=row["is_default"],
    )


def read_price(row: RowMapping) -> Price:
    """Make the noun of a row."""
    return Price(model=row["model"], tiers=row["tiers"], origin=OPERATOR_PRICE, day=row["day"])


def read_switches(row: RowMapping) -> RecipeSwitches:
    """Make the noun of a row."""
    level = None if row["level"] is None else Level(row["level"])
    return RecipeSwitches(
        recipe=row["recipe"], level=level, internet=row["internet"], knowledge=row["knowledge"]
    )


def read_version(row: RowMapping) -> RecipeVersion:
    """Make the noun of a row."""
    return RecipeVersion(**row)


def brain_row(brain: Brain) -> dict[str, Any]:
    """Make the row of a noun."""
    return {
        "name": brain.name,
        "provider": brain.provider,
        "principal": brain.principal,
        "economy": brain.economy,
        "reasoning": brain.reasoning.value,
        "fallback": str(brain.fallback),
        "description": brain.description,
        "news": brain.news,
        "voice": brain.voice,
        "is_default": brain.default,
    }


async def read_brains(connection: AsyncConnection) -> dict[str, Brain]:
    """Give every brain by name, in the order they were added."""
    rows = await connection.execute(select(schema.brains).order_by(schema.brains.c.position))
    return {row["name"]: read_brain(row) for row in rows.mappings()}


def known_brain(known: dict[str, Brain], name: str) -> Brain:
    """Give the brain of that name. Raises `UnknownError`."""
    if name not in known:
        raise UnknownError(f"there is no model {name!r}")
    return known[name]


async def insert_brain(connection: AsyncConnection, brain: Brain, *, position: int) -> None:
    """Write a new brain."""
    check_sizes(schema.brains, brain_row(brain))
    await connection.execute(insert(schema.brains).values(brain_row(brain) | {"position": position}))
    if brain.default:
        await make_default(connection, brain.name)


async def make_default(connection: AsyncConnection, name: str) -> None:
    """Make this brain the default one, and no other."""
    await connection.execute(update(schema.brains).values(is_default=schema.brains.c.name == name))


def check_fallback(brain: Brain, known: dict[str, Brain]) -> None:
    """Refuse a fallback to nobody or, over however many brains, back to this one."""
    seen = {brain.name}
    current = brain
    while isinstance(current.fallback, BrainFallback):
        name = current.fallback.brain
        if name in seen:
            raise RefusalError(f"the fallback of {brain.name!r} leads in a circle over {name!r}")
        if name not in known:
            raise UnknownError(f"{current.name!r} cannot fall back to {name!r}: there is no such model")
        seen.add(name)
        current = known[name]


async def check_project(connection: AsyncConnection, project: str | None) -> None:
    """Refuse a project that does not exist. Raises `UnknownError`."""
    if project is None:
        return
    if not await connection.scalar(select(func.count()).where(schema.projects.c.name == project)):
        raise UnknownError(f"there is no project {project}")


async def end_versions(connection: AsyncConnection, recipe: str, project: str) -> int | None:
    """Take the live text out of force; gives its number."""
    table = schema.recipe_versions
    live = and_(table.c.recipe == recipe, table.c.project == project, table.c.live.is_(True))
    version: int | None = await connection.scalar(select(table.c.version).where(live))
    if version is not None:
        await connection.execute(update(table).where(live).values(live=False))
    return version
