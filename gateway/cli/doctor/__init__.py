"""`pepper doctor`: everything that can be checked without serving, each problem with what mends it.

What it says is Italian, like the rest of what operators' scripts read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gateway.cli.doctor.problem import Problem
from gateway.cli.shared import json_option, one_line, print_json
from gateway.settings import SettingError, read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@json_option
def doctor(*, as_json: bool) -> None:
    """Check settings, stores, provider keys, recipes and prices, and say what to mend."""
    problems = _problems()
    if as_json:
        print_json({"ok": not problems, "problemi": problems})
    elif not problems:
        click.echo("tutto a posto")
    else:
        for problem in problems:
            click.echo(f"{one_line(problem.cosa)}\n    rimedio: {one_line(problem.rimedio)}")
    if problems:
        click.get_current_context().exit(1)


def _problems() -> Sequence[Problem]:
    from gateway.cli.doctor.examination import examine  # noqa: PLC0415 - help must not wait for the database's library

    try:
        settings = read_settings()
    except SettingError as error:
        return (Problem(f"la variabile {error.variable} ha un valore che non va", str(error)),)
    return asyncio.run(examine(settings))
