"""`POST /conoscenza.php` as a partner uses it, its replies read strictly; and recipes that look into the documents."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import httpx

from gateway.storage.changes import SwitchChanges
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.waiting import eventually

UPLOADED = ["ok", "id", "nome", "pezzi", "sostituito"]
LISTED = ["id", "nome", "pezzi", "caratteri", "caricato_il"]
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
SOURCE = ["documento", "pezzo", "somiglianza"]


async def act(gateway: Gateway, tenant: Tenant, action: Any, **fields: Any) -> httpx.Response:
    body = {"progetto": tenant.name, "azione": action, **fields}
    return await gateway.client.post("/conoscenza.php", json=body, headers=gateway.headers(tenant))


async def upload(gateway: Gateway, tenant: Tenant, name: str, text: str) -> dict[str, Any]:
    return uploaded(await act(gateway, tenant, "carica", nome=name, testo=text))


def uploaded(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, (response.status_code, response.text)
    body: dict[str, Any] = response.json()
    assert list(body) == UPLOADED
    assert body["ok"] is True
    assert isinstance(body["id"], int)
    assert isinstance(body["pezzi"], int)
    assert isinstance(body["sostituito"], bool)
    return body


async def listed(gateway: Gateway, tenant: Tenant) -> list[dict[str, Any]]:
    response = await act(gateway, tenant, "elenco")
    assert response.status_code == 200, (response.status_code, response.text)
    body = response.json()
    assert list(body) == ["ok", "documenti", "pezzi"]
    for one in body["documenti"]:
        assert list(one) == LISTED
        assert DATE.fullmatch(one["caricato_il"])
    assert body["pezzi"] == sum(one["pezzi"] for one in body["documenti"])
    found: list[dict[str, Any]] = body["documenti"]
    return found


async def names(gateway: Gateway, tenant: Tenant) -> list[str]:
    return [one["nome"] for one in await listed(gateway, tenant)]


async def take_out(gateway: Gateway, tenant: Tenant, document: int) -> None:
    response = await act(gateway, tenant, "togli", documento=document)
    assert (response.status_code, response.text) == (200, '{"ok":true}')


def sources(body: dict[str, Any]) -> list[str]:
    """The documents that an answer was given on; each source strictly of its form."""
    found = body["meta"].get("fonti", [])
    assert "fonti" not in body["meta"] or 1 <= len(found) <= 5
    for one in found:
        assert list(one) == SOURCE
        assert one["pezzo"] >= 1
        assert 0 < one["somiglianza"] <= 1
        assert one["somiglianza"] == round(one["somiglianza"], 2)
    likeness = [one["somiglianza"] for one in found]
    assert likeness == sorted(likeness, reverse=True)
    return [one["documento"] for one in found]


async def switch_on(gateway: Gateway, recipes: Collection[str]) -> None:
    """Let recipes look into the documents, once for the module's gateway."""
    for name in recipes:
        changes = SwitchChanges(knowledge=True)
        await gateway.desk.catalog.set_switches(name, changes, TESTER, datetime.now(UTC))


async def opened(gateway: Gateway, tenant: Tenant) -> None:
    """Return once every worker knows the tenant's permission."""

    async def known(client: httpx.AsyncClient) -> bool:
        body = {"progetto": tenant.name, "azione": "elenco"}
        return (
            await client.post("/conoscenza.php", json=body, headers=gateway.headers(tenant))
        ).status_code == 200

    await gateway.everywhere(known)


__all__ = [
    "CHANGE_SECONDS",
    "act",
    "eventually",
    "listed",
    "names",
    "opened",
    "sources",
    "switch_on",
    "take_out",
    "upload",
    "uploaded",
]
