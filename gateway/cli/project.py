"""`pepper project`: who may call, how often and for how much money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gateway.cli.notices import NOTICE_HEADINGS, show, shown, signing, told_notice
from gateway.cli.project_options import project_options
from gateway.cli.shared import json_option, local_time, print_done, print_json, print_table, with_stores
from gateway.cli.values import Parsed
from gateway.domain.inputs import read_project
from gateway.domain.money import dollars
from gateway.domain.secrets import key_digest, new_key
from gateway.domain.tenants import BUILT_IN_PROJECT, COMMAND_LINE, Permission, Project
from gateway.storage.changes import ProjectChanges, changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.bootstrap.stores import Stores
    from gateway.domain.catalog import Brain

FIRST_KEY_LABEL = "prima chiave"

project_argument = click.argument("name", metavar="NAME", type=Parsed("project", read_project))


@click.group()
def project() -> None:
    """Projects: who may call, how often, for how much money."""


@project.command()
@project_argument
@project_options
@json_option
def add(*, name: str, changes: ProjectChanges, as_json: bool) -> None:
    """Create a project and its first key, which is shown only now."""
    if name == BUILT_IN_PROJECT:
        raise click.ClickException(f"the name {name} is reserved for the gateway's own project")

    key, secret = with_stores(lambda stores: _add(stores, name, changes))
    if as_json:
        print_json({"progetto": name, "chiave": key} | shown(secret))
        return
    click.echo(f"project {name} created; its key, shown only now: {key}")
    show(secret)


async def _add(stores: Stores, name: str, changes: ProjectChanges) -> tuple[str, str | None]:
    """Create project and key in one transaction: there is never a project whose key nobody saw."""
    from gateway.storage.tenant_rows import add_key, add_project  # noqa: PLC0415 - help must not wait for it

    now = stores.now()
    key = new_key()
    digest = key_digest(stores.secret, key)
    fresh = changed(Project(name=name, created_at=now), changes)
    secret, sealed = signing(stores, name, changes)

    async def work(connection: Any) -> None:
        await add_project(connection, fresh, COMMAND_LINE, notice_secret=sealed)
        await add_key(connection, name, digest=digest, label=FIRST_KEY_LABEL, by=COMMAND_LINE, at=now)

    await stores.database.transact(work)
    return key, secret


@project.command("set")
@project_argument
@project_options
@json_option
def set_(*, name: str, changes: ProjectChanges, as_json: bool) -> None:
    """Change what is named of a project; the rest stays."""
    if changes == ProjectChanges():
        raise click.UsageError("nothing to change: name at least one option")

    async def work(stores: Stores) -> str | None:
        secret, sealed = signing(stores, name, changes)
        await stores.tenants.set_project(name, changes, COMMAND_LINE, stores.now(), notice_secret=sealed)
        return secret

    secret = with_stores(work)
    if as_json:
        print_json({"ok": True} | shown(secret))
        return
    click.echo(f"project {name} changed")
    show(secret)


@project.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List all projects, the gateway's own included."""

    async def work(stores: Stores) -> list[dict[str, object]]:
        brains = await stores.catalog.list_brains()
        zone = stores.settings.timezone
        return [
            _told(one, brains) | {"creato_il": local_time(one.created_at, zone)} | _rarely(one)
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


def _rarely(one: Project) -> dict[str, object]:
    """What few projects have."""
    internal: dict[str, object] = {"interno": True} if one.internal else {}
    return internal if one.notice_url is None else internal | {"avviso_url": one.notice_url}


@project.command()
@project_argument
@json_option
def notices(*, name: str, as_json: bool) -> None:
    """List the newest 100 notices of a project, and what became of each."""

    async def work(stores: Stores) -> list[dict[str, object]]:
        from gateway.storage.notices import Notices  # noqa: PLC0415 - help must not wait for it

        await stores.tenants.get_project(name)
        zone = stores.settings.timezone
        return [told_notice(one, zone) for one in await Notices(stores.database).recent(name)]

    found = with_stores(work)
    if as_json:
        print_json(found)
        return
    print_table(NOTICE_HEADINGS, (list(told.values()) for told in found))


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
            f"removing {name} deletes its keys, conversations, documents and caches for good: add --yes"
        )
    label = with_stores(lambda stores: _remove(stores, name))
    print_done(f"project {name} removed; in the ledger it is now {label}", as_json=as_json)


async def _remove(stores: Stores, name: str) -> str:
    from gateway.bootstrap.gates import open_gate  # noqa: PLC0415 - help must not wait for it
    from gateway.bootstrap.indexes import open_index  # noqa: PLC0415
    from gateway.chain.removal import Removal  # noqa: PLC0415

    gate, index = open_gate(stores.settings), open_index(stores.settings)
    try:
        return await Removal(stores.tenants, stores.nodes, gate, index, stores.now).remove(name, COMMAND_LINE)
    finally:
        await index.close()
        await gate.close()
