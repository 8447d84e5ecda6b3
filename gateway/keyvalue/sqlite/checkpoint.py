"""Moving the write-ahead log into the file beside the traffic: the syncing of a disk keeps no call waiting."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TRANSACTIONS = 256
"""How many between two checkpoints; a transaction writes some ten pages."""
_RESTART_PAGES = 16_000
"""A log this long (64 MB) is ended even if writers have to pause for it."""
_RESTART_WAIT_SECONDS = 0.05


class Checkpoints:
    """Counts a connection's transactions and, every so many, starts a checkpoint in a thread.

    Args:
        path: The database file.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._transactions = 0
        self._thread: threading.Thread | None = None

    def count(self) -> None:
        """Note one more transaction."""
        self._transactions += 1
        if self._transactions >= _TRANSACTIONS and (self._thread is None or not self._thread.is_alive()):
            self._transactions = 0
            self._thread = threading.Thread(target=self._run, name="pepper-gate-checkpoint", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        # What is wrong with the file shows where it is used; a checkpoint is tried again later.
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._connect()) as connection:
            _, logged, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if logged > _RESTART_PAGES:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    def _connect(self) -> sqlite3.Connection:
        address = f"{self._path.absolute().as_uri()}?mode=rw"
        return sqlite3.connect(address, uri=True, timeout=_RESTART_WAIT_SECONDS, isolation_level=None)
