"""An open `gate.db` and the living mark that goes with it, used by one thread."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

from gateway.keyvalue.sqlite import schema
from gateway.keyvalue.sqlite.checkpoint import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gateway.keyvalue.sqlite.living import LivingMark

FILE_NAME = "gate.db"
LOCK_SECONDS = 1.2
"""How long another process may hold the file before it counts as away."""

_LONGEST_LOG_PAGES = 32_000
"""128 MB: only when the checkpoints beside the traffic don't keep up."""
_FIRST_NAP_SECONDS = 0.000_1
_LONGEST_NAP_SECONDS = 0.002


class Session:
    """One connection to the file.

    Args:
        folder: Where `gate.db` lies; it must exist.
        mark: This process's living mark, held from now on.

    Raises:
        sqlite3.Error, OSError: The file can't be used.

    """

    def __init__(self, folder: Path, mark: LivingMark) -> None:
        self._path = folder / FILE_NAME
        self._mark = mark
        self.owner = mark.owner
        self.swept_at = 0.0
        self.swept_project = ""
        self._checkpoints = Checkpoints(self._path)
        self._connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            # Switching a new file to WAL needs it alone, and several workers start at once.
            _insist(lambda: self._connection.execute("PRAGMA journal_mode = WAL"))
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_LONGEST_LOG_PAGES}")
            self._migrate()
            there = self._path.stat()
            self._identity = (there.st_ino, there.st_dev)
            mark.hold()
        except (sqlite3.Error, OSError):
            self._connection.close()
            raise

    def standing(self) -> bool:
        """Whether file and mark are still the ones opened: SQLite would go on writing to a removed file."""
        try:
            there = self._path.stat()
        except OSError:
            return False
        return (there.st_ino, there.st_dev) == self._identity and self._mark.standing()

    def begin(self) -> None:
        """Start a transaction that writes, waiting for other processes up to `LOCK_SECONDS`.

        Raises:
            sqlite3.Error: Somebody holds the file, or it can't be used.

        """
        # SQLite's own waiting naps up to 100 ms; a worker is done within a fraction of one.
        _insist(lambda: self._connection.execute("BEGIN IMMEDIATE"))

    def commit(self) -> None:
        self._connection.execute("COMMIT")
        self._checkpoints.count()

    def undo(self) -> None:
        """Leave a transaction, if one is open; SQLite may have left it by itself."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def run(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Carry out a statement; the number of rows it changed."""
        return self._connection.execute(statement, values).rowcount

    def one(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:  # a row, or None
        return self._connection.execute(statement, values).fetchone()

    def all(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def is_free(self, owner: str, lease: float, clock: float) -> bool:
        """Whether a claim or reservation belongs to nobody any more: its lease passed, or its process is dead."""
        return lease <= clock or self._mark.is_dead(owner)

    def bury_the_dead(self) -> list[str]:
        """Remove dead processes' marks; the owners."""
        return list(self._mark.bury_the_dead())

    def close(self) -> None:
        self._connection.close()

    def _migrate(self) -> None:
        if self._version() == schema.VERSION:
            return
        self.begin()
        try:
            if self._version() != schema.VERSION:
                for table in schema.TABLES:
                    self._connection.execute(f"DROP TABLE IF EXISTS {table}")
                for statement in schema.CREATE:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {schema.VERSION}")
            self.commit()
        finally:
            self.undo()

    def _version(self) -> int:
        return int(self.one("PRAGMA user_version")[0])


def _insist(attempt: Callable[[], object]) -> None:
    until = time.monotonic() + LOCK_SECONDS
    nap = _FIRST_NAP_SECONDS
    while True:
        try:
            attempt()
        except sqlite3.OperationalError as error:
            # The low byte is the error, the rest its detail (recovery, snapshot).
            busy = error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
            if not busy or time.monotonic() >= until:
                raise
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP_SECONDS)
        else:
            return
