"""What `pepper doctor` finds."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """Something to mend: what it is, and what mends it. The names are those of the JSON."""

    cosa: str
    rimedio: str
