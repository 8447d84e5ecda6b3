"""Bringing the schema up to date, whoever starts at the same time; and telling how far it is."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gateway.domain.errors import StoreAwayError
from gateway.storage.outages import outage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alembic.config import Config
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

LOCK_SECONDS = 120
"""Wait for another process's migration."""


class SchemaState(StrEnum):
    """How far the database's schema is."""

    MISSING = "missing"
    """No tables: `migrate` makes them."""
    OLD = "old"
    """An earlier release's: `migrate` upgrades it."""
    CURRENT = "current"
    NEWER = "newer"
    """A later release's: this one must not touch it."""


class NewerSchemaError(Exception):
    """The schema is a later release's."""


async def migrate(database: Database) -> None:
    """Create or upgrade the schema; a no-op when it is current. Processes that come together wait for the first.

    Not bounded by the transaction's limit: a big ledger takes its time.

    Raises:
        NewerSchemaError: The schema is a later release's.
        StoreAwayError: The store does not answer, or another process has been migrating for too long.

    """
    try:
        async with _alone(database) as connection:
            await connection.run_sync(_upgrade)
            await connection.commit()
    except DBAPIError as error:
        away = outage(error)
        if away is None:
            raise
        raise away from error


async def schema_state(database: Database) -> SchemaState:
    """Tell how far the schema is, without changing it.

    Raises:
        StoreAwayError: The store does not answer.

    """
    async with database.connect() as connection:
        return await connection.run_sync(_state)


@asynccontextmanager
async def _alone(database: Database) -> AsyncIterator[AsyncConnection]:
    """Give a connection of its own while no other process migrates this database."""
    engine = database.unpooled()
    try:
        if database.file is not None:
            lock_file = database.file.with_name(database.file.name + ".migrating")
            async with _file_lock(lock_file), engine.connect() as connection:
                yield connection
            return
        async with engine.connect() as connection:
            name = await connection.scalar(text("SELECT DATABASE()"))
            lock = "pepper." + hashlib.sha256(str(name).encode()).hexdigest()[:32]
            taken = await connection.scalar(
                text("SELECT GET_LOCK(:lock, :wait)"), {"lock": lock, "wait": LOCK_SECONDS}
            )
            if taken != 1:
                raise StoreAwayError("another process is migrating the database")
            # It belongs to the connection and ends with it, however that ends.
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _file_lock(path: Path) -> AsyncIterator[None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreAwayError(f"the folder of the SQLite file cannot be written: {error.strerror}") from error
    try:
        until = asyncio.get_running_loop().time() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if asyncio.get_running_loop().time() > until:
                    raise StoreAwayError("another process is migrating the database") from None
                await asyncio.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _configuration(connection: Connection) -> Config:
    # alembic is a quarter of a second and many megabytes that a running worker doesn't need.
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _state(connection: Connection) -> SchemaState:
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    script = ScriptDirectory.from_config(_configuration(connection))
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        return SchemaState.MISSING
    if current == script.get_current_head():
        return SchemaState.CURRENT
    known = {step.revision for step in script.walk_revisions()}
    return SchemaState.OLD if current in known else SchemaState.NEWER


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415

    state = _state(connection)
    if state is SchemaState.NEWER:
        raise NewerSchemaError("the database belongs to a later release")
    if state is not SchemaState.CURRENT:
        command.upgrade(_configuration(connection), "head")
