"""From the first release's tables to this one's: what was kept is still there, also after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, select, text

from gateway.domain.batches import BatchState
from gateway.storage import schema
from gateway.storage.batches import Batches
from gateway.storage.database import Database
from gateway.storage.migrate import SchemaState, _configuration, migrate, schema_state
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import KINDS, NOW, Place, batch, place_of, project

FIRST = "0001"
KEPT = """
INSERT INTO projects (name, active, permissions, hourly_limit, domains, sandbox, internal, created_at)
VALUES ('alfa', 1, '["differito"]', 100, '[]', 0, 0, '2026-11-30 12:00:00.123456')
"""


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request, tmp_path)


def _first(connection: Connection) -> None:
    command.upgrade(_configuration(connection), FIRST)


async def test_the_first_release_s_tables_are_upgraded(place: Place) -> None:
    database = Database.open(place)
    async with database.unpooled().connect() as connection:
        await connection.run_sync(_first)
        await connection.execute(text(KEPT))
        await connection.commit()
    assert await schema_state(database) is SchemaState.OLD
    await migrate(database)
    assert await schema_state(database) is SchemaState.CURRENT
    kept = await Tenants(database).get_project("alfa")
    assert kept == project(permissions=kept.permissions)
    await Batches(database).open(batch(), None, 20)
    found = await Batches(database).get("alfa", batch().number, NOW)
    assert found is not None
    assert found.state is BatchState.RUNNING
    await database.close()


async def test_an_interrupted_upgrade_goes_on(place: Place) -> None:
    """On MySQL each statement stands by itself: some of them are there, and the version is the old one."""
    database = Database.open(place)
    async with database.unpooled().connect() as connection:
        await connection.run_sync(_first)
        await connection.execute(text("ALTER TABLE projects ADD COLUMN notice_url VARCHAR(2048)"))
        await connection.execute(text("CREATE INDEX ix_batches_sent_at ON batches (sent_at)"))
        await connection.commit()
    await migrate(database)
    async with database.connect() as connection:
        assert (await connection.execute(select(schema.notices))).all() == []
        assert (await connection.execute(select(schema.duties))).all() == []
    await database.close()
