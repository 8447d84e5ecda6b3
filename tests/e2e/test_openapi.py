"""What the gateway really answers is what `/pepper/openapi.json` says of it: every address, answer, error and event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from gateway.domain.errors import CONTRACT_FAULTS
from gateway.domain.tenants import Permission
from gateway.routes.pepper import answers, batches, capabilities, knowledge
from gateway.storage.changes import SwitchChanges
from gateway.wire.openapi.faults import BY_ADDRESS
from tests import openapi
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.enclosed import photo, sent, written_pdf
from tests.e2e.harness import Gateway

MARK = "zibaldone"
"""In every text that is sent: it must not be found in the log."""
MOST_BYTES = {
    "/api.php": answers.BODY_LIMIT,
    "/pratica.php": batches.BODY_LIMIT,
    "/capacita.php": capabilities.BODY_LIMIT,
    "/conoscenza.php": knowledge.BODY_LIMIT,
}


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


@pytest.fixture
async def tenant(gateway: Gateway) -> AsyncIterator[Tenant]:
    """A sandbox project that may do everything."""
    changes = SwitchChanges(internet=True, knowledge=True)
    await gateway.desk.catalog.set_switches("libero", changes, TESTER, datetime.now(UTC))
    tenant = await gateway.desk.project(sandbox=True, cap=5, allow=list(Permission))

    async def known(_: httpx.AsyncClient) -> bool:
        found = await gateway.capabilities(tenant)
        return any(recipe["nome"] == "libero" and recipe["internet"] for recipe in found["ricette"])

    await gateway.everywhere(known)
    yield tenant
    log = gateway.log()
    assert MARK not in log
    assert tenant.key not in log


async def post(gateway: Gateway, tenant: Tenant, address: str, **fields: Any) -> httpx.Response:
    headers = gateway.headers(tenant, fields.pop("key", None))
    return await gateway.client.post(address, json={"progetto": tenant.name, **fields}, headers=headers)


async def ask(gateway: Gateway, tenant: Tenant, text: str = "", **fields: Any) -> Any:
    """What `/api.php` says, judged: the request too, as one that the document allows."""
    body = {"encode": "libero", "contenuto": f"{MARK} {text}", **fields}
    body = {name: value for name, value in body.items() if value is not ...}
    told = {"progetto": tenant.name, **{name: value for name, value in body.items() if name != "key"}}
    openapi.check(told, openapi.request_schema("/api.php"), openapi.contract())
    return openapi.check_reply("/api.php", await post(gateway, tenant, "/api.php", **body))


async def test_the_document_is_served(gateway: Gateway) -> None:
    response = await gateway.client.get("/pepper/openapi.json")
    assert response.json() == openapi.contract()
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "public, max-age=300"
    head = await gateway.client.head("/pepper/openapi.json")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == response.headers["content-length"]
    refused = await gateway.client.post("/pepper/openapi.json")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_answers(gateway: Gateway, tenant: Tenant) -> None:
    told = await ask(gateway, tenant)
    assert told["conversazione"] is None
    told = await ask(gateway, tenant, conversazione="nuova")
    assert (await ask(gateway, tenant, conversazione=told["conversazione"]))["conversazione"]
    assert (await ask(gateway, tenant, "[[prova:troncata]]"))["meta"]["troncata"]
    assert (await ask(gateway, tenant, "[[prova:tentativi:1]]"))["meta"]["tentativi"] == 2
    await ask(gateway, tenant, key="chiave-1")
    assert (await ask(gateway, tenant, key="chiave-1"))["meta"]["idempotente"]
    await ask(gateway, tenant, encode="riassumi")
    assert (await ask(gateway, tenant, encode="riassumi"))["meta"]["cache"]
    told = await ask(gateway, tenant, encode="estrai", extra={"campi": ["a", "b"]})
    assert set(json.loads(told["risposta"])) == {"a", "b"}


async def test_answers_with_files_the_web_and_the_knowledge(gateway: Gateway, tenant: Tenant) -> None:
    file = sent(written_pdf("Si rifà il tetto."), "verbale.pdf")
    told = await ask(gateway, tenant, documenti=[file, photo()])
    assert told["meta"]["documenti_pagine"] == 1
    assert told["meta"]["citazioni"][0]["fonte"] == "documento"
    told = await ask(gateway, tenant, encode="estrai", extra={"campi": ["a"]}, documenti=[file])
    assert told["meta"]["citazioni_spente"] == "schema_json"
    told = await ask(gateway, tenant, "[[prova:ricerca:2]]")
    assert told["meta"]["ricerche"] == 2
    assert told["meta"]["citazioni"][0]["fonte"] == "web"
    added = await post(
        gateway, tenant, "/conoscenza.php", azione="carica", nome="Listino", testo="Il tetto costa caro."
    )
    openapi.check_reply("/conoscenza.php", added)
    told = await ask(gateway, tenant, "Quanto costa il tetto?")
    assert told["meta"]["fonti"][0]["documento"] == "Listino"


async def test_streams(gateway: Gateway, tenant: Tenant) -> None:
    events = await ask(gateway, tenant, "[[prova:pezzi:7]]", stream=True)
    assert [event["event"] for event in events] == ["delta"] * 7 + ["done"]
    events = await ask(gateway, tenant, "[[prova:ricerca:1]]", stream=True)
    assert {event["event"] for event in events} == {"tool_call", "tool_done", "delta", "done"}
    events = await ask(gateway, tenant, "[[prova:taglio:2]]", stream=True)
    assert [event["event"] for event in events] == ["delta", "delta", "error"]


@pytest.mark.parametrize("code", sorted({fault.code for fault in CONTRACT_FAULTS}))
async def test_every_error(gateway: Gateway, tenant: Tenant, code: str) -> None:
    told = await ask(gateway, tenant, f"[[prova:{code}]]")
    assert told["errore"]["codice"] == code
    told = await ask(gateway, tenant, f"[[prova:{code}]]", stream=True)
    assert (told[-1]["data"] if isinstance(told, list) else told["errore"])["codice"] == code
    if code in {fault.code for fault in BY_ADDRESS["/conoscenza.php"]} - {"documento_sconosciuto"}:
        refused = await post(
            gateway, tenant, "/conoscenza.php", azione="carica", nome="x", testo=f"{MARK} [[prova:{code}]]"
        )
        assert openapi.check_reply("/conoscenza.php", refused)["errore"]["codice"] == code


async def test_deferred_work(gateway: Gateway, tenant: Tenant) -> None:
    several: dict[str, Any] = {"contenuto": ..., "modo": "differito"}
    receipt = await ask(
        gateway, tenant, contenuti=[MARK, "[[prova:scade]]", "[[prova:differito:3600]]"], **several
    )
    running = await post(gateway, tenant, "/pratica.php", pratica=receipt["pratica"])
    assert openapi.check_reply("/pratica.php", running)["stato"] == "in_corso"
    receipt = await ask(gateway, tenant, contenuti=[MARK, "[[prova:scade]]", "[[prova:troncata]]"], **several)
    ended = openapi.check_reply(
        "/pratica.php", await post(gateway, tenant, "/pratica.php", pratica=receipt["pratica"])
    )
    assert ended["stato"] == "pronta"
    assert [item["ok"] for item in ended["risposte"]] == [True, False, True]
    single = await ask(
        gateway, tenant, modo="differito", documenti=[sent(written_pdf("Si rifà il tetto."), "verbale.pdf")]
    )
    ended = openapi.check_reply(
        "/pratica.php", await post(gateway, tenant, "/pratica.php", pratica=single["pratica"])
    )
    assert ended["risposta"] == ended["risposte"][0]["risposta"]
    assert ended["risposte"][0]["citazioni"]
    unknown = await post(gateway, tenant, "/pratica.php", pratica="prt_mai")
    assert openapi.check_reply("/pratica.php", unknown)["errore"]["codice"] == "pratica_sconosciuta"


async def test_the_knowledge(gateway: Gateway, tenant: Tenant) -> None:
    async def act(action: Any, **fields: Any) -> Any:
        reply = await post(gateway, tenant, "/conoscenza.php", azione=action, **fields)
        return openapi.check_reply("/conoscenza.php", reply)

    added = await act("carica", nome="Listino", testo=f"Il tetto costa caro. {MARK}")
    assert added["sostituito"] is False
    assert (await act("carica", nome="Listino", testo="Il tetto costa poco."))["sostituito"] is True
    assert [one["id"] for one in (await act("elenco"))["documenti"]] == [added["id"]]
    assert await act("togli", documento=added["id"]) == {"ok": True}
    assert (await act("togli", documento=added["id"]))["errore"]["codice"] == "documento_sconosciuto"
    assert (await act("boh"))["errore"]["codice"] == "richiesta_non_valida"


async def test_capabilities(gateway: Gateway, tenant: Tenant) -> None:
    everything = openapi.check_reply("/capacita.php", await post(gateway, tenant, "/capacita.php"))
    assert everything["conoscenza"] is not None
    plain = await gateway.desk.project()
    nothing = openapi.check_reply("/capacita.php", await post(gateway, plain, "/capacita.php"))
    assert nothing["conoscenza"] is None
    assert nothing["spesa"]["tetto_usd"] is None


@pytest.mark.parametrize("address", MOST_BYTES)
async def test_what_every_address_refuses(gateway: Gateway, tenant: Tenant, address: str) -> None:
    client = gateway.client
    for headers, body, status in (
        ({}, b"{}", 401),
        (gateway.headers(tenant), b"", 400),
        (gateway.headers(tenant), b'{"progetto": "un-altro"}', 401),
        (gateway.headers(tenant), b" " * (MOST_BYTES[address] + 1), 413),
    ):
        response = await client.post(address, content=body, headers=headers)
        assert response.status_code == status
        openapi.check_reply(address, response)


async def test_for_operators(gateway: Gateway) -> None:
    assert openapi.check_reply("/stato.php", await gateway.client.get("/stato.php")) == {"ok": True}
    ready = await gateway.client.get("/stato.php", params={"pronto": "1"})
    assert openapi.check_reply("/stato.php", ready) == {"ok": True}
    assert "pepper_requests_total" in openapi.check_reply("/metrics", await gateway.client.get("/metrics"))
    forwarded = await gateway.client.get("/metrics", headers={"x-forwarded-for": "192.0.2.1"})
    assert openapi.check_reply("/metrics", forwarded)["errore"]["codice"] == "non_autorizzato"
