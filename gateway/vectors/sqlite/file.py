"""`knowledge.db`, opened: a version of a document is one row, so there is never half of one.

One connection is used by one thread at a time. It notices when the file it has open is no longer the one that stands
there, because SQLite would go on reading and writing a removed file.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILE_NAME = "knowledge.db"
LOCK_SECONDS = 1.2
"""How long another process may hold the file before it counts as away."""

_SCHEMA_VERSION = 1
_PAGE_BYTES = 16_384
"""Rows are long: larger pages are fewer reads."""
_LOG_BYTES = 64 * 1024 * 1024
"""What a large write leaves of the write-ahead log."""
_READ_SECONDS = 0.25
"""How long a reader waits, in the rare moments in which it has to: another process mends the log of a killed one."""
_FIRST_NAP_SECONDS = 0.000_2
_LONGEST_NAP_SECONDS = 0.005

_CREATE = (
    # `id` is never used twice: what is written again under the same version is another row.
    # `ends`: where each passage ends in `texts` (UTF-8), 32-bit; `vectors`: 32-bit floats, one row after the other.
    """
    CREATE TABLE versions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        project TEXT NOT NULL, document INTEGER NOT NULL, version INTEGER NOT NULL,
        passages INTEGER NOT NULL, dimensions INTEGER NOT NULL,
        ends BLOB NOT NULL, texts BLOB NOT NULL, vectors BLOB NOT NULL,
        UNIQUE (project, document, version)
    )""",
)


class NewerFileError(sqlite3.DatabaseError):
    """The file was made by a later release."""


class State(NamedTuple):
    """What a project has in a file, in two numbers: as ids are never used twice, equal states mean equal rows."""

    file: tuple[int, int]
    newest: int | None
    versions: int


class Version(NamedTuple):
    """A version in the file, without its content."""

    id: int
    document: int
    version: int
    passages: int
    text_bytes: int


class Content(NamedTuple):
    """What a version holds, as it is stored."""

    passages: int
    dimensions: int
    ends: bytes
    texts: bytes
    vectors: bytes


class IndexFile:
    """One connection to the file.

    Args:
        path: Where it stands.
        create: Whether to make it where it is missing.

    Raises:
        sqlite3.Error, OSError: It can't be used, or is missing.

    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self._path = path
        address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        self._connection = sqlite3.connect(
            address, uri=True, timeout=_READ_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            # Switching a new file to WAL needs it alone, and several workers start at once.
            _insist(lambda: self._connection.execute("PRAGMA journal_mode = WAL"))
            # The database may call a version live that was written a moment ago: it is on the disk by then.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            self._migrate()
            there = path.stat()
            self._identity = (there.st_ino, there.st_dev)
        except (sqlite3.Error, OSError):
            self._connection.close()
            raise

    def standing(self) -> bool:
        """Whether the open file is still the one that stands there."""
        try:
            there = self._path.stat()
        except OSError:
            return False
        return (there.st_ino, there.st_dev) == self._identity

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See the file as it is now, whatever others write meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def state(self, project: str) -> State:
        # Both from the index alone: a search asks this each time.
        row = self._one("SELECT max(id), count(*) FROM versions WHERE project = ?", project)
        return State(self._identity, *row)

    def versions(self, project: str, dimensions: int) -> list[Version]:
        return [
            Version(*row)
            for row in self._all(
                "SELECT id, document, version, passages, length(texts) FROM versions"
                " WHERE project = ? AND dimensions = ? ORDER BY document",
                project,
                dimensions,
            )
        ]

    def numbers(self, project: str) -> list[tuple[int, int]]:
        """Every version that a project has here, as document and version."""
        # From the index alone, like `state`.
        return self._all("SELECT document, version FROM versions WHERE project = ?", project)

    def content(self, version: int) -> Content:
        """Give what the version with an id holds.

        Raises:
            sqlite3.Error: It is not there.

        """
        row = self._one(
            "SELECT passages, dimensions, ends, texts, vectors FROM versions WHERE id = ?", version
        )
        if row is None:
            raise sqlite3.DatabaseError("a row that was there is missing")
        return Content(*row)

    def texts(self, project: str, document: int, version: int) -> tuple[bytes, bytes] | None:
        """Give where a version's passages end and their texts."""
        found: tuple[bytes, bytes] | None = self._one(
            "SELECT ends, texts FROM versions WHERE project = ? AND document = ? AND version = ?",
            project,
            document,
            version,
        )
        return found

    def write(self, project: str, document: int, version: int, content: Content) -> None:
        """Store a version in place of what is there; it is on the disk when this returns."""
        with self._writing():
            self._connection.execute(
                "REPLACE INTO versions (project, document, version, passages, dimensions, ends, texts, vectors)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (project, document, version, *content),
            )

    def forget(self, project: str, document: int | None = None, version: int | None = None) -> None:
        """Remove a version, a document, or all of a project."""
        with self._writing():
            self._connection.execute(
                "DELETE FROM versions WHERE project = ?1 AND (?2 IS NULL OR document = ?2) AND (?3 IS NULL OR version = ?3)",
                (project, document, version),
            )

    def damage(self) -> str | None:
        """Look through the whole file; the first thing that is wrong with it."""
        told = str(self._one("PRAGMA integrity_check(1)")[0])
        return None if told == "ok" else told

    def close(self) -> None:
        self._connection.close()

    def _one(self, query: str, *values: Any) -> Any:  # a row, or None
        with closing(self._connection.execute(query, values)) as rows:
            return rows.fetchone()

    def _all(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        # SQLite's own waiting naps up to 100 ms; a writer is done within a few.
        _insist(lambda: self._connection.execute("BEGIN IMMEDIATE"))
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _migrate(self) -> None:
        if self._version() == _SCHEMA_VERSION:
            return
        with self._writing():
            found = self._version()
            if found > _SCHEMA_VERSION:
                raise NewerFileError(f"{FILE_NAME} belongs to a later release")
            if found == 0:
                for statement in _CREATE:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _version(self) -> int:
        return int(self._one("PRAGMA user_version")[0])


def damage_of(folder: Path) -> str | None:
    """Look through the whole file of a data folder; what is wrong with it, if anything is."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    try:
        with closing(IndexFile(path, create=False)) as file:
            return file.damage()
    except (sqlite3.Error, OSError) as error:
        return str(error)


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
