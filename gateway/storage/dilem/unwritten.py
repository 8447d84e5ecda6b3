"""Endings of turns that the database did not take, on disk until it does: a recommendation that was delivered completes
its case, also after a kill -9. One small file per ending; writing one again is harmless.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from gateway.storage.dilem.cases import Ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

OWNER_ONLY = 0o600

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Ending).decode


class Unwritten:
    """The endings that wait, of a data folder and all its processes; what even the disk refuses waits in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "dilem"
        self._in_memory: dict[str, Ending] = {}

    def keep(self, ending: Ending) -> bool:
        """Keep an ending; whether it is on the disk."""
        path = self._folder / f"{ending.holder}.json"
        fresh = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb") as file:  # noqa: PTH123 - with a mode
                file.write(_encode(ending))
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(path)
        except OSError:
            self._in_memory[ending.holder] = ending
            return False
        return True

    async def hand_over(self, write: Callable[[Ending], Awaitable[object]]) -> None:
        """Hand everything that waits to `write`, and forget what it took.

        Raises:
            StoreAwayError: Whatever `write` raises; the rest waits on.
            OSError: The folder cannot be read.

        """
        for ending in tuple(self._in_memory.values()):
            await write(ending)
            self._in_memory.pop(ending.holder, None)
        for path in self._waiting():
            try:
                await write(_decode(path.read_bytes()))
            except FileNotFoundError:  # another process was quicker
                continue
            except msgspec.DecodeError:
                path.rename(path.with_suffix(".unreadable"))
                continue
            path.unlink(missing_ok=True)

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
