"""The recipes that come with the gateway, and what `docs/recipes.md` says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.domain.catalog import THINKING_ALLOWANCE, Extra, ExtraKind, Level, Reasoning, Recipe
from gateway.recipe_files import (
    LIST_LIMITS,
    check_recipes,
    default_folder,
    instructions_for,
    read_extras,
    read_recipes,
)

DOCS = Path(__file__).parents[2] / "docs" / "recipes.md"
FIVE = ["riassumi", "correggi", "estrai", "classifica", "libero"]
RECIPES = {name: recipe for name, recipe in read_recipes(default_folder()).items() if recipe.partner}

every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())


def bounds(extra: Extra) -> str:
    """The words of the documentation for an extra's bounds."""
    if extra.kind is ExtraKind.TEXT:
        return f"at most {extra.maximum} characters"
    if extra.kind is ExtraKind.INTEGER:
        return f"{extra.minimum} to {extra.maximum}"
    if extra.kind in LIST_LIMITS:
        fewest, most, _ = LIST_LIMITS[extra.kind]
        return f"{fewest} to {most} names"
    return ""


def test_all_files_are_valid() -> None:
    assert check_recipes(default_folder()) == []
    assert list(RECIPES) == FIVE


def test_levels_cache_and_shapes_are_those_decided() -> None:
    levels = {name: recipe.level for name, recipe in RECIPES.items()}
    assert levels == {
        "riassumi": Level.PRINCIPAL,
        "correggi": Level.ECONOMY,
        "estrai": Level.PRINCIPAL,
        "classifica": Level.ECONOMY,
        "libero": Level.PRINCIPAL,
    }
    assert {name: recipe.cache_hours for name, recipe in RECIPES.items()} == dict(
        zip(FIVE, [1, 1, 1, 1, 0], strict=True)
    )
    assert not any(recipe.internet or recipe.knowledge for recipe in RECIPES.values())
    shapes = {
        (recipe.name, extra.name): extra.kind
        for recipe in RECIPES.values()
        for extra in recipe.extras
        if extra.kind in LIST_LIMITS
    }
    assert shapes == {
        ("estrai", "campi"): ExtraKind.FIELDS,
        ("classifica", "categorie"): ExtraKind.CATEGORIES,
    }


@pytest.mark.parametrize("characters", [1, 300, 5_000, 50_000, 100_000])
def test_a_correction_has_room_for_the_whole_text(characters: int) -> None:
    text = ("Perchè no? Così è, se vi pare. " * 4_000)[:characters]
    estimate = len(text.encode()) // 3
    assert RECIPES["correggi"].answer_tokens(estimate) >= min(1.6 * estimate + 500, 50_000)


@every_recipe
def test_an_answer_and_its_thinking_fit_what_the_models_can_write(recipe: Recipe) -> None:
    most_of_haiku_4_5 = 64_000
    assert recipe.max_tokens + THINKING_ALLOWANCE[Reasoning.MEDIUM] <= most_of_haiku_4_5


def test_a_summary_has_room_for_the_words_it_may_ask_for() -> None:
    words = next(extra.maximum for extra in RECIPES["riassumi"].extras if extra.name == "parole")
    assert words is not None
    text_of_as_many_words = words * 6 // 3
    assert RECIPES["riassumi"].answer_tokens(text_of_as_many_words) >= 2 * words


@every_recipe
def test_the_instructions_are_kept_short_and_clean(recipe: Recipe) -> None:
    text = recipe.instructions
    assert 1_000 < len(text) < 6_000
    assert "{valore}" not in text
    assert "\t" not in text
    assert "  " not in text
    assert "perchè" not in text.replace("«perchè»", "")


@every_recipe
def test_orders_inside_a_text_are_spoken_of(recipe: Recipe) -> None:
    assert "«ignora le istruzioni»" in recipe.instructions
    assert "materiale" in recipe.instructions
    assert "## Casi particolari" in recipe.instructions


@every_recipe
def test_every_extra_says_something(recipe: Recipe) -> None:
    for extra in recipe.extras:
        assert extra.instruction.endswith(".")
        assert extra.description.endswith(".")
        value: object = {
            ExtraKind.TEXT: "en",
            ExtraKind.FLAG: True,
            ExtraKind.INTEGER: extra.minimum,
            ExtraKind.FIELDS: ["a"],
            ExtraKind.CATEGORIES: ["a", "b"],
        }[extra.kind]
        block = instructions_for(recipe, read_extras(recipe, {extra.name: value}))
        assert len(block.splitlines()) == 6
        assert "{valore}" not in block


# --- the documentation


def section(heading: str) -> str:
    text = DOCS.read_text()
    assert text.count(f"\n{heading}\n") == 1
    return text.partition(f"\n{heading}\n")[2].partition("\n#")[0]


@every_recipe
def test_the_table_of_recipes_says_what_the_file_says(recipe: Recipe) -> None:
    row = (
        f"| `{recipe.name}` | {recipe.level} | {recipe.max_tokens} | {recipe.base_tokens} "
        f"| {recipe.tokens_per_input:g} | {recipe.cache_hours:g} |"
    )
    assert row in section("## The five recipes").splitlines()


@every_recipe
def test_the_table_of_extras_says_what_the_file_says(recipe: Recipe) -> None:
    rows = [line for line in section(f"### `{recipe.name}`").splitlines() if line.startswith("| `")]
    expected = [
        f"| `{extra.name}` | {extra.kind} | {bounds(extra)} |".replace("|  |", "| |")
        for extra in recipe.extras
    ]
    assert len(rows) == len(expected)
    for row, beginning in zip(rows, expected, strict=True):
        assert row.startswith(beginning)
        assert len(row) > len(beginning) + 10


def test_the_documented_example_is_a_recipe(tmp_path: Path) -> None:
    example = DOCS.read_text().partition("```markdown\n")[2].partition("```")[0]
    (tmp_path / "oggetto.md").write_text(example)
    assert check_recipes(tmp_path) == []
