"""The schema: what the migrations build is what the queries name, whoever starts at the same time."""

from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, func, inspect, select, text

from gateway.domain.errors import StoreAwayError
from gateway.storage import schema
from gateway.storage.configuration import read_configuration, read_revision
from gateway.storage.database import Database
from gateway.storage.migrate import NewerSchemaError, SchemaState, migrate, schema_state
from gateway.storage.outages import MissingSchemaError
from tests.unit.storage.stores import KINDS, Place, opened, place_of


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request, tmp_path)


async def test_migrations_and_metadata_agree(place: Place) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, schema.metadata))

    async with opened(place) as database, database.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_mysql_tables_are_as_they_should_be(place: Place) -> None:
    def told(connection: Connection) -> set[tuple[object, object]]:
        options = [inspect(connection).get_table_options(name) for name in schema.metadata.tables]
        return {(each["mysql_engine"], each["mysql_collate"]) for each in options}

    async with opened(place) as database, database.connect() as connection:
        if database.dialect == "mysql":
            assert await connection.run_sync(told) == {("InnoDB", "utf8mb4_bin")}


async def test_the_state_is_told(place: Place) -> None:
    database = Database.open(place)
    assert await schema_state(database) is SchemaState.MISSING
    with pytest.raises(MissingSchemaError):
        await read_revision(database)
    with pytest.raises(StoreAwayError):
        await read_configuration(database)
    await migrate(database)
    assert await schema_state(database) is SchemaState.CURRENT
    await migrate(database)
    async with database.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert await schema_state(database) is SchemaState.NEWER
    with pytest.raises(NewerSchemaError):
        await migrate(database)
    await database.close()


async def test_an_interrupted_first_migration_goes_on(place: Place) -> None:
    async with opened(place) as database:
        async with database.begin() as connection:
            await connection.execute(text("DELETE FROM alembic_version"))
            await connection.execute(text("DROP TABLE pairs"))
        await migrate(database)
        assert await schema_state(database) is SchemaState.CURRENT
        async with database.connect() as connection:
            assert await connection.scalar(select(func.count()).select_from(schema.pairs)) == 0
            assert await connection.scalar(select(func.count()).select_from(schema.installation)) == 1


def _migrate(place: Place) -> None:
    async def run() -> None:
        async with opened(place):
            pass

    asyncio.run(run())


async def test_starts_at_the_same_time(place: Place) -> None:
    processes = [
        multiprocessing.get_context("spawn").Process(target=_migrate, args=(place,)) for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 60)
    assert [process.exitcode for process in processes] == [0] * 4
    async with opened(place) as database:
        assert (await read_revision(database)).revision == 1
