"""Nodes, the shared secret, the reign over budgets and the first start, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text, union_all, update

from gateway.domain.secrets import key_digest
from gateway.storage import schema
from gateway.storage.columns import database_now
from gateway.storage.configuration import read_revision
from gateway.storage.database import Database
from gateway.storage.first_start import first_start, install
from gateway.storage.nodes import Node, Nodes
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import ANNA, KINDS, NOW, opened, place_of, project

SECRET = b"s" * 32


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


@pytest.fixture
def nodes(database: Database) -> Nodes:
    return Nodes(database)


def node(name: str) -> Node:
    return Node(id=name, data_id="d", key_value="embedded:d", host="macchina", pid=2**22, started_at=NOW)


async def test_nodes_live_while_their_heart_beats(nodes: Nodes, database: Database) -> None:
    for name in "ab":
        await nodes.register(node(name))
    await nodes.register(node("a"))
    assert [each.id for each in await nodes.live_nodes(10)] == ["a", "b"]
    async with database.begin() as connection:
        old = update(schema.nodes).where(schema.nodes.c.id == "a")
        await connection.execute(old.values(heartbeat_at=database_now(-11)))
    assert [each.id for each in await nodes.live_nodes(10)] == ["b"]
    assert await nodes.heartbeat("a") is True
    assert [each.id for each in await nodes.live_nodes(10)] == ["a", "b"]
    await nodes.unregister("a")
    await nodes.unregister("a")
    assert await nodes.heartbeat("a") is False
    async with database.begin() as connection:
        await connection.execute(update(schema.nodes).values(heartbeat_at=database_now(-86_401)))
    await nodes.register(node("c"))
    assert [each.id for each in await nodes.live_nodes(10**6)] == ["c"]


async def test_the_first_secret_is_the_one(nodes: Nodes) -> None:
    claims = await asyncio.gather(*(nodes.claim_secret(name) for name in "abcab"))
    assert claims.count(True) in {1, 2}
    winner = "abcab"[claims.index(True)]
    for name in "abc":
        assert await nodes.claim_secret(name) is (name == winner)


async def test_the_database_s_clock_is_told(database: Database) -> None:
    async with database.connect() as connection:
        if database.dialect == "mysql":
            await connection.execute(text("SET time_zone = '+05:00'"))
        earlier, later = (
            await connection.scalars(union_all(select(database_now(-30)), select(database_now(60))))
        ).all()
    assert timedelta(seconds=89) < later - earlier < timedelta(seconds=91)
    state = await read_revision(database)
    assert abs(state.now.timestamp() - later.timestamp() + 60) < 10


async def test_a_reign_is_lengthened_and_then_a_new_one_begins(nodes: Nodes, database: Database) -> None:
    assert not (await read_revision(database)).database_reigns
    first = await nodes.begin_database_reign(60)
    assert first.budget_epoch == 1
    assert first.database_reigns
    assert first.database_until is not None
    assert timedelta(seconds=55) < first.database_until - first.now <= timedelta(seconds=60)
    shorter = await nodes.begin_database_reign(5)
    assert (shorter.budget_epoch, shorter.database_until) == (1, first.database_until)
    longer = await nodes.begin_database_reign(120)
    assert longer.budget_epoch == 1
    assert longer.database_until is not None
    assert longer.database_until > first.database_until
    async with database.begin() as connection:
        await connection.execute(update(schema.installation).values(database_until=database_now(-1)))
    assert not (await read_revision(database)).database_reigns
    rivals = await asyncio.gather(*(nodes.begin_database_reign(30) for _ in range(8)))
    assert {each.budget_epoch for each in rivals} == {2}


async def test_the_first_start_happens_once(database: Database) -> None:
    await asyncio.gather(*(install(database, NOW) for _ in range(4)))
    keys = await asyncio.gather(*(first_start(database, SECRET, NOW) for _ in range(4)))
    assert sorted(each is None for each in keys) == [False, True, True, True]
    key = next(each for each in keys if each is not None)
    tenants = Tenants(database)
    found = await tenants.find_key(key_digest(SECRET, key))
    assert found is not None
    assert (found[0].name, found[0].sandbox) == ("demo", True)
    assert [each.name for each in await tenants.list_projects()] == ["demo", "dilem"]
    await tenants.remove_project("demo", ANNA, NOW)
    assert await first_start(database, SECRET, NOW) is None


async def test_a_store_with_projects_gets_no_demo(database: Database) -> None:
    await install(database, NOW)
    await Tenants(database).add_project(project(), ANNA)
    assert await first_start(database, SECRET, NOW) is None
    assert [each.name for each in await Tenants(database).list_projects()] == ["alfa", "dilem"]
