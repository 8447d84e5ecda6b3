"""What the bench asks of the machine: who runs on which core, what a process has consumed, what it holds."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINUX = sys.platform == "linux"
_CPU_CLOCK = 2
"""Linux numbers a process's CPU clock by its id and this kind."""
_ONE_MB = 1_000_000


class Cores:
    """The first core is the gateway's, all others are everybody else's; with one core, nothing is pinned."""

    def __init__(self) -> None:
        allowed = sorted(os.sched_getaffinity(0)) if LINUX else []
        self.pinned = len(allowed) > 1
        self._gateway, self._others = set(allowed[:1]), set(allowed[1:])

    def settle(self) -> None:
        """Move this process, and all it starts from now on, off the gateway's core."""
        if LINUX and self.pinned:
            os.sched_setaffinity(0, self._others)

    @contextmanager
    def all(self) -> Iterator[None]:
        """What is started inside the block runs wherever it likes."""
        if not (LINUX and self.pinned):
            yield
            return
        os.sched_setaffinity(0, self._gateway | self._others)
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._others)

    @contextmanager
    def gateways(self) -> Iterator[None]:
        """What is started inside the block runs on the gateway's core."""
        if not (LINUX and self.pinned):
            yield
            return
        os.sched_setaffinity(0, self._gateway)
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._others)


def cpu_seconds(pid: int) -> float:
    """CPU time a process has consumed, all threads, user and system."""
    if LINUX:
        clock: int = (~pid << 3) | _CPU_CLOCK
        return float(time.clock_gettime(clock))
    seconds = 0.0
    for part in _ps(pid, "time").split(":"):  # hours, minutes, seconds
        seconds = seconds * 60 + float(part)
    return seconds


def memory_mb(pid: int) -> float:
    """Megabytes of a process that are in memory."""
    if LINUX:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / _ONE_MB
    return int(_ps(pid, "rss")) * 1024 / _ONE_MB


def largest_children(pid: int, most: int) -> tuple[int, ...]:
    """The children that hold most memory: of a server, its workers."""
    if LINUX:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    else:
        found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
        children = [int(child) for child in found.stdout.split()]
    sizes = {}
    for child in children:
        with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError):
            sizes[child] = memory_mb(child)
    return tuple(sorted(sizes, key=sizes.__getitem__, reverse=True)[:most])


def let_files_be_open() -> None:
    """Let this process, and all it starts, have as many connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def description() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def load_average() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _ps(pid: int, column: str) -> str:
    return subprocess.check_output(["ps", "-o", f"{column}=", "-p", str(pid)], text=True).strip()
