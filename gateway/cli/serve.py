"""`pepper serve`: checks what can be checked, then runs the workers until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import os
import shutil
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import click
from typing_extensions import override

from gateway.bootstrap.data_folder import StartError
from gateway.bootstrap.stores import prepare_to_serve
from gateway.settings import SettingError, Settings, read_settings

KILL_MARGIN_SECONDS = 30
STARTING_SECONDS = 15.0
"""So long a stop waits for workers that are only just starting."""
BACKLOG = 2048

log = logging.getLogger(__name__)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on."
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Worker processes.")
def serve(host: str, port: int, workers: int) -> None:
    """Run the gateway."""
    try:
        settings = read_settings()
        logging.config.dictConfig(_logging(settings))
        _check_address(host, port)
        asyncio.run(prepare_to_serve(settings, _notice, f"http://{host}:{port}"))
    except (SettingError, StartError) as error:
        click.echo(f"pepper: {error}", err=True)
        sys.exit(1)
    _run(settings, host, port, workers)


def _run(settings: Settings, host: str, port: int, workers: int) -> None:
    counts = settings.data / "metrics"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    # Before anything imports the library, which looks for it then.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(counts.resolve())

    from granian.constants import HTTPModes, Interfaces, Loops  # noqa: PLC0415 - the other commands don't serve
    from granian.server.mp import MPServer  # noqa: PLC0415

    from gateway.app import ADDRESS_VARIABLE, PARENT_VARIABLE  # noqa: PLC0415
    from gateway.worker import DRAIN_SIGNAL, ready  # noqa: PLC0415

    server_pid = os.getpid()

    class Gateway(MPServer):
        """The server, whose workers learn at once that it is going down, also those that are only just starting."""

        @override
        def signal_handler_interrupt(self, *args: object, **kwargs: object) -> None:
            if (
                os.getpid() == server_pid
            ):  # a worker that has no handlers of its own yet has inherited this one
                threading.Thread(target=self._stop, daemon=True).start()

        def _stop(self) -> None:
            """Stop once every worker can hear it: a signal that comes before its handler is lost."""
            patience = time.monotonic() + STARTING_SECONDS
            while time.monotonic() < patience and not all(
                ready(counts, one.inner.pid) for one in self._living()
            ):
                time.sleep(0.05)
            for worker in self._living():
                with suppress(ProcessLookupError):
                    os.kill(worker.inner.pid, DRAIN_SIGNAL)
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]  # granian has no types

        def _living(self) -> list[Any]:
            return [worker for worker in self.wrks if worker.inner.is_alive()]

    signal.signal(DRAIN_SIGNAL, signal.SIG_IGN)  # also in workers, until they listen for it
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    os.environ[ADDRESS_VARIABLE] = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    server = Gateway(
        target="gateway.app:application",
        factory=True,
        interface=Interfaces.ASGI,
        address=host,
        port=port,
        workers=workers,
        loop=Loops.auto,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        log_dictconfig=_logging(settings),
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=int(settings.drain_seconds) + KILL_MARGIN_SECONDS,
        process_name=None,
    )
    click.echo(f"Pepper listens on http://{host}:{port}", err=True)
    server.serve()


def _logging(settings: Settings) -> dict[str, object]:
    from gateway.logs import logging_configuration  # noqa: PLC0415

    return logging_configuration(settings.log_format)


def _check_address(host: str, port: int) -> None:
    """Refuse an address that is taken, or not this machine's, in one line."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise StartError(
            f"--host/--port: {host}:{port} can't be listened on: {error.strerror or error}"
        ) from None


def _notice(text: str) -> None:
    click.echo(text, err=True)
