"""Brains, prices and recipes, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from gateway.domain.catalog import Brain, BrainFallback, Level, ModelFallback, NoFallback, Reasoning
from gateway.domain.tenants import FIRST_START
from gateway.domain.usage import Price, UnitPrice
from gateway.storage.catalog import Catalog
from gateway.storage.changes import BrainChanges, RecipeSwitches, SwitchChanges
from gateway.storage.configuration import read_configuration
from gateway.storage.database import Database
from gateway.storage.first_start import BRAINS
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import ANNA, KINDS, NOW, TODAY, opened, place_of, project


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


@pytest.fixture
def catalog(database: Database) -> Catalog:
    return Catalog(database)


def brain(name: str, **fields: object) -> Brain:
    return Brain(name=name, provider="claude", principal="grande", economy="piccolo", **fields)  # type: ignore[arg-type]


async def test_brains_are_read_as_they_were_added(catalog: Catalog) -> None:
    first = brain(
        "Pepper 9", reasoning=Reasoning.HIGH, description="È così", news="🍋", voice=True, default=True
    )
    second = brain("Pepper 8 · X", fallback=BrainFallback("Pepper 9"))
    third = brain("Pepper 7", fallback=ModelFallback("piccolo"))
    for each in (first, second, third):
        await catalog.add_brain(each, ANNA, NOW)
    assert await catalog.list_brains() == (first, second, third)
    with pytest.raises(DuplicateError):
        await catalog.add_brain(brain("Pepper 9"), ANNA, NOW)


async def test_a_fallback_leads_somewhere_and_never_back(catalog: Catalog) -> None:
    with pytest.raises(UnknownError):
        await catalog.add_brain(brain("a", fallback=BrainFallback("b")), ANNA, NOW)
    with pytest.raises(RefusalError):
        await catalog.add_brain(brain("a", fallback=BrainFallback("a")), ANNA, NOW)
    await catalog.add_brain(brain("a"), ANNA, NOW)
    await catalog.add_brain(brain("b", fallback=BrainFallback("a")), ANNA, NOW)
    await catalog.add_brain(brain("c", fallback=BrainFallback("b")), ANNA, NOW)
    for there in ("a", "b", "c"):
        with pytest.raises(RefusalError):
            await catalog.set_brain("a", BrainChanges(fallback=BrainFallback(there)), ANNA, NOW)
    await catalog.set_brain("b", BrainChanges(fallback=NoFallback()), ANNA, NOW)
    assert [str(each.fallback) for each in await catalog.list_brains()] == ["none", "none", "pepper:b"]


async def test_what_does_not_fit_is_refused_by_both(catalog: Catalog) -> None:
    with pytest.raises(RefusalError):
        await catalog.add_brain(brain("a" * 129), ANNA, NOW)
    await catalog.add_brain(brain("a"), ANNA, NOW)
    with pytest.raises(RefusalError):
        await catalog.set_brain("a", BrainChanges(provider="p" * 33), ANNA, NOW)
    with pytest.raises(RefusalError):
        await catalog.set_switches("r" * 129, SwitchChanges(internet=True), ANNA, NOW)
    with pytest.raises(RefusalError):
        await catalog.add_recipe_version("r" * 129, "testo", ANNA, NOW)


async def test_changes_of_a_brain(catalog: Catalog) -> None:
    await catalog.add_brain(brain("a", news="x", default=True), ANNA, NOW)
    after = await catalog.set_brain(
        "a", BrainChanges(principal="enorme", reasoning=Reasoning.LOW, news=""), ANNA, NOW
    )
    assert (after,) == await catalog.list_brains()
    assert after == msgspec.structs.replace(
        brain("a", default=True), principal="enorme", reasoning=Reasoning.LOW
    )
    with pytest.raises(UnknownError):
        await catalog.set_brain("b", BrainChanges(news=""), ANNA, NOW)


async def test_one_brain_is_the_default(catalog: Catalog) -> None:
    await catalog.add_brain(brain("a", default=True), ANNA, NOW)
    await catalog.add_brain(brain("b", default=True), ANNA, NOW)
    assert [each.default for each in await catalog.list_brains()] == [False, True]
    assert (await catalog.set_default_brain("a", ANNA, NOW)).default
    assert [each.default for each in await catalog.list_brains()] == [True, False]
    with pytest.raises(UnknownError):
        await catalog.set_default_brain("c", ANNA, NOW)


async def test_installing_adds_what_is_missing_and_changes_nothing(catalog: Catalog) -> None:
    await catalog.add_brain(brain("Pepper 6", default=False), ANNA, NOW)
    await catalog.add_brain(brain("mio", default=True), ANNA, NOW)
    installed = await asyncio.gather(*(catalog.install_brains(BRAINS, FIRST_START, NOW) for _ in range(4)))
    assert sorted(len(each) for each in installed) == [0, 0, 0, 2]
    brains = {each.name: each for each in await catalog.list_brains()}
    assert list(brains) == ["Pepper 6", "mio", "Pepper 6 · OpenAI", "Pepper 7"]
    assert brains["Pepper 6"].principal == "grande"
    assert [each.name for each in brains.values() if each.default] == ["mio"]


async def test_prices_of_operators(catalog: Catalog, database: Database) -> None:
    def unit(above: int, price: str) -> UnitPrice:
        return UnitPrice(
            above_input_tokens=above,
            input=Decimal(price),
            output=Decimal("0.123456789"),
            cache_read=Decimal(0),
            cache_write=Decimal("1e-7"),
        )

    price = Price(model="m", tiers=(unit(0, "1.10"), unit(200_000, "2")), origin="altro", day=TODAY)
    kept = await catalog.set_price(price, ANNA, NOW)
    assert kept == msgspec.structs.replace(price, origin="operatore")
    assert await catalog.list_prices() == (kept,)
    await catalog.set_price(msgspec.structs.replace(price, tiers=(unit(0, "3"),)), ANNA, NOW)
    assert [each.tiers for each in await catalog.list_prices()] == [(unit(0, "3"),)]
    assert (await read_configuration(database)).prices["m"].tiers == (unit(0, "3"),)
    for tiers in (
        (),
        (unit(5, "1"),),
        (unit(0, "1"), unit(0, "2")),
        (unit(0, "1"), unit(9, "1"), unit(5, "1")),
    ):
        with pytest.raises(RefusalError):
            await catalog.set_price(msgspec.structs.replace(price, tiers=tiers), ANNA, NOW)


async def test_switches_of_a_recipe(catalog: Catalog, database: Database) -> None:
    await catalog.set_switches("libero", SwitchChanges(internet=True, level=Level.ECONOMY), ANNA, NOW)
    after = await catalog.set_switches("libero", SwitchChanges(knowledge=False, level=None), ANNA, NOW)
    assert after == RecipeSwitches(recipe="libero", internet=True, knowledge=False)
    assert (await read_configuration(database)).switches == {"libero": after}


async def test_versions_of_a_recipe_count_on_from_the_file(catalog: Catalog, database: Database) -> None:
    await Tenants(database).add_project(project(), ANNA)
    second = await catalog.add_recipe_version("libero", "per tutti", ANNA, NOW)
    third = await catalog.add_recipe_version("libero", "per alfa", ANNA, NOW, project="alfa")
    fourth = await catalog.add_recipe_version("libero", "per tutti, meglio", ANNA, NOW)
    assert [each.version for each in (second, third, fourth)] == [2, 3, 4]
    live = (await read_configuration(database)).versions
    assert live == {("libero", ""): fourth, ("libero", "alfa"): third}
    assert [
        (each.version, each.live, each.created_by) for each in await catalog.recipe_history("libero")
    ] == [
        (4, True, "anna"),
        (2, False, "anna"),
    ]
    assert await catalog.withdraw_recipe("libero", ANNA, NOW, project="alfa") is True
    assert await catalog.withdraw_recipe("libero", ANNA, NOW, project="alfa") is False
    assert (await read_configuration(database)).versions == {("libero", ""): fourth}
    assert [each.live for each in await catalog.recipe_history("libero", project="alfa")] == [False]
    with pytest.raises(UnknownError):
        await catalog.add_recipe_version("libero", "x", ANNA, NOW, project="nessuno")
