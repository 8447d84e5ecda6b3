"""`pepper dilem`: what the users of Dilem wrote to the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from gateway.cli.shared import json_option, local_time, print_json, print_table, with_stores

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gateway.bootstrap.stores import Stores
    from gateway.storage.dilem.reports import Report

MOST = 10_000


@click.group()
def dilem() -> None:
    """Dilem, the second front door: what its users report."""


@dilem.command()
@click.option(
    "--limit",
    metavar="N",
    default=100,
    show_default=True,
    type=click.IntRange(1, MOST),
    help="How many, the newest first.",
)
@json_option
def reports(*, limit: int, as_json: bool) -> None:
    """List what users of Dilem sent to the operator, the newest first."""
    from gateway.storage.dilem.reports import Reports  # noqa: PLC0415 - help must not wait for it

    async def work(stores: Stores) -> list[dict[str, object]]:
        zone = stores.settings.timezone
        return [_told(report, zone) for report in await Reports(stores.database).newest(limit)]

    found = with_stores(work)
    if as_json:
        print_json(found)
    else:
        rows = ((one["ricevuta_il"], one["tipo"], one["email"], one["messaggio"]) for one in found)
        print_table(("RECEIVED", "KIND", "EMAIL", "MESSAGE"), rows)


def _told(report: Report, zone: ZoneInfo) -> dict[str, object]:
    from gateway.dilem.contract import UserFeedback  # noqa: PLC0415 - as above

    content = msgspec.json.decode(report.payload, type=UserFeedback)
    response = content.response
    return {
        "id": report.request_id,
        "ricevuta_il": local_time(report.created_at, zone),
        "tipo": content.kind,
        "messaggio": content.message,
        "email": content.email,
        "lingua": content.language,
        "origine": content.source,
        "schermata": content.screen,
        "versione": content.version,
        "risposta": response
        and {"tipo": response.kind, "testo": response.text, "riferimento": response.reference},
    }
