"""What a process that reads PDFs and its parent say to each other. The parent knows no more of reading than this."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

COUNTING_SECONDS: Final = 5
"""How long the parent waits for the count of one file; the process itself outlives that by one second at most."""
READING_SECONDS: Final = 30
"""How long the parent waits for one file; the process itself outlives that by one second at most."""

HEADER: Final = struct.Struct("!Q")
"""Before each file: how many base64 characters follow."""
ANSWER: Final = struct.Struct("!BI")
"""For each file, and once at the start: an outcome and a number of pages."""


class Outcome(IntEnum):
    """How a count ended; the last two are told by the parent alone."""

    COUNTED = 0
    ENCRYPTED = 1
    DAMAGED = 2
    NO_PAGES = 3
    TOO_COMPLEX = 4
    TOO_SLOW = 5
    CRASHED = 6


class Verdict(NamedTuple):
    """What is known of a PDF after counting."""

    outcome: Outcome
    pages: int = 0


class Reading(IntEnum):
    """How reading ended; the last two are told by the parent alone."""

    READ = 0
    ENCRYPTED = 1
    DAMAGED = 2
    WITHOUT_TEXT = 3
    TOO_COMPLEX = 4
    TOO_LONG = 5
    TOO_SLOW = 6
    CRASHED = 7
