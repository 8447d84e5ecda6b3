"""Notices on the command line: the secret that signs them, shown once, and how they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gateway.cli.shared import local_time
from gateway.domain.notices import read_public_url, secret_purpose
from gateway.domain.secrets import new_signing_secret

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gateway.bootstrap.stores import Stores
    from gateway.domain.notices import Notice
    from gateway.storage.changes import ProjectChanges

NOTICE_HEADINGS = (
    "NOTICE",
    "BATCH",
    "STATE",
    "TEXTS",
    "MADE",
    "ATTEMPTS",
    "OUTCOME",
    "TRIED",
    "DELIVERED",
    "NEXT",
)


def signing(stores: Stores, name: str, changes: ProjectChanges) -> tuple[str | None, bytes | None]:
    """Make the secret that signs notices, plain and sealed, where an address is being set."""
    from gateway.storage.sealing import Seal  # noqa: PLC0415 - help must not wait for it

    if not isinstance(changes.notice_url, str):
        return None, None
    try:
        read_public_url(changes.notice_url, private=stores.settings.webhook_private)
    except ValueError as error:
        raise click.ClickException(f"--notify-url {error}") from None
    secret = new_signing_secret()
    return secret, Seal(stores.secret).close(secret_purpose(name), secret)


def shown(secret: str | None) -> dict[str, object]:
    """Give what a JSON reply has of a new secret."""
    return {} if secret is None else {"avviso_segreto": secret}


def show(secret: str | None) -> None:
    """Print a new secret, if there is one."""
    if secret is not None:
        click.echo(f"its notices are signed with a secret, shown only now: {secret}")


def told_notice(one: Notice, zone: ZoneInfo) -> dict[str, object]:
    """Give a notice as a listing shows it."""
    return {
        "avviso": one.id,
        "pratica": one.batch,
        "stato": one.state.value,
        "quanti": one.total,
        "creato_il": local_time(one.created_at, zone),
        "tentativi": one.attempts,
        "esito": one.outcome,
        "tentato_il": local_time(one.attempted_at, zone),
        "consegnato_il": local_time(one.delivered_at, zone),
        "prossimo_il": local_time(one.due_at, zone),
    }
