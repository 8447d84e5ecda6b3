"""`pepper project`: who may call, how often and for how much money."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, UnsetType

from gateway.cli.shared import json_option, local_time, print_done, print_json, print_table, with_stores
from gateway.cli.values import (
    Parsed,
    or_unset,
    read_budget,
    read_domains,
    read_model_choice,
    read_per_hour,
    read_permissions,
    read_project,
)
from gateway.domain.money import dollars
from gateway.domain.secrets import key_digest, new_key
from gateway.domain.tenants import BUILT_IN_PROJECT, COMMAND_LINE, DEFAULT_HOURLY_LIMIT, Permission, Project
from gateway.storage.changes import ProjectChanges, changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.bootstrap.stores import Stores
    from gateway.domain.catalog import Brain

FIRST_KEY_LABEL = "prima chiave"
LIVE_SECONDS = 15.0
"""A node heard of since then may still be serving."""
CHANGE_SECONDS = 2.0
"""Until every worker knows of a change."""

project_argument = click.argument("name", metavar="NAME", type=Parsed("project", read_project))


@click.group()
def project() -> None:
    """Projects: who may call, how often, for how much money."""


def project_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a project, gathered as the parameter `changes`."""

    @wraps(command)
    def gathered(
        *,
        allow: frozenset[Permission] | UnsetType,
        per_hour: int | UnsetType,
        daily_budget: int | UnsetType | None,
        model: str | UnsetType | None,
        domains: tuple[str, ...] | UnsetType,
        sandbox: bool | None,
        name: str,
        as_json: bool,
    ) -> None:
        changes = ProjectChanges(
            permissions=allow,
            hourly_limit=per_hour,
            daily_budget=daily_budget,
            brain=model,
            domains=domains,
            sandbox=or_unset(sandbox),
        )
        command(name=name, changes=changes, as_json=as_json)

    for option in reversed(_OPTIONS):
        option(gathered)
    return gathered


_OPTIONS = (
    click.option(
        "--allow",
        metavar="NAMES",
        type=Parsed("names", read_permissions),
        default=UNSET,
        help=f"Permissions, separated by commas: {', '.join(Permission)}; '' for none.",
    ),
    click.option(
        "--per-hour",
        metavar="N",
        type=Parsed("number", read_per_hour),
        default=UNSET,
        help=f"Calls in any hour; {DEFAULT_HOURLY_LIMIT} unless set.",
    ),
    click.option(
        "--daily-budget",
        metavar="USD|none",
        type=Parsed("amount", read_budget),
        default=UNSET,
        help="What it may spend in a day, in US dollars; none, as unless set, is no cap.",
    ),
    click.option(
        "--model",
        metavar="NAME",
        type=Parsed("name", read_model_choice),
        default=UNSET,
        help="The Pepper model it talks to; default is whichever is the default one.",
    ),
    click.option(
        "--domains",
        metavar="HOSTS",
        type=Parsed("hosts", read_domains),
        default=UNSET,
        help="The only web domains it may search, separated by commas; '' for any.",
    ),
    click.option(
        "--sandbox/--no-sandbox",
        default=None,
        help="Whether its calls end in the built-in test provider and cost nothing.",
    ),
)


@project.command()
@project_argument
@project_options
@json_option
def add(*, name: str, changes: ProjectChanges, as_json: bool) -> None:
    """Create a project and its first key, which is shown only now."""
    if name == BUILT_IN_PROJECT:
        raise click.ClickException(f"the name {name} is reserved for the gateway's own project")

    key = with_stores(lambda stores: _add(stores, name, changes))
    if as_json:
        print_json({"progetto": name, "chiave": key})
    else:
        click.echo(f"project {name} created; its key, shown only now: {key}")


async def _add(stores: Stores, name: str, changes: ProjectChanges) -> str:
    """Create project and key in one transaction: there is never a project whose key nobody saw."""
    from gateway.storage.tenant_rows import add_key, add_project  # noqa: PLC0415 - help must not wait for it

    now = stores.now()
    key = new_key()
    digest = key_digest(stores.secret, key)
    fresh = changed(Project(name=name, created_at=now), changes)

    async def work(connection: Any) -> None:
        await add_project(connection, fresh, COMMAND_LINE)
        await add_key(connection, name, digest=digest, label=FIRST_KEY_LABEL, by=COMMAND_LINE, at=now)

    await stores.database.transact(work)
    return key


