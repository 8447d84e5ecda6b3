"""What the command line changes while the server runs: every worker knows within two seconds, without a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.fakes import say

WORKERS = 2


async def command(gateway: Gateway, *arguments: str) -> Any:
    """`pepper ARGUMENTS --json`, and what it printed."""
    done = await asyncio.to_thread(gateway.command, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def added(gateway: Gateway, name: str, *options: str) -> Tenant:
    made = await command(gateway, "project", "add", name, *options)
    assert made["progetto"] == name
    return Tenant(name, made["chiave"])


def asking(
    tenant: Tenant, status: int, check: Callable[[dict[str, Any]], bool] = lambda _: True, **fields: Any
) -> Callable[[httpx.AsyncClient], Awaitable[bool]]:
    async def condition(client: httpx.AsyncClient) -> bool:
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": "Ciao.", **fields}
        response = await client.post("/api.php", json=body, headers={"x-pepper-key": tenant.key})
        return response.status_code == status and check(response.json())

    return condition


def capable(
    tenant: Tenant, check: Callable[[dict[str, Any]], bool]
) -> Callable[[httpx.AsyncClient], Awaitable[bool]]:
    async def condition(client: httpx.AsyncClient) -> bool:
        response = await client.post(
            "/capacita.php", json={"progetto": tenant.name}, headers={"x-pepper-key": tenant.key}
        )
        return response.status_code == 200 and check(response.json())

    return condition


async def test_a_new_project_may_call_at_once(gateway: Gateway) -> None:
    tenant = await added(gateway, "nuovo", "--per-hour", "1000")
    told.answer(await gateway.ask(tenant))
    await gateway.everywhere(asking(tenant, 200))


async def test_keys_come_and_go(gateway: Gateway) -> None:
    first = await added(gateway, "rotazione", "--per-hour", "10000")
    made = await command(gateway, "key", "add", first.name, "--label", "seconda")
    second = Tenant(first.name, made["chiave"], made["id"])
    await gateway.everywhere(asking(second, 200))
    told.answer(await gateway.ask(first))
    keys = await command(gateway, "key", "list", first.name)
    assert [key["etichetta"] for key in keys][-1] == "seconda"
    assert first.key not in json.dumps(keys)
    await command(gateway, "key", "revoke", first.name, str(keys[0]["id"]))
    await gateway.everywhere(asking(first, 401))
    told.answer(await gateway.ask(second))


async def test_a_project_is_set_disabled_enabled_and_removed(gateway: Gateway) -> None:
    tenant = await added(gateway, "mutevole", "--per-hour", "10000")
    await command(gateway, "project", "set", tenant.name, "--allow", "documenti", "--per-hour", "5000")
    await gateway.everywhere(
        capable(tenant, lambda f: f["puo"]["documenti"] and f["limiti"]["chiamate_ora"] == 5_000)
    )
    await command(gateway, "project", "set", tenant.name, "--daily-budget", "0")
    await gateway.everywhere(asking(tenant, 429, lambda b: b["errore"]["codice"] == "budget_esaurito"))
    await command(gateway, "project", "set", tenant.name, "--daily-budget", "none", "--allow", "")
    await gateway.everywhere(asking(tenant, 200))
    await gateway.everywhere(capable(tenant, lambda f: not f["puo"]["documenti"]))
    await command(gateway, "project", "set", tenant.name, "--model", "Pepper 6 · OpenAI")
    await gateway.everywhere(asking(tenant, 200, lambda b: b["meta"]["provider"] == "openai"))
    await command(gateway, "project", "disable", tenant.name)
    await gateway.everywhere(asking(tenant, 401))
    await command(gateway, "project", "enable", tenant.name)
    await gateway.everywhere(asking(tenant, 200))
    await command(gateway, "project", "remove", tenant.name, "--yes")
    await gateway.everywhere(asking(tenant, 401))
    assert await gateway.desk.rows(tenant) == []


async def test_recipes_change_for_one_and_for_all(gateway: Gateway, tmp_path: Path) -> None:
    tenant, other = await added(gateway, "variante"), await added(gateway, "comune")
    gateway.fakes.claude.default = lambda seen: say(
        "V" if "Variante mia." in str(seen.body["system"]) else "C"
    )
    file = tmp_path / "variante.md"
    file.write_text("Variante mia.")
    await command(gateway, "recipe", "variant", "libero", "--project", tenant.name, "--file", str(file))
    await gateway.everywhere(asking(tenant, 200, lambda b: b["risposta"] == "V"))
    assert told.answer(await gateway.ask(other))["risposta"] == "C"
    await command(gateway, "recipe", "variant", "libero", "--project", tenant.name, "--remove")
    await gateway.everywhere(asking(tenant, 200, lambda b: b["risposta"] == "C"))
    await command(gateway, "recipe", "set", "libero", "--level", "economico")
    try:
        await gateway.everywhere(asking(other, 200, lambda b: b["meta"]["modello"] == "claude-haiku-4-5"))
    finally:
        await command(gateway, "recipe", "set", "libero", "--level", "principale")
    await gateway.everywhere(asking(other, 200, lambda b: b["meta"]["modello"] == "claude-opus-5"))


async def test_brains_and_prices(gateway: Gateway) -> None:
    tenant = await added(gateway, "cervelli", "--per-hour", "10000")
    gateway.teach("claude", "claude-fresh")
    await command(
        gateway, *("model", "add", "Pepper 8", "--provider", "claude"), *("--main", "claude-fresh"),
        *("--economy", "claude-fresh", "--news", "Nuovo."),
    )  # fmt: skip
    await command(gateway, "project", "set", tenant.name, "--model", "Pepper 8")
    # Nobody knows what it costs.
    await gateway.everywhere(asking(tenant, 502))
    await command(gateway, "price", "set", "claude-fresh", "--input", "1", "--output", "1000")
    await gateway.everywhere(asking(tenant, 200, lambda b: b["meta"]["versione"] == "Pepper 8"))
    gateway.fakes.claude.default = say("Ecco.", input_tokens=0, output_tokens=1_000)
    told.answer(await gateway.ask(tenant))
    assert (await gateway.desk.rows(tenant))[-1].cost == 1_000_000
    await command(gateway, "model", "set", "Pepper 8", "--main", "claude-opus-5")
    await gateway.everywhere(asking(tenant, 200, lambda b: b["meta"]["modello"] == "claude-opus-5"))
    other = await added(gateway, "predefinito")
    await command(gateway, "model", "default", "Pepper 8")
    try:
        await gateway.everywhere(capable(other, lambda f: f["versione"] == "Pepper 8"))
    finally:
        await command(gateway, "model", "default", "Pepper 6")
    await gateway.everywhere(capable(other, lambda f: f["versione"] == "Pepper 6"))
