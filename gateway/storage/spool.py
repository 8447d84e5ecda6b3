"""Ledger entries that could not be committed, on disk until they can: nothing that was appended is lost to a
kill -9, and each entry counts once.

One file in the data folder, shared by its processes under a file lock; entries are lines of JSON. The line that a
dying process left half-written was never promised to anybody and is passed over.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from gateway.storage.calls import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

ENTRIES_AT_ONCE = 200
"""Entries imported in one commit."""
OWNER_ONLY = 0o600

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LedgerEntry).decode


class Spool:
    """The spool of a data folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "spool.jsonl"
        self._importing = folder / "spool-importing.jsonl"
        self._unreadable = folder / "spool-unreadable.jsonl"
        self._append_lock = folder / "spool.lock"
        self._import_lock = folder / "spool-import.lock"

    @property
    def pending(self) -> bool:
        """Whether there is something to import: two looks at the folder."""
        return _filled(self._file) or _filled(self._importing)

    async def append(self, entries: Sequence[LedgerEntry]) -> None:
        """Keep entries; when it returns they are on the disk.

        Raises:
            OSError: They may not be: the disk is full or cannot be written.

        """
        lines = b"".join(_encode(entry) + b"\n" for entry in entries)
        if lines:
            # The thread goes on if the caller is cancelled: better written and told to nobody than half-written.
            await asyncio.to_thread(self._append, lines)

    async def drain(self, commit: Callable[[Sequence[LedgerEntry]], Awaitable[object]]) -> int:
        """Hand everything to `commit` in pieces and forget it once all is committed; gives how many entries.

        `commit` must pass over request ids that are in the ledger (`Calls.commit` with `again`): after an
        interruption the same entries are handed over once more. While another process imports, nothing happens.

        Raises:
            StoreAwayError: Whatever `commit` raises; the entries stay.
            OSError: The folder cannot be read or written.

        """
        if not self.pending:
            return 0
        lock = await asyncio.to_thread(_try_lock, self._import_lock)
        if lock is None:
            return 0
        total = 0
        try:
            while await asyncio.to_thread(self._take):
                entries = await asyncio.to_thread(self._read)
                for start in range(0, len(entries), ENTRIES_AT_ONCE):
                    await commit(entries[start : start + ENTRIES_AT_ONCE])
                await asyncio.to_thread(self._forget)
                total += len(entries)
        finally:
            os.close(lock)
        return total

    def _append(self, lines: bytes) -> None:
        with _locked(self._append_lock):
            new = not self._file.exists()
            descriptor = os.open(self._file, os.O_RDWR | os.O_APPEND | os.O_CREAT, OWNER_ONLY)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    lines = b"\n" + lines
                _write_all(descriptor, lines)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if new:
                _sync_folder(self._file.parent)

    def _take(self) -> bool:
        """Set the file aside for the import, unless an interrupted import left one; False when there is nothing."""
        if self._importing.exists():
            return True
        with _locked(self._append_lock):
            try:
                self._file.rename(self._importing)
            except FileNotFoundError:
                return False
            _sync_folder(self._file.parent)
        return True

    def _read(self) -> list[LedgerEntry]:
        entries: list[LedgerEntry] = []
        strange: list[bytes] = []
        for line in self._importing.read_bytes().split(b"\n"):
            if not line:
                continue
            try:
                entries.append(_decode(line))
            except msgspec.DecodeError:
                strange.append(line)
        if strange:
            # Most likely half a line; but whatever it is, it is kept for whoever wants to look.
            descriptor = os.open(self._unreadable, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWNER_ONLY)
            try:
                _write_all(descriptor, b"\n".join(strange) + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return entries

    def _forget(self) -> None:
        self._importing.unlink()
        _sync_folder(self._file.parent)


def _filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
