"""The knowledge base through kill -9 and outages: the earlier document answers, nothing is left, money is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update

from gateway.bootstrap.knowledge import open_library
from gateway.bootstrap.stores import open_stores
from gateway.domain.calls import Outcome
from gateway.domain.tenants import Permission
from gateway.settings import read_settings
from gateway.storage import schema
from gateway.storage.columns import database_now
from gateway.storage.documents import WRITING_SECONDS, Documents
from tests.e2e import told
from tests.e2e.desk import Tenant, held_in_gate
from tests.e2e.harness import Gateway
from tests.e2e.shelf import act, names, opened, sources, switch_on, take_out, upload
from tests.e2e.waiting import eventually
from tests.fakes import hang, say
from tests.fakes.openai_server import EMBEDDINGS

RULES = "Le ferie si chiedono al responsabile entro il 31 marzo di ogni anno."
NEWER = RULES.replace("marzo", "maggio")
QUESTION = "Entro quando si chiedono le ferie?"
SWEEP_SECONDS = 15.0
VECTORS = True

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def gateway(make_gateway: Callable[..., Gateway]) -> Any:
    gateway = make_gateway()
    for fake in (gateway.fakes.claude, gateway.fakes.openai):
        fake.reset()
    await asyncio.to_thread(gateway.start)
    async with gateway.connected():
        await switch_on(gateway, ("libero", "riassumi"))
        yield gateway
    gateway.kill()


async def reader(gateway: Gateway, **settings: Any) -> Tenant:
    tenant, _ = await gateway.tenant_of_its_own(allow=[Permission.KNOWLEDGE], **settings)
    await opened(gateway, tenant)
    return tenant


def asked(gateway: Gateway) -> str:
    content = gateway.fakes.claude.seen[-1].body["messages"][-1]["content"]
    assert isinstance(content, str)
    return content


async def stale(gateway: Gateway) -> int:
    async with gateway.desk.database.connect() as connection:
        return int(await connection.scalar(select(func.count()).select_from(schema.stale_passages)) or 0)


async def swept(gateway: Gateway) -> None:
    """What the hourly sweep does an hour later."""
    async with gateway.desk.database.begin() as connection:
        await connection.execute(update(schema.stale_passages).values(at=database_now(-WRITING_SECONDS - 1)))
    settings = read_settings(gateway.variables())
    async with open_stores(settings, print) as stores, open_library(stores) as (library, _):
        await library.sweep()


async def test_killed_in_the_middle_of_uploads(gateway: Gateway) -> None:
    """One dies while it is read, many at any moment; the earlier text answers, and nothing is left for ever."""
    tenant = await reader(gateway, cap=1_000.0)
    kept = await upload(gateway, tenant, "Regolamento", RULES)
    gateway.fakes.openai.script(hang(), on=EMBEDDINGS)
    before = len(gateway.fakes.openai.seen)
    dying = asyncio.create_task(act(gateway, tenant, "carica", nome="Regolamento", testo=NEWER))

    async def reading() -> bool:
        return len(gateway.fakes.openai.seen) > before

    await eventually(reading)
    await asyncio.to_thread(gateway.kill)
    with pytest.raises(httpx.TransportError):
        await dying
    await asyncio.to_thread(gateway.start)
    assert await names(gateway, tenant) == ["Regolamento"]
    assert sources(told.answer(await gateway.ask(tenant, QUESTION))) == ["Regolamento"]
    assert "31 marzo" in asked(gateway)
    assert await stale(gateway) == 1

    async def charged() -> bool:
        rows = [row for row in await gateway.desk.rows(tenant) if row.outcome is Outcome.LOST]
        return [row.recipe for row in rows] == ["conoscenza"]

    if gateway.stores.kind == "embedded":  # at once where a death can be seen
        await eventually(charged, SWEEP_SECONDS)
        assert held_in_gate(tenant, gateway.data, None) == 0

    gateway.fakes.openai.reset()
    for round_ in range(2):
        async with httpx.AsyncClient(base_url=gateway.address, timeout=30) as client:

            async def one(number: int, client: httpx.AsyncClient = client) -> None:
                body = {"progetto": tenant.name, "azione": "carica"}
                body |= {"nome": f"Documento {number % 3}", "testo": f"{RULES} {number}.\n\n" * 200}
                await client.post("/conoscenza.php", json=body, headers=gateway.headers(tenant))

            storm = [asyncio.create_task(one(number)) for number in range(9)]
            await asyncio.sleep(0.05 + 0.1 * round_)
            await asyncio.to_thread(gateway.kill)
            await asyncio.gather(*storm, return_exceptions=True)
        await asyncio.to_thread(gateway.start)
        documents = Documents(gateway.desk.database)
        shelf = await documents.shelf(tenant.name)
        assert len(shelf.documents) == len(await names(gateway, tenant))
        for document in shelf.documents:  # each is whole
            found = await documents.text(tenant.name, document.id)
            assert found is not None
            assert document.characters == len(found[1])
    await swept(gateway)
    assert await stale(gateway) == 0
    async with gateway.desk.database.connect() as connection:
        left = select(func.count()).select_from(schema.documents).where(schema.documents.c.version.is_(None))
        assert await connection.scalar(left) == 0
    assert sources(told.answer(await gateway.ask(tenant, QUESTION)))
    await take_out(gateway, tenant, kept["id"])


async def test_a_server_that_goes_down_ends_what_is_being_read(gateway: Gateway) -> None:
    gateway.kill()
    gateway.environment = {"PEPPER_DRAIN_SECONDS": "1"}
    await asyncio.to_thread(gateway.start)
    tenant = await reader(gateway)
    await upload(gateway, tenant, "Regolamento", RULES)
    gateway.fakes.openai.script(hang(), hang(), on=EMBEDDINGS)
    before = len(gateway.fakes.openai.seen)
    uploading = asyncio.create_task(act(gateway, tenant, "carica", nome="Nuovo", testo=NEWER))

    async def reading() -> bool:
        return len(gateway.fakes.openai.seen) > before

    await eventually(reading)
    assert await asyncio.to_thread(gateway.terminate) == 0
    told.error(await uploading, 503, "ai_non_disponibile")
    rows = [row for row in await gateway.desk.rows(tenant) if row.recipe == "conoscenza"]
    assert [row.outcome for row in rows] == [Outcome.OK, Outcome.FAILED]
    assert await stale(gateway) == 0


async def test_without_the_key_value_store(gateway: Gateway) -> None:
    """Nothing changes while cached answers can't be forgotten; answers go on with their documents."""
    if gateway.stores.redis is None:
        pytest.skip("the embedded store goes with the folder")
    tenant = await reader(gateway)
    kept = await upload(gateway, tenant, "Regolamento", RULES)
    gateway.stores.redis.stop()
    try:
        told.error(
            await act(gateway, tenant, "carica", nome="Regolamento", testo=NEWER),
            503,
            "servizio_non_disponibile",
        )
        told.error(await act(gateway, tenant, "togli", documento=kept["id"]), 503, "servizio_non_disponibile")
        assert await names(gateway, tenant) == ["Regolamento"]
        assert sources(told.answer(await gateway.ask(tenant, QUESTION))) == ["Regolamento"]
        assert "31 marzo" in asked(gateway)
    finally:
        gateway.stores.redis.start()

    async def back() -> bool:
        response = await act(gateway, tenant, "carica", nome="Regolamento", testo=NEWER)
        return response.status_code == 200

    await eventually(back, 10)
    await take_out(gateway, tenant, kept["id"])


