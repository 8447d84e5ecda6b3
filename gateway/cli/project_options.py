"""The options of a project, gathered for the commands that set them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import click
from msgspec import UNSET, UnsetType

from gateway.cli.values import Parsed, or_unset
from gateway.domain.inputs import (
    read_budget,
    read_domains,
    read_model_choice,
    read_notice_url,
    read_per_hour,
    read_permissions,
)
from gateway.domain.tenants import DEFAULT_HOURLY_LIMIT, Permission
from gateway.storage.changes import ProjectChanges


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
        notify_url: str | UnsetType | None,
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
            notice_url=notify_url,
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
    click.option(
        "--notify-url",
        metavar="URL|none",
        type=Parsed("address", read_notice_url),
        default=UNSET,
        help="Where it is told that deferred work has ended; the signing secret is shown once. None, as unless set, is nowhere.",
    ),
)
