"""The tables of `gate.db`.

Counters (entries in a window, reservations of a day) are kept by triggers, so that no statement can forget them and
no limit is checked by counting rows.
"""

from __future__ import annotations

VERSION = 2
"""`user_version` of the file; another one is replaced, as nothing in it outlives a day."""

TABLES = ("claims", "entries", "windows", "reservations", "days", "answers", "generations", "finished")
"""Every table; each has a column `project`."""

CREATE = (
    # Idempotency keys: held by a running call (`kept_at` null), or with its answer, or with the note
    # of one that was cut. `lease` is machine time.
    """
    CREATE TABLE claims (
        project TEXT NOT NULL, key TEXT NOT NULL,
        fingerprint TEXT NOT NULL, request_id TEXT NOT NULL,
        owner TEXT NOT NULL, lease REAL NOT NULL,
        kept_at REAL, answer BLOB, note BLOB,
        PRIMARY KEY (project, key)
    )""",
    "CREATE INDEX claims_kept ON claims (kept_at) WHERE kept_at IS NOT NULL",
    "CREATE INDEX claims_running ON claims (lease) WHERE kept_at IS NULL",
    # The sliding window of the hourly limit, one row a call, and how many rows each project has.
    """
    CREATE TABLE entries (
        project TEXT NOT NULL, request_id TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (project, request_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX entries_age ON entries (project, at)",
    "CREATE TABLE windows (project TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TRIGGER entries_in AFTER INSERT ON entries BEGIN
        INSERT INTO windows VALUES (new.project, 1)
            ON CONFLICT (project) DO UPDATE SET size = size + 1;
    END""",
    """
    CREATE TRIGGER entries_out AFTER DELETE ON entries BEGIN
        UPDATE windows SET size = size - 1 WHERE project = old.project;
    END""",
    # What running calls may spend. `handed`: given to an asker of orphans, so the first owner can't renew it.
    """
    CREATE TABLE reservations (
        project TEXT NOT NULL, request_id TEXT NOT NULL,
        day TEXT NOT NULL, epoch INTEGER NOT NULL,
        worst_case INTEGER NOT NULL, record BLOB NOT NULL,
        owner TEXT NOT NULL, lease REAL NOT NULL, handed INTEGER NOT NULL,
        PRIMARY KEY (project, request_id)
    ) WITHOUT ROWID""",
    # A project's day: `spent` is null while unknown, and known under `epoch` alone.
    """
    CREATE TABLE days (
        project TEXT NOT NULL, day TEXT NOT NULL,
        epoch INTEGER, spent INTEGER, token TEXT,
        reserved INTEGER NOT NULL DEFAULT 0, running INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (project, day)
    ) WITHOUT ROWID""",
    """
    CREATE TRIGGER reservations_in AFTER INSERT ON reservations BEGIN
        INSERT INTO days (project, day, reserved, running) VALUES (new.project, new.day, new.worst_case, 1)
            ON CONFLICT (project, day) DO UPDATE
            SET reserved = reserved + excluded.reserved, running = running + 1;
    END""",
    """
    CREATE TRIGGER reservations_out AFTER DELETE ON reservations BEGIN
        UPDATE days SET reserved = reserved - old.worst_case, running = running - 1
            WHERE project = old.project AND day = old.day;
    END""",
    # Cached answers, good until `expires` (business time) in their generation.
    """
    CREATE TABLE answers (
        project TEXT NOT NULL, key TEXT NOT NULL,
        generation INTEGER NOT NULL, expires REAL NOT NULL, answer BLOB NOT NULL,
        PRIMARY KEY (project, key)
    )""",
    "CREATE INDEX answers_expiry ON answers (expires)",
    "CREATE TABLE generations (project TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
    # Calls settled or released some minutes ago (machine time): they are not settled or brought back again.
    """
    CREATE TABLE finished (
        project TEXT NOT NULL, request_id TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (project, request_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX finished_age ON finished (at)",
)
