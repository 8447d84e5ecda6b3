"""Looking again until it is so; and what the system says of processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any


def command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def eventually(
    condition: Callable[[], Awaitable[Any]], seconds: float = 5.0, *, pause: float = 0.02
) -> Any:
    """Ask until the answer is true; what it was."""
    until = time.monotonic() + seconds
    while not (found := await condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"still {found!r} after {seconds} s")
        await asyncio.sleep(pause)
    return found
