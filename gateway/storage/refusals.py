"""Why the configuration refuses a change: three errors, each with a sentence for the operator; and the one check that
stands for both databases, because SQLite takes what MySQL does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Integer, String

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Table


class RefusalError(Exception):
    """The change would break a rule of the configuration; `str()` is a sentence for the operator, in English."""


class DuplicateError(RefusalError):
    """Something of that name exists already."""


class UnknownError(RefusalError):
    """Nothing of that name exists."""


def check_sizes(table: Table, row: Mapping[str, Any]) -> None:
    """Refuse a text longer, or a number larger, than the table's column. Raises `RefusalError`."""
    for name, value in row.items():
        kind = table.c[name].type
        if isinstance(value, str) and isinstance(kind, String) and kind.length and len(value) > kind.length:
            raise RefusalError(f"{name} has more than {kind.length} characters")
        if isinstance(value, int) and isinstance(kind, Integer):
            bits = 63 if isinstance(kind, BigInteger) else 31
            if not -(2**bits) <= value < 2**bits:
                raise RefusalError(f"{name} is too large a number")
