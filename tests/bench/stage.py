"""Everything a bench needs, started and ended together: gateways on embedded stores and, where they are installed,
on MySQL and Redis, and the peers."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import msgspec
import pytest

from tests.bench.cases import SENTENCE, Case
from tests.bench.machine import Cores, let_files_be_open
from tests.bench.peers import peers
from tests.bench.processes import BenchError, Callers, Gateway, Server, mock_provider
from tests.services import LOOPBACK, MariaDb, Redis

EMBEDDED = "Pepper, embedded"
PRODUCTION = "Pepper, MySQL+Redis"
TWO_WORKERS = "Pepper, MySQL+Redis, 2 workers"
PASSAGES = 10_000
DOCUMENT_CHARACTERS = 480_000
UPLOAD_SECONDS = 120.0


class Stage(msgspec.Struct, frozen=True):
    """What plays.

    Attributes:
        left_out: What could not be measured, each with what would bring it in.

    """

    gateways: tuple[Gateway, ...]
    others: tuple[Server, ...]
    callers: Callers
    pinned: bool
    left_out: tuple[str, ...]

    @property
    def servers(self) -> tuple[Server, ...]:
        return (*self.gateways, *self.others)


@contextmanager
def stage(cases: Sequence[Case] = (), *, with_peers: bool = False) -> Iterator[Stage]:
    """Start all that these cases need."""
    cores = Cores()
    cores.settle()
    let_files_be_open()
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="pepper-bench-")))
        provider = ending.enter_context(mock_provider())
        left_out: list[str] = []
        gateways = [Gateway(EMBEDDED, folder / "embedded", provider, {})]
        try:
            stores = _production_stores(ending)
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:
            left_out.append(f"{PRODUCTION}: {missing}")
        else:
            gateways.append(Gateway(PRODUCTION, folder / "production", provider, stores))
            if any(case.workers == 2 for case in cases):
                gateways.append(Gateway(TWO_WORKERS, folder / "two", provider, stores, workers=2))
        others: list[Server] = []
        if with_peers and any(case.voice for case in cases):
            for peer in peers(folder, f"http://{LOOPBACK}:{provider}"):
                if isinstance(peer, str):
                    left_out.append(peer)
                else:
                    others.append(peer)
        for gateway in gateways:
            if gateway.workers == 1:
                gateway.prepare()
            else:  # a second node of the same installation
                gateway.keys = gateways[-2].keys
        for server in (*gateways, *others):
            click.echo(f"starting {server.name}", err=True)
            ending.callback(server.stop)
            try:
                server.start(cores, pinned=not isinstance(server, Gateway) or server.workers == 1)
            except BenchError as error:
                if isinstance(server, Gateway):
                    raise
                others.remove(server)
                left_out.append(str(error).splitlines()[0])
        if any(case.project == "bench-knowledge" for case in cases):
            for gateway in gateways:
                if gateway.workers == 1:
                    _teach(gateway)
        callers = Callers()
        ending.callback(callers.stop)
        yield Stage(tuple(gateways), tuple(others), callers, cores.pinned, tuple(left_out))


def _production_stores(ending: ExitStack) -> dict[str, str]:
    database, keys = MariaDb(), Redis()
    for service in (database, keys):
        ending.callback(service.remove)
        service.start()
    return {"PEPPER_DATABASE_URL": database.create_database(), "PEPPER_REDIS_URL": keys.url}


def _teach(gateway: Gateway) -> None:
    """Give the gateway so many passages to know."""
    click.echo(f"teaching {gateway.name} {PASSAGES:,} passages", err=True)
    passages = number = 0
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while passages < PASSAGES:
        number += 1
        size = 0
        lines: list[str] = []
        while size < DOCUMENT_CHARACTERS:
            lines.append(f"{number}.{len(lines)} {SENTENCE}")
            size += len(lines[-1]) + 2
        body = {
            "progetto": "bench-knowledge",
            "azione": "carica",
            "nome": f"verbale {number}",
            "testo": "\n\n".join(lines),
        }
        asked = urllib.request.Request(
            f"http://{LOOPBACK}:{gateway.port}/conoscenza.php",
            data=json.dumps(body).encode(),
            headers={"x-pepper-key": gateway.keys["bench-knowledge"], "content-type": "application/json"},
        )
        try:
            with opener.open(asked, timeout=UPLOAD_SECONDS) as reply:
                passages += json.load(reply)["pezzi"]
        except OSError as error:
            raise BenchError(f"{gateway.name} takes no documents: {error}\n{gateway.last_fault()}") from error
