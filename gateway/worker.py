"""A worker process under `pepper serve`: it drains when it is told to, and does not outlive the server."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.core import Core

DRAIN_SIGNAL = signal.SIGUSR1
"""Sent by the server to its workers before it stops them: the drain's clock starts."""
PARENT_CHECK_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1


@asynccontextmanager
async def living_under(parent: int, core: Core) -> AsyncIterator[None]:
    """Listen for the drain signal, and die with the server even if it is killed."""
    die_with_parent(parent)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(DRAIN_SIGNAL, core.drain)
    watching = asyncio.create_task(_watch_parent(parent))
    try:
        yield
    finally:
        watching.cancel()
        loop.remove_signal_handler(DRAIN_SIGNAL)


def die_with_parent(parent: int) -> None:
    """Ask the kernel (Linux) to end this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


async def _watch_parent(parent: int) -> None:
    """The same where the kernel can't be asked."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(PARENT_CHECK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
