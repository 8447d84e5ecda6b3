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
from tests.e2e.harness import CHANGE_SECONDS, Gateway, eventually
from tests.fakes import say

WORKERS = 2
CONNECTIONS = 12
"""New ones, so that it is next to certain that every worker is asked."""


async def command(gateway: Gateway, *arguments: str) -> Any:
    """`pepper ARGUMENTS --json`, and what it printed."""
    done = await asyncio.to_thread(gateway.command, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


async def added(gateway: Gateway, name: str, *options: str) -> Tenant:
    made = await command(gateway, "project", "add", name, *options)
    assert made["progetto"] == name
    return Tenant(name, made["chiave"])


async def everywhere(condition: Callable[[httpx.AsyncClient], Awaitable[bool]], gateway: Gateway) -> None:
    """Wait until the condition holds on every worker."""

    async def one() -> bool:
        async with httpx.AsyncClient(base_url=gateway.address, timeout=20) as client:
            return await condition(client)

    async def all_of_them() -> bool:
        return all(await asyncio.gather(*(one() for _ in range(CONNECTIONS))))

    await eventually(all_of_them, CHANGE_SECONDS)


def asking(
    tenant: Tenant, status: int, check: Callable[[dict[str, Any]], bool] = lambda _: True, **fields: Any
) -> Callable[[httpx.AsyncClient], Awaitable[bool]]:
    async def condition(client: httpx.AsyncClient) -> bool:
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": "Ciao.", **fields}
        response = await client.post("/api.php", json=body, headers={"x-pepper-key": tenant.key})
        return response.status_code == status and check(response.json())

    return condition


def capable(tenant: Tenant, check: Callable[[dict[str, Any]], bool]) -> Callable[[httpx.AsyncClient], Awaitable[bool]]:
    async def condition(client: httpx.AsyncClient) -> bool:
        response = await client.post(
            "/capacita.php", json={"progetto": tenant.name}, headers={"x-pepper-key": tenant.key}
        )
        return response.status_code == 200 and check(response.json())

    return condition


async def test_a_new_project_may_call_at_once(gateway: Gateway) -> None:
    tenant = await added(gateway, "nuovo", "--per-hour", "1000")
    told.answer(await gateway.ask(tenant))
    await everywhere(asking(tenant, 200), gateway)


async def test_keys_come_and_go(gateway: Gateway) -> None:
    first = await added(gateway, "rotazione", "--per-hour", "10000")
    made = await command(gateway, "key", "add", first.name, "--label", "seconda")
    second = Tenant(first.name, made["chiave"], made["id"])
    await everywhere(asking(second, 200), gateway)
    told.answer(await gateway.ask(first))
    keys = await command(gateway, "key", "list", first.name)
    assert [key["etichetta"] for key in keys][-1] == "seconda"
    assert first.key not in json.dumps(keys)
    await command(gateway, "key", "revoke", first.name, str(keys[0]["id"]))
    await everywhere(asking(first, 401), gateway)
    told.answer(await gateway.ask(second))


async def test_a_project_is_set_disabled_enabled_and_removed(gateway: Gateway) -> None:
    tenant = await added(gateway, "mutevole", "--per-hour", "10000")
    await command(gateway, "project", "set", tenant.name, "--allow", "documenti", "--per-hour", "5000")
    await everywhere(
        capable(tenant, lambda f: f["puo"]["documenti"] and f["limiti"]["chiamate_ora"] == 5_000), gateway
    )
    await command(gateway, "project", "set", tenant.name, "--daily-budget", "0")
    await everywhere(asking(tenant, 429, lambda b: b["errore"]["codice"] == "budget_esaurito"), gateway)
    await command(gateway, "project", "set", tenant.name, "--daily-budget", "none", "--allow", "")
    await everywhere(asking(tenant, 200), gateway)
    await everywhere(capable(tenant, lambda f: not f["puo"]["documenti"]), gateway)
    await command(gateway, "project", "set", tenant.name, "--model", "Pepper 6 · OpenAI")
    await everywhere(asking(tenant, 200, lambda b: b["meta"]["provider"] == "openai"), gateway)
    await command(gateway, "project", "disable", tenant.name)
    await everywhere(asking(tenant, 401), gateway)
    await command(gateway, "project", "enable", tenant.name)
    await everywhere(asking(tenant, 200), gateway)
    await command(gateway, "project", "remove", tenant.name, "--yes")
    await everywhere(asking(tenant, 401), gateway)
    assert await gateway.desk.rows(tenant) == []


async def test_recipes_change_for_one_and_for_all(gateway: Gateway, tmp_path: Path) -> None:
    tenant, other = await added(gateway, "variante"), await added(gateway, "comune")
    gateway.fakes.claude.default = lambda seen: say("V" if "Variante mia." in str(seen.body["system"]) else "C")
    file = tmp_path / "variante.md"
    file.write_text("Variante mia.")
    await command(gateway, "recipe", "variant", "libero", "--project", tenant.name, "--file", str(file))
    await everywhere(asking(tenant, 200, lambda b: b["risposta"] == "V"), gateway)
    assert told.answer(await gateway.ask(other))["risposta"] == "C"
    await command(gateway, "recipe", "variant", "libero", "--project", tenant.name, "--remove")
    await everywhere(asking(tenant, 200, lambda b: b["risposta"] == "C"), gateway)
    await command(gateway, "recipe", "set", "libero", "--level", "economico")
    try:
        await everywhere(asking(other, 200, lambda b: b["meta"]["modello"] == "claude-haiku-4-5"), gateway)
    finally:
        await command(gateway, "recipe", "set", "libero", "--level", "principale")
    await everywhere(asking(other, 200, lambda b: b["meta"]["modello"] == "claude-opus-5"), gateway)


async def test_brains_and_prices(gateway: Gateway) -> None:
    tenant = await added(gateway, "cervelli", "--per-hour", "10000")
    gateway.teach("claude", "claude-fresh")
    await command(
        gateway, *("model", "add", "Pepper 8", "--provider", "claude"), *("--main", "claude-fresh"),
        *("--economy", "claude-fresh", "--news", "Nuovo."),
    )  # fmt: skip
    await command(gateway, "project", "set", tenant.name, "--model", "Pepper 8")
    # Nobody knows what it costs.
    await everywhere(asking(tenant, 502), gateway)
    await command(gateway, "price", "set", "claude-fresh", "--input", "1", "--output", "1000")
    await everywhere(asking(tenant, 200, lambda b: b["meta"]["versione"] == "Pepper 8"), gateway)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=0, output_tokens=1_000)
    told.answer(await gateway.ask(tenant))
    assert (await gateway.desk.rows(tenant))[-1].cost == 1_000_000
    await command(gateway, "model", "set", "Pepper 8", "--main", "claude-opus-5")
    await everywhere(asking(tenant, 200, lambda b: b["meta"]["modello"] == "claude-opus-5"), gateway)
    other = await added(gateway, "predefinito")
    await command(gateway, "model", "default", "Pepper 8")
    try:
        await everywhere(capable(other, lambda f: f["versione"] == "Pepper 8"), gateway)
    finally:
        await command(gateway, "model", "default", "Pepper 6")
    await everywhere(capable(other, lambda f: f["versione"] == "Pepper 6"), gateway)
