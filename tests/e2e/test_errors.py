"""The contract's errors, each at its place in the order of checks, on both stores."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e import told
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.waiting import eventually
from tests.services import LOOPBACK


async def raw(gateway: Gateway, request: bytes) -> bytes:
    """Exactly these bytes, and all that comes back until the server closes or is silent."""
    reader, writer = await asyncio.open_connection(LOOPBACK, gateway.port)
    try:
        writer.write(request)
        await writer.drain()
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        return head + await asyncio.wait_for(reader.readexactly(length), 5)
    finally:
        writer.close()


@pytest.mark.parametrize("address", ["/api.php", "/capacita.php"])
async def test_only_post_is_taken(gateway: Gateway, address: str) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "QUALCOSA"):
        response = await gateway.client.request(method, address)
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        if method == "HEAD":
            assert response.content == b""
        else:
            told.error(response, 405, "richiesta_non_valida")


async def test_the_state_needs_no_key_and_takes_get_and_head(gateway: Gateway) -> None:
    response = await gateway.client.get("/stato.php")
    assert (response.status_code, response.json()) == (200, {"ok": True})
    head = await gateway.client.head("/stato.php")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == response.headers["content-length"]
    assert (await gateway.client.get("/stato.php?pronto=1")).status_code == 200
    response = await gateway.client.post("/stato.php")
    told.error(response, 405, "richiesta_non_valida")
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_an_unknown_address(gateway: Gateway, method: str) -> None:
    for address in ("/", "/api", "/API.PHP", "/pepper", "/%00", "/api.php%20", "/" + "x" * 5_000):
        told.error(await gateway.client.request(method, address), 404, "indirizzo_sconosciuto")


async def test_a_key_that_is_no_key(gateway: Gateway) -> None:
    mine, other = await gateway.desk.project(), await gateway.desk.project()
    revoked = await gateway.desk.key(mine.name)
    await gateway.desk.tenants.revoke_key(mine.name, revoked.key_id, TESTER, datetime.now(UTC))
    off = await gateway.desk.project(active=False)
    texts = set()
    wrong: list[tuple[Tenant, dict[str, str]]] = [
        (mine, {}),
        (mine, {"x-pepper-key": ""}),
        (mine, {"x-pepper-key": "pk_no"}),
        (mine, {"x-pepper-key": mine.key + "x"}),
        (mine, {"x-pepper-key": "è" * 50}),
        (mine, {"x-pepper-key": "k" * 10_000}),
        (mine, {"x-pepper-key": other.key}),
        (mine, {"x-pepper-key": f"{mine.key},{mine.key}"}),
        (mine, {"x-pepper-key": revoked.key}),
        (Tenant("non-esiste", ""), {"x-pepper-key": mine.key}),
        (Tenant(mine.name.upper(), ""), {"x-pepper-key": mine.key}),
        (off, {"x-pepper-key": off.key}),
        (Tenant("dilem", ""), {"x-pepper-key": mine.key}),
    ]
    for tenant, headers in wrong:
        for address in ("/api.php", "/capacita.php"):
            body = {"progetto": tenant.name, "encode": "libero", "contenuto": "x"}
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            response = await gateway.client.post(address, json=body, headers=encoded)
            texts.add(told.error(response, 401, "non_autorizzato"))
    assert len(texts) == 1


@pytest.mark.parametrize("second", ["the same", "another"])
async def test_two_keys_are_none(gateway: Gateway, second: str) -> None:
    tenant = await gateway.desk.project()
    other = tenant.key if second == "the same" else "pk_altro"
    headers = [("x-pepper-key", tenant.key), ("X-Pepper-Key", other)]
    body = {"progetto": tenant.name, "encode": "libero", "contenuto": "x"}
    response = await gateway.client.post("/api.php", json=body, headers=headers)
    told.error(response, 401, "non_autorizzato")


async def test_the_key_is_judged_before_the_body_is_read(gateway: Gateway) -> None:
    reply = await raw(
        gateway, b"POST /api.php HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nX-Pepper-Key: pk_no\r\n\r\n"
    )
    assert reply.startswith(b"HTTP/1.1 401")


async def test_the_declared_size_is_judged_before_the_key(gateway: Gateway) -> None:
    for address, size in ((b"/api.php", 64 * 2**20 + 1), (b"/capacita.php", 64 * 2**10 + 1)):
        for length in (str(size), "9" * 18):
            reply = await raw(
                gateway,
                b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n" % (address, length.encode()),
            )
            assert reply.startswith(b"HTTP/1.1 413"), reply
            assert b"contenuto_troppo_grande" in reply


ORDER: list[tuple[dict[str, Any], int, str]] = [
    ({"progetto": 7, "encode": 7}, 400, "richiesta_non_valida"),
    ({"progetto": "altro", "encode": 7, "contenuto": 7}, 401, "non_autorizzato"),
    ({"encode": 7, "contenuto": "x"}, 400, "richiesta_non_valida"),
    ({"encode": "mai", "contenuto": "x" * 100_001}, 413, "contenuto_troppo_grande"),
    ({"encode": "mai", "conversazione": "cnv_mai"}, 404, "encode_sconosciuto"),
    ({"documenti": [{"nome": "a.pdf", "dati": "!"}], "encode": "mai"}, 404, "encode_sconosciuto"),
    (
        {"documenti": [{"nome": "a.pdf", "dati": "!"}], "conversazione": "cnv_mai"},
        403,
        "documenti_non_abilitati",
    ),
    ({"modo": "differito"}, 403, "differito_non_abilitato"),
    ({"modo": "differito", "contenuto": None, "contenuti": ["a", "b"]}, 403, "differito_non_abilitato"),
    ({"conversazione": "cnv_" + "a" * 16}, 404, "conversazione_sconosciuta"),
]


async def test_the_order_of_checks_and_a_refusal_consumes_nothing(gateway: Gateway) -> None:
    """Each body is wrong in two ways; the earlier check speaks. Afterwards the one call of the hour is still there."""
    tenant = await gateway.desk.project(per_hour=1)
    for fields, status, code in ORDER:
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": "x", **fields}
        response = await gateway.client.post("/api.php", json=body, headers=gateway.headers(tenant))
        told.error(response, status, code)
    told.answer(await gateway.ask(tenant))
    told.error(await gateway.ask(tenant), 429, "troppe_richieste")
    told.error(await gateway.ask(tenant, conversazione="cnv_mai"), 404, "conversazione_sconosciuta")
    assert len(await gateway.desk.rows(tenant)) == 1


async def test_an_unknown_recipe_is_told_with_those_that_there_are(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    for name in ("riasumi", "Riassumi", "dilem/decide", "decide", "", "../libero", "🌶" * 5_000):
        message = told.error(await gateway.ask(tenant, encode=name), 404, "encode_sconosciuto")
        assert "riassumi" in message
        assert "libero" in message
        assert "decide" not in message.partition("Disponibili")[2]
        assert len(message) < 1_000


async def test_the_messages_name_the_field(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("encode", {"encode": None}),
        ("encode", {"encode": ["libero"]}),
        ("contenuto", {"contenuto": None}),
        ("contenuto", {"contenuto": ""}),
        ("contenuto", {"contenuto": " \n\t\u00a0"}),
        ("contenuto", {"contenuto": 12}),
        ("conversazione", {"conversazione": 5}),
        ("extra", {"extra": ["a"]}),
        ("documenti", {"documenti": {"nome": "x"}}),
        ("documenti", {"documenti": [{"nome": "x"}]}),
        ("documenti", {"documenti": [{"dati": "eA=="}]}),
        ("modo", {"modo": "dopo"}),
        ("stream", {"stream": "true"}),
        ("stream", {"stream": True, "modo": "differito"}),
        ("contenuti", {"contenuti": ["a"]}),
        ("contenuti", {"contenuto": None, "contenuti": ["a"]}),
        ("conversazione", {"modo": "differito", "conversazione": "nuova"}),
    ]
    for field, fields in wrong:
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": "x", **fields}
        body = {name: value for name, value in body.items() if value is not None}
        response = await gateway.client.post("/api.php", json=body, headers=gateway.headers(tenant))
        assert f"{field}" in told.error(response, 400, "richiesta_non_valida"), fields
    assert gateway.fakes.claude.seen == []


async def test_a_revoked_key_and_a_disabled_project_end_within_two_seconds(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    second = await gateway.desk.key(tenant.name)
    told.answer(await gateway.ask(tenant))
    told.answer(await gateway.ask(second))
    await gateway.desk.tenants.revoke_key(tenant.name, tenant.key_id, TESTER, datetime.now(UTC))

    async def refused(who: Tenant) -> bool:
        return (await gateway.ask(who)).status_code == 401

    await eventually(lambda: refused(tenant), CHANGE_SECONDS)
    told.answer(await gateway.ask(second))
    await gateway.desk.tenants.disable_project(tenant.name, TESTER, datetime.now(UTC))
    await eventually(lambda: refused(second), CHANGE_SECONDS)
    await gateway.desk.tenants.enable_project(tenant.name, TESTER, datetime.now(UTC))

    async def back() -> bool:
        return not await refused(second)

    await eventually(back, CHANGE_SECONDS)


async def test_every_reply_has_a_request_id_of_its_own(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    replies = [
        await gateway.client.get("/stato.php"),
        await gateway.client.get("/nessuno"),
        await gateway.client.get("/api.php"),
        await gateway.ask(tenant),
        await gateway.ask(Tenant(tenant.name, "no")),
    ]
    ids = {reply.headers["x-request-id"] for reply in replies}
    assert len(ids) == len(replies)
    assert all(told.REQUEST_ID.fullmatch(one) for one in ids)
    assert json.loads(replies[3].content)["meta"]["richiesta"] in ids
