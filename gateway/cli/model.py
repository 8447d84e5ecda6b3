"""`pepper model`: the Pepper models, their two providers' models each, and who answers when they can't."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, UnsetType

from gateway.cli.shared import json_option, notice, print_done, print_json, print_table, with_stores
from gateway.cli.values import Parsed, or_unset
from gateway.domain.catalog import Brain, Fallback, Reasoning
from gateway.domain.inputs import DEFAULT, read_fallback, read_name, read_text
from gateway.domain.tenants import COMMAND_LINE
from gateway.storage.changes import BrainChanges, changed

if TYPE_CHECKING:
    from gateway.bootstrap.stores import Stores

PROVIDERS = ("claude", "openai")
ON_OFF = click.Choice(["on", "off"])

name_argument = click.argument("name", metavar="NAME", type=Parsed("name", read_name))


@click.group()
def model() -> None:
    """Pepper models: what partners talk to, and who answers for them."""


def model_options(*, new: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a Pepper model, gathered as the parameter `changes`.

    Args:
        new: The model is being made, so that some of them cannot be left out.

    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def gathered(
            *,
            provider: str | None,
            main: str | None,
            economy: str | None,
            reasoning: str | None,
            fallback: Fallback | UnsetType,
            description: str | None,
            news: str | None,
            voice: str | None,
            name: str,
            as_json: bool,
        ) -> None:
            changes = BrainChanges(
                provider=or_unset(provider),
                principal=or_unset(main),
                economy=or_unset(economy),
                reasoning=UNSET if reasoning is None else Reasoning(reasoning),
                fallback=fallback,
                description=or_unset(description),
                news=or_unset(news),
                voice=UNSET if voice is None else voice == "on",
            )
            command(name=name, changes=changes, as_json=as_json)

        for option in reversed(_options(new=new)):
            option(gathered)
        return gathered

    return decorate


def _options(*, new: bool) -> tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...]:
    return (
        click.option("--provider", type=click.Choice(PROVIDERS), required=new, help="Who is asked."),
        click.option(
            "--main",
            metavar="M",
            type=Parsed("model", read_name),
            required=new,
            help="The provider's model for recipes of level principale.",
        ),
        click.option(
            "--economy",
            metavar="M",
            type=Parsed("model", read_name),
            required=new,
            help="The provider's model for recipes of level economico.",
        ),
        click.option(
            "--reasoning",
            type=click.Choice([one.value for one in Reasoning]),
            help="How much it thinks before it answers; off unless set.",
        ),
        click.option(
            "--fallback",
            metavar="none|model:ID|pepper:NAME",
            type=Parsed("fallback", read_fallback),
            default=UNSET,
            help="Who answers when it can't: nobody (unless set), a model of its provider, a Pepper model.",
        ),
        click.option(
            "--description", metavar="T", type=Parsed("text", read_text), help="What partners read about it."
        ),
        click.option("--news", metavar="T", type=Parsed("text", read_text), help="What is new about it."),
        click.option("--voice", type=ON_OFF, help="Whether it serves voice; off unless set."),
    )


@model.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the Pepper models in the order they were added."""

    async def work(stores: Stores) -> list[dict[str, object]]:
        return [_told(one) for one in await stores.catalog.list_brains()]

    models = with_stores(work)
    if as_json:
        print_json(models)
    else:
        headings = ("MODEL", "DEFAULT", "PROVIDER", "MAIN", "ECONOMY", "REASONING", "FALLBACK")
        print_table(headings, (tuple(one.values()) for one in models))


def _told(one: Brain) -> dict[str, object]:
    return {
        "nome": one.name,
        "predefinito": one.default,
        "provider": one.provider,
        "principale": one.principal,
        "economico": one.economy,
        "ragionamento": one.reasoning,
        "ripiego": str(one.fallback),
    }


@model.command()
@name_argument
@model_options(new=True)
@json_option
def add(*, name: str, changes: BrainChanges, as_json: bool) -> None:
    """Add a Pepper model, for projects to choose."""
    if name == DEFAULT:
        raise click.ClickException(
            f"the name {name} is reserved: project set --model {name} means something else"
        )

    async def work(stores: Stores) -> None:
        bare = Brain(name=name, provider="", principal="", economy="")
        await stores.catalog.add_brain(changed(bare, changes), COMMAND_LINE, stores.now())
        await _warn(stores, name)

    with_stores(work)
    print_done(f"model {name} added", as_json=as_json)


@model.command("set")
@name_argument
@model_options(new=False)
@json_option
def set_(*, name: str, changes: BrainChanges, as_json: bool) -> None:
    """Change what is named of a Pepper model; the rest stays."""
    if changes == BrainChanges():
        raise click.UsageError("nothing to change: name at least one option")

    async def work(stores: Stores) -> None:
        await stores.catalog.set_brain(name, changes, COMMAND_LINE, stores.now())
        await _warn(stores, name)

    with_stores(work)
    print_done(f"model {name} changed", as_json=as_json)


@model.command()
@name_argument
@json_option
def default(*, name: str, as_json: bool) -> None:
    """Make this the Pepper model of projects that have chosen none."""

    async def work(stores: Stores) -> None:
        await stores.catalog.set_default_brain(name, COMMAND_LINE, stores.now())

    with_stores(work)
    print_done(f"model {name} is the default now", as_json=as_json)


async def _warn(stores: Stores, name: str) -> None:
    """Say which models of a Pepper model can't be used yet."""
    from gateway.chain.pricing import read_models  # noqa: PLC0415 - help must not wait for the database's library

    for used in await read_models(stores.database, stores.recipes):
        if name in used.brains and used.price is None:
            notice(
                f"warning: nobody knows what {used.model} costs, so it can't be used:"
                f" pepper price set {used.model} --input USD --output USD"
            )
