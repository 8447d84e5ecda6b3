"""A worker process under `pepper serve`: it drains when it is told to, and does not outlive the server."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway import collector, metrics
from gateway.core import Core
from gateway.metrics import FOLDER_VARIABLE

DRAIN_SIGNAL = signal.SIGUSR1
"""Sent by the server to its workers before it stops them: the drain's clock starts."""
PARENT_CHECK_SECONDS = 1.0
READY_SECONDS = 0.1
"""From the end of the start until the server has put its signal handlers in place."""
_PR_SET_PDEATHSIG = 1
_MALLOPT = ((-8, 1), (-3, 256 * 1024), (-1, 1024 * 1024))
"""M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h."""


@asynccontextmanager
async def living_under(parent: int, core: Core) -> AsyncIterator[None]:
    """Listen for the drain signal, and die with the server even if it is killed."""
    die_with_parent(parent)
    tame_allocator()
    collector.calm()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(DRAIN_SIGNAL, core.drain)
    tasks = [asyncio.create_task(work) for work in (_watch_parent(parent), _say_ready(core), _share_counts())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        metrics.share()
        for handler in logging.getLogger().handlers:
            handler.flush()
        loop.remove_signal_handler(DRAIN_SIGNAL)


def ready(folder: Path, pid: int) -> bool:
    """Whether the worker has started, and hears signals."""
    return (folder / f"ready-{pid}").exists()


async def _say_ready(core: Core) -> None:
    await core.started.wait()
    await asyncio.sleep(READY_SECONDS)
    Path(os.environ[FOLDER_VARIABLE], f"ready-{os.getpid()}").touch()  # noqa: ASYNC240 - once, and empty


def tame_allocator() -> None:
    """Let the C library (glibc) give memory back: after a burst of large bodies it would keep hundreds of megabytes."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):
            for option, value in _MALLOPT:
                library.mallopt(option, value)


def die_with_parent(parent: int) -> None:
    """Ask the kernel (Linux) to end this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


async def _share_counts() -> None:
    while True:
        await asyncio.sleep(metrics.SHARE_SECONDS)
        metrics.share()


async def _watch_parent(parent: int) -> None:
    """The same where the kernel can't be asked."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(PARENT_CHECK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
