"""Python's garbage collector, told what a gateway knows better: what was loaded is not garbage, and what a call leaves
behind is nearly all gone by itself.
"""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 10_000
"""By so many more objects than at the last look it is worth looking again. The default of 700 has what belongs to calls in
flight looked at over and over (60 µs of processor time a call); more than this saves nothing and holds memory.
"""


def calm() -> None:
    """Look for garbage seldom. A process says so when it begins, and its imports are quicker too."""
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)


def keep_what_is_loaded() -> None:
    """Never look again at anything that there is now."""
    gc.freeze()
