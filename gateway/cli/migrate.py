"""`pepper migrate`: the schema of any store, and what every installation has."""

from __future__ import annotations

import asyncio

import click

from gateway.cli.shared import json_option, mendable, notice, print_done
from gateway.settings import read_settings


@click.command()
@json_option
def migrate(*, as_json: bool) -> None:
    """Create or upgrade the database's tables and install what is missing."""
    from gateway.bootstrap.stores import migrate_stores  # noqa: PLC0415 - help must not wait for the database's library

    with mendable():
        asyncio.run(migrate_stores(read_settings(), notice))
    print_done("the database is up to date", as_json=as_json)
