"""The processes of a bench: a gateway with its stores, the mock provider, the callers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from tests.bench.caller import Job, Result
from tests.bench.machine import Cores, cpu_seconds, largest_child, memory_mb
from tests.services import LOOPBACK, find_free_port

ROOT = Path(__file__).parents[2]
READY_SECONDS = 30.0
STOP_SECONDS = 20.0
PER_HOUR = "1000000"
DAILY_BUDGET = "100000"
PROJECTS = {
    "bench": (),
    "bench-openai": ("--model", "Pepper 6 · OpenAI"),
    "bench-prova": ("--sandbox",),
}
"""Projects of every gateway, with what `pepper project add` is told besides limit and cap."""


class BenchError(RuntimeError):
    """Why there is nothing to measure."""


class Gateway:
    """`pepper serve` with one worker, and the keys of its projects."""

    def __init__(self, name: str, folder: Path, provider_port: int, stores: Mapping[str, str]) -> None:
        self.name = name
        self.port = find_free_port()
        self.keys: dict[str, str] = {}
        self.worker = 0
        provider = f"http://{LOOPBACK}:{provider_port}"
        inherited = {
            word: value
            for word, value in os.environ.items()
            if not word.startswith(("PEPPER_", "ANTHROPIC_", "OPENAI_"))
            and not word.lower().endswith("_proxy")
        }
        self._environment = {
            **inherited,
            "PEPPER_DATA": str(folder / "data"),
            "PEPPER_SECRET": "a secret of the bench, and of nobody else",
            "PEPPER_LOG": "json",
            "PEPPER_DRAIN_SECONDS": "2",
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": provider,
            "OPENAI_API_KEY": "bench",
            "OPENAI_BASE_URL": f"{provider}/v1",
            **stores,
        }
        self._log = folder / f"{name}.log"
        self._server: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        self._pepper("migrate")
        for project, words in PROJECTS.items():
            limits = ("--per-hour", PER_HOUR, "--daily-budget", DAILY_BUDGET)
            said = self._pepper("project", "add", project, *limits, *words, "--json")
            self.keys[project] = json.loads(said)["chiave"]

    def start(self, cores: Cores) -> None:
        with self._log.open("wb") as log, cores.gateways():
            self._server = subprocess.Popen(
                self._command("serve", "--port", str(self.port)),
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._server.poll() is not None or time.monotonic() > until:
                raise BenchError(f"the gateway does not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.1)
        self.worker = largest_child(self._server.pid) or self._server.pid

    def stop(self) -> None:
        if self._server is None:
            return
        self._server.terminate()
        try:
            self._server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.worker)

    @property
    def memory_mb(self) -> float:
        return memory_mb(self.worker)

    def last_fault(self) -> str:
        """The newest error in the gateway's log."""
        lines = self._log.read_text(errors="replace").splitlines()
        return next((line[-1000:] for line in reversed(lines) if '"level":"error"' in line), "")

    def _ready(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{LOOPBACK}:{self.port}/stato.php?pronto=1", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def _pepper(self, *words: str) -> str:
        done = subprocess.run(
            self._command(*words),
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BenchError(f"pepper {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    @staticmethod
    def _command(*words: str) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", *words]


class Callers:
    """The process of the callers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.caller"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def begin(self, job: Job) -> None:
        stream = _pipe(self._process.stdin)
        stream.write(msgspec.json.encode(job) + b"\n")
        stream.flush()

    def result(self) -> Result:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise BenchError("the callers' process has ended")
        return msgspec.json.decode(line, type=Result)

    def carry_out(self, job: Job) -> Result:
        self.begin(job)
        return self.result()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def mock_provider() -> Iterator[int]:
    """Run the mock provider inside the block; gives its port."""
    port = find_free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.mock_provider", str(port)], cwd=ROOT)
    try:
        until = time.monotonic() + READY_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise BenchError("the mock provider does not start")
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1):
        return True
    return False


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise BenchError("the callers' process has no pipes")
    return stream
