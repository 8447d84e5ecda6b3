"""Everything a bench needs, started and ended together: gateways on embedded stores and, where they are installed,
on MySQL and Redis."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import msgspec
import pytest

from tests.bench.machine import Cores
from tests.bench.processes import Callers, Gateway, mock_provider
from tests.services import MariaDb, Redis

EMBEDDED = "embedded"
PRODUCTION = "MySQL+Redis"


class Stage(msgspec.Struct, frozen=True):
    """What plays.

    Attributes:
        left_out: What could not be measured, and what would bring it in.

    """

    gateways: tuple[Gateway, ...]
    callers: Callers
    pinned: bool
    left_out: str | None


@contextmanager
def stage() -> Iterator[Stage]:
    cores = Cores()
    cores.settle()
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="pepper-bench-")))
        provider = ending.enter_context(mock_provider())
        gateways = [Gateway(EMBEDDED, folder / "embedded", provider, {})]
        stores, left_out = _production_stores(ending)
        if stores is not None:
            gateways.append(Gateway(PRODUCTION, folder / "production", provider, stores))
        for gateway in gateways:
            (folder / ("embedded" if gateway.name == EMBEDDED else "production")).mkdir()
            click.echo(f"starting the gateway on {gateway.name}", err=True)
            gateway.prepare()
            ending.callback(gateway.stop)
            gateway.start(cores)
        callers = Callers()
        ending.callback(callers.stop)
        yield Stage(tuple(gateways), callers, cores.pinned, left_out)


def _production_stores(ending: ExitStack) -> tuple[dict[str, str] | None, str | None]:
    try:
        database, keys = MariaDb(), Redis()
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:
        return None, f"{PRODUCTION}: {missing}"
    for service in (database, keys):
        ending.callback(service.remove)
        service.start()
    return {"PEPPER_DATABASE_URL": database.create_database(), "PEPPER_REDIS_URL": keys.url}, None