@project.command("set")
@project_argument
@project_options
@json_option
def set_(*, name: str, changes: ProjectChanges, as_json: bool) -> None:
    """Change what is named of a project; the rest stays."""
    if changes == ProjectChanges():
        raise click.UsageError("nothing to change: name at least one option")

    async def work(stores: Stores) -> None:
        await stores.tenants.set_project(name, changes, COMMAND_LINE, stores.now())

    with_stores(work)
    print_done(f"project {name} changed", as_json=as_json)


@project.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List all projects, the gateway's own included."""

    async def work(stores: Stores) -> list[dict[str, object]]:
        brains = await stores.catalog.list_brains()
        zone = stores.settings.timezone
        return [
            _told(one, brains) | {"creato_il": local_time(one.created_at, zone)} | _internal(one)
            for one in await stores.tenants.list_projects()
        ]

    projects = with_stores(work)
    if as_json:
        print_json(projects)
        return
    headings = (
        "PROJECT",
        "ACTIVE",
        "PERMISSIONS",
        "PER HOUR",
        "DAILY USD",
        "MODEL",
        "DOMAINS",
        "SANDBOX",
        "CREATED",
    )
    print_table(headings, (list(told.values())[: len(headings)] for told in projects))


def _told(one: Project, brains: Sequence[Brain]) -> dict[str, object]:
    default = next((brain.name for brain in brains if brain.default), None)
    return {
        "progetto": one.name,
        "attivo": one.active,
        "permessi": [permission for permission in Permission if one.may(permission)],
        "limite_orario": one.hourly_limit,
        "tetto_usd": None if one.daily_budget is None else dollars(one.daily_budget),
        "modello": one.brain or default,
        "domini": one.domains,
        "prova": one.sandbox,
    }


def _internal(one: Project) -> dict[str, object]:
    return {"interno": True} if one.internal else {}


@project.command()
@project_argument
@json_option
def disable(*, name: str, as_json: bool) -> None:
    """Answer a project's keys as if they were unknown."""

    async def work(stores: Stores) -> None:
        await stores.tenants.disable_project(name, COMMAND_LINE, stores.now())

    with_stores(work)
    print_done(f"project {name} disabled", as_json=as_json)


@project.command()
@project_argument
@json_option
def enable(*, name: str, as_json: bool) -> None:
    """Let a disabled project call again."""

    async def work(stores: Stores) -> None:
        await stores.tenants.enable_project(name, COMMAND_LINE, stores.now())

    with_stores(work)
    print_done(f"project {name} enabled", as_json=as_json)


@project.command()
@project_argument
@click.option("--yes", is_flag=True, help="Say that you mean it: there is no way back.")
@json_option
def remove(*, name: str, yes: bool, as_json: bool) -> None:
    """Delete a project for good; the ledger keeps its calls, anonymous."""
    if not yes:
        raise click.UsageError(
            f"removing {name} deletes its keys, conversations and caches for good: add --yes"
        )
    label = with_stores(lambda stores: _remove(stores, name))
    print_done(f"project {name} removed; in the ledger it is now {label}", as_json=as_json)


async def _remove(stores: Stores, name: str) -> str:
    from gateway.bootstrap.gates import open_gate  # noqa: PLC0415 - help must not wait for it
    from gateway.storage.refusals import UnknownError  # noqa: PLC0415

    gate = open_gate(stores.settings)
    try:
        # Nothing is begun that the key-value store would keep from being finished.
        await gate.ping()
        if await stores.nodes.live_nodes(LIVE_SECONDS):
            # Workers learn of it first, so that no call is written under the name after it has gone.
            with suppress(UnknownError):
                if not (await stores.tenants.get_project(name)).internal:
                    await stores.tenants.disable_project(name, COMMAND_LINE, stores.now())
                    await asyncio.sleep(CHANGE_SECONDS)
        try:
            label = await stores.tenants.remove_project(name, COMMAND_LINE, stores.now())
        except UnknownError:
            # Perhaps an earlier removal was interrupted between the two stores.
            await gate.forget_project(name)
            raise
        await gate.forget_project(name)
        return label
    finally:
        await gate.close()
