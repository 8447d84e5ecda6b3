"""Inserts that meet a row which is there already, in each database's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.dialects.mysql import insert as mysql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Insert, Table


def insert_missing(dialect: str, table: Table) -> Insert:
    """Insert what is not there; a row of the same key stays as it is.

    On MySQL other faults of the values become warnings too: only for values of our own making.
    """
    if dialect == "sqlite":
        return sqlite_insert(table).on_conflict_do_nothing()
    return mysql_insert(table).prefix_with("IGNORE")


def insert_adding(dialect: str, table: Table, amounts: Sequence[str]) -> Insert:
    """Insert, or add the named amounts to the row of the same key."""
    if dialect == "sqlite":
        statement = sqlite_insert(table)
        sums = {name: table.c[name] + statement.excluded[name] for name in amounts}
        return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=sums)
    mysql_statement = mysql_insert(table)
    return mysql_statement.on_duplicate_key_update(
        {name: table.c[name] + mysql_statement.inserted[name] for name in amounts}
    )
