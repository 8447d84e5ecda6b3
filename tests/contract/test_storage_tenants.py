"""Projects and keys, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError

from gateway.domain.tenants import Permission
from gateway.storage import schema
from gateway.storage.audit import read_audit
from gateway.storage.calls import Calls
from gateway.storage.catalog import Catalog
from gateway.storage.changes import ProjectChanges
from gateway.storage.configuration import read_configuration, read_revision
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.first_start import install
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError
from gateway.storage.reservations import Reservation
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import ANNA, KINDS, NOW, TODAY, entry, opened, pair, place_of, project

DIGEST = bytes(range(224, 256))


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


@pytest.fixture
def tenants(database: Database) -> Tenants:
    return Tenants(database)


async def test_a_project_is_read_as_it_was_added(tenants: Tenants) -> None:
    full = project(
        permissions=frozenset({Permission.IMAGES, Permission.AGENT}),
        hourly_limit=0,
        daily_budget=2**40,
        domains=("a.it", "b.it"),
        sandbox=True,
        active=False,
    )
    await tenants.add_project(full, ANNA)
    await tenants.add_project(project("beta"), ANNA)
    assert await tenants.get_project("alfa") == full
    assert [each.name for each in await tenants.list_projects()] == ["alfa", "beta"]


async def test_a_name_is_taken_once(tenants: Tenants) -> None:
    await tenants.add_project(project(), ANNA)
    with pytest.raises(DuplicateError):
        await tenants.add_project(project(), ANNA)
    rivals = await asyncio.gather(
        *(tenants.add_project(project("gamma"), ANNA) for _ in range(5)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in rivals) == ["DuplicateError"] * 4 + ["Project"]


@pytest.mark.parametrize("name", ["", "Alfa", "-a", "à", "a" * 64, "rimosso-ABCDEFGH"])
async def test_a_name_that_is_none_is_refused(tenants: Tenants, name: str) -> None:
    with pytest.raises(RefusalError):
        await tenants.add_project(project(name), ANNA)


async def test_changes_change_what_they_set(tenants: Tenants, database: Database) -> None:
    await install(database, NOW)
    await tenants.add_project(project(daily_budget=5, domains=("a.it",)), ANNA)
    changes = ProjectChanges(
        daily_budget=None, brain="Pepper 7", permissions=frozenset({Permission.INTERNET})
    )
    after = await tenants.set_project("alfa", changes, ANNA, NOW)
    assert after == await tenants.get_project("alfa")
    assert after == project(brain="Pepper 7", domains=("a.it",), permissions=frozenset({Permission.INTERNET}))
    with pytest.raises(UnknownError):
        await tenants.set_project("alfa", ProjectChanges(brain="Pepper 99"), ANNA, NOW)
    with pytest.raises(UnknownError):
        await tenants.set_project("beta", ProjectChanges(sandbox=True), ANNA, NOW)


async def test_what_does_not_fit_is_refused_by_both(tenants: Tenants) -> None:
    await tenants.add_project(project(), ANNA)
    with pytest.raises(RefusalError):
        await tenants.add_key("alfa", DIGEST, "x" * 129, ANNA, NOW)
    for limit in (2**31, -(2**31) - 1):
        with pytest.raises(RefusalError):
            await tenants.set_project("alfa", ProjectChanges(hourly_limit=limit), ANNA, NOW)
    with pytest.raises(RefusalError):
        await tenants.add_project(project("beta", daily_budget=2**63), ANNA)
    assert [each.name for each in await tenants.list_projects()] == ["alfa"]


async def test_an_error_of_the_database_shows_no_values(database: Database) -> None:
    with pytest.raises(DBAPIError) as caught:
        await _write_twice(database)
    assert "segreto" not in str(caught.value)


async def _write_twice(database: Database) -> None:
    row = {"recipe": "r", "version": 2, "project": "", "text": "segreto", "live": True}
    async with database.begin() as connection:
        for _ in range(2):
            await connection.execute(
                insert(schema.recipe_versions), row | {"created_at": NOW, "created_by": "anna"}
            )


async def test_every_change_is_counted_and_audited(tenants: Tenants, database: Database) -> None:
    revision = (await read_revision(database)).revision
    await tenants.add_project(project(), ANNA)
    key = await tenants.add_key("alfa", DIGEST, "prima", ANNA, NOW)
    await tenants.disable_project("alfa", ANNA, NOW)
    await tenants.enable_project("alfa", ANNA, NOW)
    await tenants.revoke_key("alfa", key.id, ANNA, NOW)
    await tenants.remove_project("alfa", ANNA, NOW)
    assert (await read_revision(database)).revision >= revision + 6
    entries = await read_audit(database)
    assert [each.action for each in reversed(entries)] == [
        "project.add",
        "key.add",
        "project.set",
        "project.set",
        "key.revoke",
        "project.set",
        "project.remove",
    ]
    assert {(each.operator, each.subject) for each in entries} == {("anna", "alfa")}
    assert entries[-3].before is not None
    assert msgspec.json.decode(entries[-3].before)["active"] is True
    everything = msgspec.json.encode(entries)
    assert DIGEST.hex().encode() not in everything
    assert b"digest" not in everything


async def test_a_refused_change_leaves_nothing(tenants: Tenants, database: Database) -> None:
    revision = (await read_revision(database)).revision
    with pytest.raises(UnknownError):
        await tenants.add_key("nessuno", DIGEST, "", ANNA, NOW)
    assert (await read_revision(database)).revision == revision
    assert await read_audit(database) == ()


async def test_keys_live_until_they_are_revoked(tenants: Tenants) -> None:
    await tenants.add_project(project(), ANNA)
    await tenants.add_project(project("beta"), ANNA)
    first = await tenants.add_key("alfa", DIGEST, "prima", ANNA, NOW)
    second = await tenants.add_key("alfa", DIGEST[::-1], "seconda", ANNA, NOW)
    assert await tenants.list_keys("alfa") == (first, second)
    assert await tenants.find_key(DIGEST) == (project(), first.id)
    with pytest.raises(DuplicateError):
        await tenants.add_key("beta", DIGEST, "", ANNA, NOW)
    assert await tenants.revoke_key("beta", first.id, ANNA, NOW) is False
    assert await tenants.revoke_key("alfa", first.id, ANNA, NOW) is True
    assert await tenants.revoke_key("alfa", first.id, ANNA, NOW) is False
    assert await tenants.find_key(DIGEST) is None
    assert await tenants.find_key(bytes(32)) is None
    assert (await tenants.list_keys("alfa"))[0].revoked_at == NOW
    await tenants.disable_project("alfa", ANNA, NOW)
    assert await tenants.find_key(DIGEST[::-1]) == (project(active=False), second.id)


async def test_use_of_keys_is_noted_at_the_latest(tenants: Tenants, database: Database) -> None:
    await tenants.add_project(project(), ANNA)
    key = await tenants.add_key("alfa", DIGEST, "", ANNA, NOW)
    revision = (await read_revision(database)).revision
    await tenants.touch_keys([key.id, 999], NOW)
    await tenants.touch_keys([key.id], NOW - timedelta(hours=1))
    await tenants.touch_keys([], NOW)
    assert [each.last_used for each in await tenants.list_keys("alfa")] == [NOW]
    assert (await read_revision(database)).revision == revision


async def test_the_gateway_s_own_project_has_no_keys_and_stays(tenants: Tenants, database: Database) -> None:
    await install(database, NOW)
    with pytest.raises(RefusalError):
        await tenants.add_key("dilem", DIGEST, "", ANNA, NOW)
    with pytest.raises(RefusalError):
        await tenants.remove_project("dilem", ANNA, NOW)
    assert (await tenants.set_project("dilem", ProjectChanges(sandbox=True), ANNA, NOW)).sandbox


async def test_removal_takes_the_project_s_rows_and_no_other(tenants: Tenants, database: Database) -> None:
    calls, conversations, catalog = Calls(database), Conversations(database), Catalog(database)
    for number, name in enumerate(("alfa", "beta")):
        await tenants.add_project(project(name), ANNA)
        await tenants.add_key(name, bytes([number] * 32), "", ANNA, NOW)
        await calls.commit([entry(f"r-{name}", name, 25, pair=pair(f"r-{name}", name))])
        held = Reservation(project=name, day=TODAY, request_id=f"h-{name}", amount=5, record=b"\x00\xff")
        await calls.reserve(held, 1000)
        await catalog.add_recipe_version("libero", "testo", ANNA, NOW, project=name)
    label = await tenants.remove_project("alfa", ANNA, NOW)
    assert label.startswith("rimosso-")
    async with database.connect() as connection:
        for table in (schema.pairs, schema.conversations, schema.reservations, schema.project_keys):
            assert set(await connection.scalars(select(table.c.project))) == {"beta"}
        assert set(await connection.scalars(select(schema.projects.c.name))) == {"beta"}
        for ledger in (schema.calls, schema.spending):
            assert set(await connection.scalars(select(ledger.c.project))) == {"beta", label}
        assert set((await connection.execute(select(schema.recipe_versions.c.project))).scalars()) == {"beta"}
    assert await calls.spent(label, TODAY) == 25
    with pytest.raises(UnknownError):
        await tenants.remove_project("alfa", ANNA, NOW)
    # The name is free, and what it had is not there for its next owner.
    await tenants.add_project(project(), ANNA)
    assert await tenants.list_keys("alfa") == ()
    assert await calls.spent("alfa", TODAY) == 0
    assert not await conversations.exists("alfa", "cnv_1", NOW)
    await calls.close()


async def test_a_call_that_ends_after_the_removal_is_made_anonymous_too(
    tenants: Tenants, database: Database
) -> None:
    calls = Calls(database)
    await tenants.add_project(project(), ANNA)
    await tenants.remove_project("alfa", ANNA, NOW)
    await calls.commit([entry("tardi", pair=pair("tardi"))])
    assert await tenants.anonymise_strays() == 1
    assert await tenants.anonymise_strays() == 0
    assert await calls.find_call("alfa", "tardi") is None
    assert not await Conversations(database).exists("alfa", "cnv_1", NOW)
    await calls.close()


async def test_the_configuration_is_read_whole(tenants: Tenants, database: Database) -> None:
    await install(database, NOW)
    await tenants.add_project(project(), ANNA)
    live = await tenants.add_key("alfa", DIGEST, "", ANNA, NOW)
    dead = await tenants.add_key("alfa", DIGEST[::-1], "", ANNA, NOW)
    await tenants.revoke_key("alfa", dead.id, ANNA, NOW)
    version = await Catalog(database).add_recipe_version("libero", "testo", ANNA, NOW, project="alfa")
    rows = await read_configuration(database)
    assert rows.revision == (await read_revision(database)).revision
    assert set(rows.projects) == {"alfa", "dilem"}
    assert rows.projects["alfa"] == project()
    assert rows.keys == {DIGEST: ("alfa", live.id)}
    assert [brain.name for brain in rows.brains] == ["Pepper 6", "Pepper 6 · OpenAI", "Pepper 7"]
    assert rows.versions == {("libero", "alfa"): version}
