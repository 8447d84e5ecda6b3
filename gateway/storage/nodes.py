"""The nodes that share the store, what they have in common (the secret), and who reigns over budgets.

Time is the database's own.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import case, delete, insert, or_, select, update

from gateway.storage import schema
from gateway.storage.audit import THE_INSTALLATION
from gateway.storage.columns import database_now
from gateway.storage.configuration import Installation, read_installation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

FORGOTTEN_SECONDS = 86_400.0
"""A node that was silent for so long leaves the table."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A process that serves.

    Attributes:
        id: Random, new at each start.
        data_id: Names its data folder: nodes of the same folder share the embedded stores.
        key_value: Names its key-value store: `embedded:DATA_ID`, or the address without user and password.

    """

    id: str
    data_id: str
    key_value: str
    host: str
    pid: int
    started_at: datetime
    heartbeat_at: datetime | None = None


class Nodes:
    """Nodes and the installation's row in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, node: Node) -> None:
        """Enter a node, alive now; again is the same as a heartbeat. Nodes silent for a day are forgotten."""
        table = schema.nodes
        row = msgspec.structs.asdict(node) | {"heartbeat_at": database_now()}

        async def work(connection: AsyncConnection) -> None:
            gone = or_(table.c.id == node.id, table.c.heartbeat_at < database_now(-FORGOTTEN_SECONDS))
            await connection.execute(delete(table).where(gone))
            await connection.execute(insert(table).values(row))

        await self._database.transact(work)

    async def heartbeat(self, node_id: str) -> bool:
        """Say that the node lives; False when it is not entered (any more): register again."""
        table = schema.nodes

        async def work(connection: AsyncConnection) -> bool:
            beat = update(table).where(table.c.id == node_id).values(heartbeat_at=database_now())
            return bool((await connection.execute(beat)).rowcount)

        return await self._database.transact(work)

    async def unregister(self, node_id: str) -> None:
        """Take a node out; an unknown one is passed over."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(schema.nodes).where(schema.nodes.c.id == node_id))

        await self._database.transact(work)

    async def live_nodes(self, within_seconds: float) -> Sequence[Node]:
        """Give the nodes that were heard of in the last seconds, the oldest first."""
        table = schema.nodes
        query = select(table).where(table.c.heartbeat_at >= database_now(-within_seconds))
        async with self._database.connect() as connection:
            rows = await connection.execute(query.order_by(table.c.started_at, table.c.id))
            return tuple(Node(**row) for row in rows.mappings())

    async def claim_secret(self, fingerprint: str) -> bool:
        """Leave the secret's fingerprint if there is none; whether the one that is there is this one."""
        table = schema.installation

        async def work(connection: AsyncConnection) -> bool:
            mine = table.c.id == THE_INSTALLATION
            free = update(table).where(mine, table.c.secret_fingerprint.is_(None))
            await connection.execute(free.values(secret_fingerprint=fingerprint))
            found: str | None = await connection.scalar(select(table.c.secret_fingerprint).where(mine))
            return found == fingerprint

        return await self._database.transact(work)

    async def begin_database_reign(self, seconds: float) -> Installation:
        """Let capped projects reserve in the database for so long from now; gives the state after.

        A reign that is not over is lengthened, never shortened, and keeps its epoch; else a new epoch begins.
        """
        table = schema.installation
        until = database_now(seconds)
        reigns = table.c.database_until > database_now()

        async def work(connection: AsyncConnection) -> Installation:
            # In this order: MySQL reckons a later value with the earlier ones' results.
            reign = update(table).where(table.c.id == THE_INSTALLATION)
            reign = reign.ordered_values(
                (table.c.budget_epoch, table.c.budget_epoch + case((reigns, 0), else_=1)),
                (
                    table.c.database_until,
                    case((table.c.database_until > until, table.c.database_until), else_=until),
                ),
            )
            await connection.execute(reign)
            return await read_installation(connection)

        return await self._database.transact(work)
