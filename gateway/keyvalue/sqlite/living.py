"""A process shows that it lives by holding a lock on a file; the kernel lets go of it when the process dies.

The promise of this module: an owner whose file is missing or can be locked is dead, and one that holds its mark is
never taken for dead, not even between making its file and locking it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OWNER_BYTES = 12

_held: weakref.WeakSet[LivingMark] = weakref.WeakSet()


class LivingMark:
    """The locked file of one gate: `folder/<owner>`.

    Args:
        folder: Where the marks of all processes lie; made if missing (its parent is not).

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = secrets.token_hex(_OWNER_BYTES)
        self._descriptor: int | None = None
        _held.add(self)

    def hold(self) -> None:
        """Lock the file, making it anew where it was removed.

        Raises:
            OSError: The folder can't be used.

        """
        self.abandon()
        self.folder.mkdir(exist_ok=True)
        path = self.folder / self.owner
        while not self.standing():
            self.abandon()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Waits for an asker who is looking at this file just now, and may remove it: hence the loop.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def standing(self) -> bool:
        """Whether the file that others would look at is the one locked here."""
        if self._descriptor is None:
            return False
        try:
            there = (self.folder / self.owner).stat()
        except OSError:
            return False
        mine = os.fstat(self._descriptor)
        return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev)

    def release(self) -> None:
        """Remove the file: whatever this owner still holds is free from now on."""
        if self.standing():
            (self.folder / self.owner).unlink(missing_ok=True)
        self.abandon()

    def is_dead(self, owner: str) -> bool:
        """Whether the process behind another mark is gone.

        Raises:
            OSError: The file is there and can't be opened.

        """
        if owner == self.owner:
            return False
        try:
            descriptor = os.open(self.folder / owner, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            # Shared, so that two askers don't take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    def bury_the_dead(self) -> Iterator[str]:
        """Remove the files of dead owners and name these.

        Raises:
            OSError: The folder can't be used.

        """
        for path in list(self.folder.iterdir()):
            if path.name == self.owner:
                continue
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                except BlockingIOError:
                    continue
                finally:
                    os.close(descriptor)
                yield path.name

    def abandon(self) -> None:
        """Close the file here; the lock stays while another process has it from the same opening."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _leave_marks_to_the_parent() -> None:
    """A forked child would keep the lock after its parent's death."""
    for mark in list(_held):
        mark.abandon()


os.register_at_fork(after_in_child=_leave_marks_to_the_parent)
