"""Python's garbage collector, told what a gateway knows better: what was loaded is not garbage, and what a call leaves
behind is nearly all gone by itself.
"""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 50_000
"""So many more objects than at the last look are looked at: with 64 callers some 15,000 belong to calls in flight, and the
default of 700 has each of them looked at several times (60 µs of processor time a call)."""


def calm() -> None:
    """Look for garbage seldom. A process says so when it begins, and its imports are quicker too."""
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)


def keep_what_is_loaded() -> None:
    """Never look again at anything that there is now."""
    gc.freeze()
