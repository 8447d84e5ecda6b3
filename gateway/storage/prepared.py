"""Inserts of whole rows, compiled once: the text comes from the tables, and no row goes through SQLAlchemy's execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sqlalchemy import Insert
    from sqlalchemy.engine import Dialect

Row: TypeAlias = Sequence[Any]
"""A value for each column of the table, in its order."""


class PreparedInsert:
    """An insert into every column of its table, in a dialect's words.

    Attributes:
        text: The statement for one row, with the driver's placeholders.
        head, tail: What stands before the row's bracket and behind it.

    """

    def __init__(self, statement: Insert, dialect: Dialect) -> None:
        """Compile.

        Raises:
            ValueError: The statement has other placeholders than the columns of one row.

        """
        columns = statement.table.columns
        names = [column.name for column in columns]
        compiled = statement.inline().compile(dialect=dialect, column_keys=names)
        self.text = str(compiled)
        mark = "?" if dialect.paramstyle == "qmark" else "%s"
        parts = self.text.split(f"({', '.join([mark] * len(names))})")
        if getattr(compiled, "positiontup", None) != names or len(parts) != 2:
            raise ValueError(f"no plain insert of rows: {self.text}")
        self.head, self.tail = parts
        binders = [column.type.dialect_impl(dialect).bind_processor(dialect) for column in columns]
        self._binders = [(place, bind) for place, bind in enumerate(binders) if bind is not None]

    def bound(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Give the rows as the driver takes them: each column's type has its say."""
        result = []
        for row in rows:
            values = list(row)
            for place, bind in self._binders:
                values[place] = bind(values[place])
            result.append(values)
        return result
