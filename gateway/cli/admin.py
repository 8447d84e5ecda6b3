"""`pepper admin`: who may use the panel. A person without a password gets a link to choose one, once, within 24 hours."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from gateway.cli.shared import json_option, local_time, print_done, print_json, print_table, with_stores
from gateway.domain.operators import MAXIMUM_PASSWORD, MINIMUM_PASSWORD, Account, Role, normal_email
from gateway.domain.tenants import COMMAND_LINE

if TYPE_CHECKING:
    from gateway.bootstrap.stores import Stores

DEFAULT_ADDRESS = "http://127.0.0.1:8080"


class Made(msgspec.Struct, frozen=True):
    """What was made of an account; `token` is None when it has its password."""

    account: Account
    token: str | None


@click.group()
def admin() -> None:
    """Administrators: who may use the panel, and what they may do there."""


def _email(_: click.Context, __: click.Parameter, value: str) -> str:
    email = normal_email(value)
    if email is None:
        raise click.BadParameter("takes an e-mail address")
    return email


email_argument = click.argument("email", metavar="EMAIL", callback=_email)


@admin.command()
@email_argument
@click.option(
    "--role",
    type=click.Choice([role.value for role in reversed(Role)]),
    default=Role.OWNER.value,
    help="What they may do: everything; the configuration; look. Default: owner.",
)
@click.option(
    "--password-stdin",
    is_flag=True,
    help="Read their password from standard input instead of making a set-up link.",
)
@json_option
def add(*, email: str, role: str, password_stdin: bool, as_json: bool) -> None:
    """Let a person in, or give one who is in already a new link, password or role."""
    password = _read_password() if password_stdin else None
    named = click.get_current_context().get_parameter_source("role") is not click.core.ParameterSource.DEFAULT

    async def work(stores: Stores) -> Made:
        from gateway.storage.operators import Operators  # noqa: PLC0415 - help must not wait for the database's library
        from gateway.storage.passwords import hash_password  # noqa: PLC0415

        operators = Operators(stores.database)
        hashed = None if password is None else await hash_password(password)
        found = await operators.credentials(email)
        if found is None:
            account = await operators.add(email, Role(role), COMMAND_LINE, stores.now(), password=hashed)
        else:
            account = found.account
            if named:
                account = await operators.change(account.id, COMMAND_LINE, stores.now(), role=Role(role))
            if hashed is not None:
                account = await operators.set_password(account.id, hashed, COMMAND_LINE, stores.now())
        token = await operators.make_link(account.id, COMMAND_LINE, stores.now()) if hashed is None else None
        return Made(account, token)

    made = with_stores(work)
    link = None if made.token is None else set_up_address(made.token)
    if as_json:
        print_json({"email": made.account.email, "ruolo": made.account.role.value, "link": link})
    elif link is None:
        click.echo(f"{made.account.email} may use the panel ({made.account.role.value})")
    else:
        click.echo(
            f"{made.account.email} ({made.account.role.value}): link to choose a password, good once and for 24 hours:"
        )
        click.echo(link)


@admin.command()
@email_argument
@click.option("--yes", is_flag=True, required=True, help="Yes, really.")
@json_option
def remove(*, email: str, yes: bool, as_json: bool) -> None:  # noqa: ARG001 - asked for, that is its purpose
    """Let a person in no longer."""

    async def work(stores: Stores) -> None:
        from gateway.storage.operators import Operators  # noqa: PLC0415 - as above

        operators = Operators(stores.database)
        found = await operators.credentials(email)
        if found is None:
            raise click.ClickException(f"{email} is no administrator (pepper admin list)")
        await operators.remove(found.account.id, COMMAND_LINE, stores.now())

    with_stores(work)
    print_done(f"{email} removed", as_json=as_json)


@admin.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List who may use the panel."""

    async def work(stores: Stores) -> list[dict[str, object]]:
        from gateway.storage.operators import Operators  # noqa: PLC0415 - as above

        zone = stores.settings.timezone
        return [
            {
                "email": one.email,
                "ruolo": one.role.value,
                "attivo": one.active,
                "password": one.has_password,
                "due_fattori": one.has_totp,
                "ultimo_accesso": local_time(one.last_login, zone),
            }
            for one in await Operators(stores.database).list_accounts()
        ]

    people = with_stores(work)
    if as_json:
        print_json(people)
    else:
        headings = ("EMAIL", "ROLE", "ACTIVE", "PASSWORD", "2 FACTORS", "LAST LOGIN")
        print_table(headings, (tuple(one.values()) for one in people))


def set_up_address(token: str, base: str = DEFAULT_ADDRESS) -> str:
    """Where a link's password is chosen; whoever serves elsewhere puts their own host in."""
    return f"{base}/panel/set-up/{token}"


def _read_password() -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not MINIMUM_PASSWORD <= len(password) <= MAXIMUM_PASSWORD:
        raise click.ClickException(f"a password has {MINIMUM_PASSWORD} to {MAXIMUM_PASSWORD} characters")
    return password
