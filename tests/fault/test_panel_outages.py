"""Stores that are away while somebody changes something in the panel: it says so in time, and nothing is half done."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.domain.tenants import Permission
from gateway.storage.operator_settings import OperatorSettings
from gateway.storage.sealing import Seal
from tests.e2e.harness import SECRET, Gateway
from tests.e2e.panel import Visit, logged_in, text_of
from tests.e2e.surroundings import Stores
from tests.e2e.waiting import eventually

REPLY_SECONDS = 8.0
HEAL_SECONDS = 8.0
AWAY = "Un archivio non risponde"

pytestmark = [pytest.mark.mysql, pytest.mark.redis, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def backend() -> str:
    """Only servers can go away."""
    return "production"


@pytest.fixture
async def owner(gateway: Gateway) -> AsyncIterator[Visit]:
    async with logged_in(gateway, f"capo-{time.monotonic_ns()}@example.it") as visit:
        yield visit


def away(answer: httpx.Response, began: float) -> None:
    assert time.monotonic() - began < REPLY_SECONDS
    assert answer.status_code == 503
    assert AWAY in text_of(answer.text)


async def test_without_the_database_nothing_is_set(gateway: Gateway, owner: Visit, stores: Stores) -> None:
    assert stores.mariadb is not None
    token = await owner.token("/panel/settings")
    stores.mariadb.freeze()
    try:
        for path, fields in (
            ("/panel/settings/keys/claude", {"key": "una-chiave-che-non-arriva"}),
            ("/panel/settings/retention", {"days": "1"}),
        ):
            began = time.monotonic()
            away(await owner.client.post(path, data={"csrf": token, **fields}), began)
        began = time.monotonic()
        away(await owner.get("/panel/settings"), began)
    finally:
        stores.mariadb.start()

    async def back() -> bool:
        return (await owner.get("/panel/settings")).status_code == 200

    await eventually(back, HEAL_SECONDS)
    found = await OperatorSettings(gateway.desk.database, Seal(SECRET.encode())).read()
    assert (dict(found.keys), found.conversation_days) == ({}, 180)


async def test_without_redis_no_document_changes_and_no_project_goes(
    gateway: Gateway, owner: Visit, stores: Stores
) -> None:
    assert stores.redis is not None
    tenant = await gateway.desk.project(sandbox=True, allow=[Permission.KNOWLEDGE])
    there = f"/panel/knowledge/{tenant.name}"
    made = await owner.post(f"{there}/add", {"name": "Nota", "text": "La quota si paga a marzo."}, page=there)
    document = made.headers["location"].partition("?")[0]
    token = await owner.token(there)
    stores.redis.stop()
    try:
        for path, fields in (
            (f"{there}/add", {"name": "Nota", "text": "La quota si paga a giugno."}),
            (f"{document}/remove", {}),
            (f"/panel/projects/{tenant.name}/remove", {"name": tenant.name}),
        ):
            began = time.monotonic()
            away(await owner.client.post(path, data={"csrf": token, **fields}), began)
        page = await owner.get(document)
        assert page.status_code == 200
        assert "a marzo" in page.text
        assert (await gateway.desk.tenants.get_project(tenant.name)).active
    finally:
        stores.redis.start()

    async def gone() -> bool:
        answer = await owner.post(
            f"/panel/projects/{tenant.name}/remove", {"name": tenant.name}, page="/panel/account"
        )
        return answer.status_code == 303

    await eventually(gone, 2 * HEAL_SECONDS)
    names = {one.name for one in await gateway.desk.tenants.list_projects()}
    assert tenant.name not in names
