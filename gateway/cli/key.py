"""`pepper key`: several keys of a project may be live, so that they can be changed without downtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gateway.cli.project import project_argument
from gateway.cli.shared import json_option, local_time, print_done, print_json, print_table, with_stores
from gateway.cli.values import Parsed
from gateway.domain.inputs import read_key_id, read_label
from gateway.domain.secrets import key_digest, new_key
from gateway.domain.tenants import COMMAND_LINE

if TYPE_CHECKING:
    from gateway.bootstrap.stores import Stores


@click.group()
def key() -> None:
    """Keys of projects; several may be live at once."""


@key.command()
@project_argument
@click.option(
    "--label",
    metavar="L",
    default="",
    type=Parsed("label", read_label),
    help="Something to know the key by, such as the machine that uses it.",
)
@json_option
def add(*, name: str, label: str, as_json: bool) -> None:
    """Give a project one more key, which is shown only now."""

    async def work(stores: Stores) -> tuple[str, int]:
        made = new_key()
        kept = await stores.tenants.add_key(
            name, key_digest(stores.secret, made), label, COMMAND_LINE, stores.now()
        )
        return made, kept.id

    made, key_id = with_stores(work)
    if as_json:
        print_json({"progetto": name, "chiave": made, "id": key_id})
    else:
        click.echo(f"key {key_id} of project {name}, shown only now: {made}")


@key.command()
@project_argument
@click.argument("key_id", metavar="ID", type=Parsed("id", read_key_id))
@json_option
def revoke(*, name: str, key_id: int, as_json: bool) -> None:
    """End a key for good."""

    async def work(stores: Stores) -> None:
        await stores.tenants.get_project(name)
        if not await stores.tenants.revoke_key(name, key_id, COMMAND_LINE, stores.now()):
            raise click.ClickException(f"project {name} has no live key {key_id} (pepper key list {name})")

    with_stores(work)
    print_done(f"key {key_id} of project {name} revoked", as_json=as_json)


@key.command("list")
@project_argument
@json_option
def list_(*, name: str, as_json: bool) -> None:
    """List a project's keys, revoked ones too, without their secrets."""

    async def work(stores: Stores) -> list[dict[str, object]]:
        zone = stores.settings.timezone
        return [
            {
                "id": one.id,
                "etichetta": one.label,
                "creata_il": local_time(one.created_at, zone),
                "ultimo_uso": local_time(one.last_used, zone),
                "revocata_il": local_time(one.revoked_at, zone),
            }
            for one in await stores.tenants.list_keys(name)
        ]

    keys = with_stores(work)
    if as_json:
        print_json(keys)
    else:
        print_table(("ID", "LABEL", "CREATED", "LAST USED", "REVOKED"), (tuple(one.values()) for one in keys))
