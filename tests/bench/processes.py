"""The processes of a bench: a gateway with its stores, the mock provider, the callers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from typing_extensions import override

from tests.bench.caller import Job, Result
from tests.bench.cases import Case
from tests.bench.machine import Cores, cpu_seconds, largest_children, memory_mb
from tests.services import LOOPBACK, find_free_port

ROOT = Path(__file__).parents[2]
READY_SECONDS = 120.0
STOP_SECONDS = 20.0
PER_HOUR = "1000000"
DAILY_BUDGET = "100000"
PROJECTS = {
    "bench": (),
    "bench-openai": ("--model", "Pepper 6 · OpenAI"),
    "bench-prova": ("--sandbox",),
    "bench-files": ("--allow", "documenti"),
    "bench-knowledge": ("--allow", "conoscenza"),
}
"""Projects of every gateway, with what `pepper project add` is told besides limit and cap."""


class BenchError(RuntimeError):
    """Why there is nothing to measure."""


class Server(ABC):
    """A gateway under measurement: a process, or a few, on a port of loopback.

    Attributes:
        name: As the table shows it.
        ready_path: What it answers with 200 once it serves.

    """

    name: str
    ready_path = "/"

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.port = find_free_port()
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._workers: tuple[int, ...] = ()

    @abstractmethod
    def job(self, case: Case, seconds: float) -> Job | None:
        """What its callers do in a round of a case; None if it has no part in it."""

    @abstractmethod
    def _begin(self) -> subprocess.Popen[bytes]:
        """Start it."""

    def start(self, cores: Cores, *, pinned: bool = True) -> None:
        """Start it, on the core that is measured, and wait until it serves."""
        with cores.gateways() if pinned else cores.all():
            self._process = self._begin()
        until = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise BenchError(
                    f"{self.name} does not start:\n{self._log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.1)
        self._workers = self._find_workers(self._process.pid)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self._workers))

    @property
    def memory_mb(self) -> float:
        return sum(map(memory_mb, self._workers))

    def last_fault(self) -> str:
        """The newest error in its log."""
        lines = self._log.read_text(errors="replace").splitlines()
        return next((line[-1000:] for line in reversed(lines) if '"level":"error"' in line), "")

    def _find_workers(self, pid: int) -> tuple[int, ...]:
        """The processes that answer."""
        return (pid,)

    def _spawn(
        self, command: Sequence[str], environment: Mapping[str, str], *, cwd: Path = ROOT
    ) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                env={**own_environment(), **environment},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _ready(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{LOOPBACK}:{self.port}{self.ready_path}", timeout=2) as reply:
                return bool(reply.status == 200)
        except (OSError, http.client.HTTPException):
            return False


class Gateway(Server):
    """`pepper serve`, and the keys of its projects.

    Args:
        stores: Variables that name the stores; none are the embedded ones.
        workers: How many; the figures are of all together.

    """

    ready_path = "/stato.php?pronto=1"

    def __init__(
        self, name: str, folder: Path, provider_port: int, stores: Mapping[str, str], *, workers: int = 1
    ) -> None:
        folder.mkdir()
        super().__init__(name, folder / "log")
        self.keys: dict[str, str] = {}
        self.workers = workers
        self.data = folder / "data"
        provider = f"http://{LOOPBACK}:{provider_port}"
        self._variables = {
            "PEPPER_DATA": str(self.data),
            "PEPPER_SECRET": "a secret of the bench, and of nobody else",
            "PEPPER_LOG": "json",
            "PEPPER_DRAIN_SECONDS": "2",
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": provider,
            "OPENAI_API_KEY": "bench",
            "OPENAI_BASE_URL": f"{provider}/v1",
            **stores,
        }

    def prepare(self) -> None:
        self._pepper("migrate")
        self._pepper("recipe", "set", "libero", "--knowledge", "on")  # for those who may
        for project, words in PROJECTS.items():
            limits = ("--per-hour", PER_HOUR, "--daily-budget", DAILY_BUDGET)
            said = self._pepper("project", "add", project, *limits, *words, "--json")
            self.keys[project] = json.loads(said)["chiave"]

    @override
    def job(self, case: Case, seconds: float) -> Job | None:
        return case.job(self.port, self.keys, seconds) if case.workers == self.workers else None

    @override
    def _begin(self) -> subprocess.Popen[bytes]:
        words = ("serve", "--port", str(self.port), "--workers", str(self.workers))
        return self._spawn(self._command(*words), self._variables)

    @override
    def _find_workers(self, pid: int) -> tuple[int, ...]:
        return largest_children(pid, self.workers) or (pid,)

    def _pepper(self, *words: str) -> str:
        done = subprocess.run(
            self._command(*words),
            env={**own_environment(), **self._variables},
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


def own_environment() -> dict[str, str]:
    """This process's environment, but for what would lead a gateway elsewhere."""
    return {
        word: value
        for word, value in os.environ.items()
        if not word.startswith(("PEPPER_", "ANTHROPIC_", "OPENAI_")) and not word.lower().endswith("_proxy")
    }


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
