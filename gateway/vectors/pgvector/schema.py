"""The table in PostgreSQL, made by whoever needs it first.

Row-level security is a second wall between projects: a statement sees and writes only rows of the project that its
transaction has named, whatever its WHERE clause says. Superusers and roles with BYPASSRLS walk through it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from gateway.domain.errors import StoreAwayError

if TYPE_CHECKING:
    from gateway.vectors.pgvector.driver import Connection

TABLE = "pepper_passages"
LEAST_VERSION = (0, 8)
"""Of pgvector: the first that goes on searching its graph when a filter has left too little."""
LAYOUT = "Pepper, layout 1"
"""The table's comment."""

_SETUP_LOCK = 0x70_65_70_70_65_72
_FACTS = f"""
SELECT
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT nspname FROM pg_type JOIN pg_namespace n ON n.oid = typnamespace WHERE pg_type.oid = to_regtype('halfvec')),
    obj_description(to_regclass('{TABLE}'), 'pg_class')
"""  # noqa: S608 - a constant
_CREATE = (
    # The vector last, its row's other columns together before it: a scan touches few lines of memory. Plain: never
    # moved out of the row. Vectors of several embedders, hence dimensions, may stand side by side.
    f"""
    CREATE TABLE {TABLE} (
        project text NOT NULL, document bigint NOT NULL, version bigint NOT NULL, passage int NOT NULL,
        dimensions int NOT NULL, text text NOT NULL, vector halfvec NOT NULL,
        PRIMARY KEY (project, document, version, passage)
    )""",
    f"""
    ALTER TABLE {TABLE} ALTER project SET STORAGE PLAIN, ALTER vector SET STORAGE PLAIN,
        ALTER text SET STORAGE EXTERNAL""",
    f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY",
    f"ALTER TABLE {TABLE} FORCE ROW LEVEL SECURITY",  # also for the owner
    # In a subquery, so that it is asked once for a statement and not for each row.
    f"CREATE POLICY pepper_project ON {TABLE} USING (project = (SELECT current_setting('pepper.project', true)))",
    f"COMMENT ON TABLE {TABLE} IS '{LAYOUT}'",
)


class _Facts(NamedTuple):
    """What a database has.

    Attributes:
        extension: Version of pgvector.
        type_schema: Where its type is, if it can be found without naming the schema.
        layout: The table's comment; None without a table.

    """

    extension: str | None
    type_schema: str | None
    layout: str | None

    @property
    def ready(self) -> bool:
        return self.layout == LAYOUT and self.type_schema is not None and not self.too_old

    @property
    def too_old(self) -> bool:
        numbers = [int(number) for number in re.findall(r"\d+", self.extension or "0")]
        return tuple(numbers[:2]) < LEAST_VERSION


async def prepare(connection: Connection) -> str:
    """Make extension and table where they are missing; gives the schema of pgvector's types.

    Raises:
        StoreAwayError: The database can't be used as it is.
        asyncpg.PostgresError: Something was refused.

    """
    facts = await _facts(connection)
    if not facts.ready:
        async with connection.transaction():
            # Several nodes may start at once.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _SETUP_LOCK)
            facts = await _set_up(connection, await _facts(connection))
    return str(facts.type_schema)


async def _set_up(connection: Connection, facts: _Facts) -> _Facts:
    if facts.extension is None:
        try:
            await connection.execute("CREATE EXTENSION vector")
        except (
            asyncpg.InsufficientPrivilegeError,
            asyncpg.UndefinedFileError,
            asyncpg.FeatureNotSupportedError,
        ) as error:
            raise StoreAwayError(
                f"PostgreSQL has no pgvector ({error.args[0]}): install it, and let an administrator run "
                "CREATE EXTENSION vector in this database"
            ) from None
        facts = await _facts(connection)
    if facts.too_old:
        raise StoreAwayError(
            f"pgvector is {facts.extension}, and 0.8 or newer is needed: let an administrator run ALTER EXTENSION vector UPDATE"
        )
    if facts.type_schema is None:
        raise StoreAwayError("the types of pgvector are not on the search path of PEPPER_VECTOR_URL's role")
    if facts.layout is None:
        for statement in _CREATE:
            await connection.execute(statement)
    elif facts.layout != LAYOUT:
        raise StoreAwayError(f"the table {TABLE} belongs to another release: {facts.layout}")
    return facts


async def _facts(connection: Connection) -> _Facts:
    row = await connection.fetchrow(_FACTS)
    return _Facts(*(row or (None, None, None)))
