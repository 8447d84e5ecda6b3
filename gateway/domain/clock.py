"""The one source of "now" for business rules; tests move it with `PEPPER_CLOCK_FILE`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

FIRST_YEAR, LAST_YEAR = 1971, 9000
"""Instants beyond leave no room for windows and days around them."""

Clock: TypeAlias = Callable[[], datetime]
"""Gives the current instant, aware, in UTC."""


def system_clock() -> datetime:
    """Now, from the machine."""
    return datetime.now(UTC)


def file_clock(path: Path) -> Clock:
    """Give a clock that reads an ISO 8601 instant from a file at each use; while the file is missing or half-written, the machine's time."""

    def now() -> datetime:
        try:
            instant = datetime.fromisoformat(path.read_text().strip())
        except (OSError, ValueError):
            return system_clock()
        if not FIRST_YEAR <= instant.year <= LAST_YEAR:
            return system_clock()
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)

    return now