async def test_without_the_index(gateway: Gateway) -> None:
    """Answers come without documents and say so; documents can't be changed, and stay as they are."""
    if gateway.stores.postgres is None:
        pytest.skip("test_knowledge_troubles.py takes the embedded index away")
    tenant = await reader(gateway)
    kept = await upload(gateway, tenant, "Regolamento", RULES)
    read = len(gateway.fakes.openai.seen)
    gateway.stores.postgres.stop()
    try:
        for stream in (False, True):
            body = {"progetto": tenant.name, "encode": "riassumi", "contenuto": QUESTION, "stream": stream}
            response = await gateway.client.post("/api.php", json=body, headers=gateway.headers(tenant))
            assert response.status_code == 200
            assert '"conoscenza":"non_disponibile"' in response.text
            assert '"cache"' not in response.text
            assert '"fonti"' not in response.text
        read = len(gateway.fakes.openai.seen)
        for action, fields in (
            ("carica", {"nome": "Regolamento", "testo": NEWER}),
            ("carica", {"nome": "Nuovo", "testo": NEWER}),
            ("togli", {"documento": kept["id"]}),
        ):
            response = await act(gateway, tenant, action, **fields)
            told.error(response, 503, "servizio_non_disponibile")
        assert len(gateway.fakes.openai.seen) == read, "nothing is paid that could not be kept"
        assert await names(gateway, tenant) == ["Regolamento"]
        assert (await gateway.client.get("/stato.php")).status_code == 200
        assert (await gateway.client.get("/stato.php?pronto=1")).status_code == 503
    finally:
        gateway.stores.postgres.start()

    async def back() -> bool:
        body = told.answer(await gateway.ask(tenant, QUESTION, encode="riassumi"))
        return sources(body) == ["Regolamento"] and "cache" not in body["meta"]

    await eventually(back, 10)
    assert "31 marzo" in asked(gateway)
    await take_out(gateway, tenant, kept["id"])
    assert await names(gateway, tenant) == []


async def test_without_the_database(gateway: Gateway) -> None:
    if gateway.stores.mariadb is None:
        pytest.skip("the embedded store goes with the folder")
    tenant = await reader(gateway)
    kept = await upload(gateway, tenant, "Regolamento", RULES)
    gateway.fakes.claude.script(say("Lenta.", first_delay=3.0))
    running = asyncio.create_task(gateway.ask(tenant, QUESTION))

    async def answering() -> bool:
        return bool(gateway.fakes.claude.seen)

    await eventually(answering)
    gateway.stores.mariadb.stop()
    try:
        for action, fields in (
            ("carica", {"nome": "Regolamento", "testo": NEWER}),
            ("elenco", {}),
            ("togli", {"documento": kept["id"]}),
        ):
            response = await act(gateway, tenant, action, **fields)
            told.error(response, 503, "servizio_non_disponibile")
        assert sources(told.answer(await running)) == ["Regolamento"]
    finally:
        gateway.stores.mariadb.start()

    async def back() -> bool:
        return (await act(gateway, tenant, "elenco")).status_code == 200

    await eventually(back, 15)
    assert await names(gateway, tenant) == ["Regolamento"]
    assert "31 marzo" in asked(gateway)
    await take_out(gateway, tenant, kept["id"])
