"""`pepper recipe`: what partners can ask for, the operator's switches on it, and projects' own variants."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, UnsetType

from gateway.cli.shared import (
    complain,
    json_option,
    mendable,
    print_done,
    print_json,
    print_table,
    with_stores,
)
from gateway.cli.values import Parsed
from gateway.domain.catalog import Level
from gateway.domain.inputs import AS_THE_FILE, read_name, read_project, read_switch
from gateway.domain.tenants import COMMAND_LINE
from gateway.recipe_files import MAX_FILE_BYTES, check_recipes, default_folder, parse_variant, read_recipes
from gateway.settings import read_settings
from gateway.storage.changes import SwitchChanges

if TYPE_CHECKING:
    from gateway.bootstrap.stores import Stores
    from gateway.domain.catalog import Recipe

FIRST_OWN_VERSION = 2
"""For reading a variant before it is kept; the store counts the versions."""

recipe_argument = click.argument("name", metavar="NAME", type=Parsed("recipe", read_name))


@click.group()
def recipe() -> None:
    """Recipes: what partners can ask for."""


@recipe.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the recipes as they are in force for everybody."""
    recipes = with_stores(_in_force)
    if as_json:
        print_json([_told(one) for one in recipes.values()])
        return
    print_table(
        ("RECIPE", "LEVEL", "INTERNET", "KNOWLEDGE", "EXTRAS", "DESCRIPTION"),
        (
            (
                one.name,
                one.level,
                one.internet,
                one.knowledge,
                [extra.name for extra in one.extras],
                one.description,
            )
            for one in recipes.values()
        ),
    )


def _told(one: Recipe) -> dict[str, object]:
    told: dict[str, object] = {
        "nome": one.name,
        "descrizione": one.description,
        "livello": one.level,
        "internet": one.internet,
        "conoscenza": one.knowledge,
        "extra": [extra.name for extra in one.extras],
    }
    return told if one.partner else told | {"interno": True}


async def _in_force(stores: Stores) -> dict[str, Recipe]:
    """Give every recipe as a project without variants gets it."""
    from gateway.chain.snapshot import Snapshot  # noqa: PLC0415 - help must not wait for the database's library
    from gateway.storage.configuration import read_configuration  # noqa: PLC0415

    snapshot = Snapshot(await read_configuration(stores.database), stores.recipes)
    return {name: snapshot.recipe("", name) or file for name, file in stores.recipes.items()}


def _known(recipes: dict[str, Recipe], name: str) -> Recipe:
    if name not in recipes:
        raise click.ClickException(f"there is no recipe {name} (there are {', '.join(recipes)})")
    return recipes[name]


@recipe.command()
@json_option
def check(*, as_json: bool) -> None:
    """Read every recipe file and tell all that is wrong."""
    with mendable():
        folder = read_settings().recipes or default_folder()
    errors = check_recipes(folder)
    if as_json:
        print_json(
            {
                "ok": not errors,
                "problemi": [{"file": error.file, "problema": error.problem} for error in errors],
            }
        )
    elif not errors:
        click.echo(f"{len(read_recipes(folder))} recipes in {folder}, nothing wrong")
    else:
        for error in errors:
            complain(str(error))
    if errors:
        click.get_current_context().exit(1)


@recipe.command("set")
@recipe_argument
@click.option(
    "--internet",
    metavar="on|off|file",
    type=Parsed("switch", read_switch),
    default=UNSET,
    help="Whether it may search the web, for projects that may; file is as the recipe's file says.",
)
@click.option(
    "--knowledge",
    metavar="on|off|file",
    type=Parsed("switch", read_switch),
    default=UNSET,
    help="Whether it reads the project's knowledge, for projects that may.",
)
@click.option(
    "--level",
    type=click.Choice([*(level.value for level in Level), AS_THE_FILE]),
    help="Which of a Pepper model's two models works for it.",
)
@json_option
def set_(
    *,
    name: str,
    internet: bool | UnsetType | None,
    knowledge: bool | UnsetType | None,
    level: str | None,
    as_json: bool,
) -> None:
    """Switch a recipe for everybody, over what its file says."""
    changes = SwitchChanges(internet=internet, knowledge=knowledge, level=_level(level))
    if changes == SwitchChanges():
        raise click.UsageError("nothing to change: name at least one option")

    async def work(stores: Stores) -> None:
        _known(stores.recipes, name)
        await stores.catalog.set_switches(name, changes, COMMAND_LINE, stores.now())

    with_stores(work)
    print_done(f"recipe {name} changed", as_json=as_json)


def _level(word: str | None) -> Level | UnsetType | None:
    if word is None:
        return UNSET
    return None if word == AS_THE_FILE else Level(word)


@recipe.command()
@recipe_argument
@click.option(
    "--project",
    metavar="P",
    required=True,
    type=Parsed("project", read_project),
    help="The project whose variant it is.",
)
@click.option("--file", metavar="F", help="Instructions, or a whole recipe file; - is standard input.")
@click.option("--remove", is_flag=True, help="Take the variant back: the project gets what all get.")
@json_option
def variant(*, name: str, project: str, file: str | None, remove: bool, as_json: bool) -> None:
    """Give a project its own variant of a recipe, or take it back."""
    if (file is None) is not remove:
        raise click.UsageError("takes either --file F or --remove")

    async def put(stores: Stores, text: str) -> None:
        base = _known(await _in_force(stores), name)
        parse_variant(base, text, project, FIRST_OWN_VERSION, source=file)
        await stores.catalog.add_recipe_version(name, text, COMMAND_LINE, stores.now(), project=project)

    async def take(stores: Stores) -> None:
        await stores.tenants.get_project(project)
        if not await stores.catalog.withdraw_recipe(name, COMMAND_LINE, stores.now(), project=project):
            raise click.ClickException(f"project {project} has no variant of {name}")

    if file is None:
        with_stores(take)
    else:
        text = _read(file)
        with_stores(lambda stores: put(stores, text))
    told = "has no variant any more" if remove else "has its own variant now"
    print_done(f"recipe {name}: project {project} {told}", as_json=as_json)


def _read(file: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise click.ClickException(f"{file}: is larger than {MAX_FILE_BYTES} bytes")
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: is not UTF-8 (at byte {error.start})") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise click.ClickException(f"{file}: can't be read: {getattr(error, 'strerror', error)}") from None
