"""Counters at full load over two worker processes: exactly what was promised, and never a micro-dollar beyond."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from gateway.domain.calls import Outcome
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.fakes import refuse, say, status

WORKERS = 2

CALL_COST = 30_000
CAP = 100_000


def codes(responses: list[httpx.Response]) -> Counter[str]:
    return Counter(
        "ok" if response.status_code == 200 else response.json()["errore"]["codice"] for response in responses
    )


async def at_once(gateway: Gateway, tenant: Tenant, count: int, **fields: Any) -> list[httpx.Response]:
    return await asyncio.gather(*(gateway.ask(tenant, f"Domanda {n}", **fields) for n in range(count)))


async def test_sixty_four_callers_at_once_and_every_counter_is_exact(gateway: Gateway) -> None:
    tenant, brain = await gateway.tenant_of_its_own(usd=(5.0, 25.0), per_hour=200)
    gateway.fakes.claude.default = say("Sì.", input_tokens=100, output_tokens=10, delay=0.05)

    async def caller(number: int) -> list[httpx.Response]:
        return [await gateway.ask(tenant, f"Domanda {number}.{turn}") for turn in range(3)]

    responses = [one for many in await asyncio.gather(*(caller(n) for n in range(64))) for one in many]
    assert codes(responses) == {"ok": 192}
    ids = {told.answer(response)["meta"]["richiesta"] for response in responses}
    rows = await gateway.desk.rows(tenant)
    assert {row.request_id for row in rows} == ids
    assert len(rows) == len(gateway.fakes.claude.seen) == 192
    assert sum(row.cost for row in rows) == await gateway.desk.spent(tenant) == 192 * (100 * 5 + 10 * 25)
    assert codes(await at_once(gateway, tenant, 16)) == {"ok": 8, "troppe_richieste": 8}
    assert {row.model for row in rows} == {brain.principal}


async def test_a_hundred_of_three_hundred_parallel_calls_pass(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=100)
    responses = await at_once(gateway, tenant, 300)
    assert codes(responses) == {"ok": 100, "troppe_richieste": 200}
    assert len(gateway.fakes.claude.seen) == 100
    assert len(await gateway.desk.rows(tenant)) == 100
    for response in responses:
        if response.status_code == 429:
            told.error(response, 429, "troppe_richieste")
            assert 3_500 <= int(response.headers["retry-after"]) <= 3_600


async def test_failed_and_refused_calls_count_for_the_hour_too(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(per_hour=2)
    gateway.fakes.claude.script(status(400), refuse())
    told.error(await gateway.ask(tenant), 502, "errore_ai")
    told.error(await gateway.ask(tenant), 422, "richiesta_rifiutata")
    told.error(await gateway.ask(tenant), 429, "troppe_richieste")
    gateway.fakes.claude.take_refused()


async def test_a_limit_of_nothing(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=0)
    told.error(await gateway.ask(tenant), 429, "troppe_richieste")
    assert gateway.fakes.claude.seen == []


@pytest.mark.parametrize("recipe", ["libero", "classifica"])
async def test_fifty_calls_of_three_cents_under_a_cap_of_ten(gateway: Gateway, recipe: str) -> None:
    """`libero` may cost far more than is left, so its calls go one by one; of `classifica` three fit at once."""
    tenant, _ = await gateway.tenant_of_its_own(usd=(0.0, 30.0), cap=0.10)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=10, output_tokens=1_000, delay=0.1)
    responses = await at_once(gateway, tenant, 50, encode=recipe)
    upstream = len(gateway.fakes.claude.seen)
    spent = await gateway.desk.spent(tenant)
    assert spent == CALL_COST * upstream, [
        (r.outcome, r.cost, r.attempts) for r in await gateway.desk.rows(tenant)
    ]
    assert upstream <= 4
    assert CAP <= spent <= CAP + CALL_COST
    counted = codes(responses)
    assert counted["ok"] == upstream
    assert set(counted) <= {"ok", "budget_esaurito", "troppe_richieste"}
    assert counted["budget_esaurito"] > 0
    response = await gateway.ask(tenant, encode=recipe)
    told.error(response, 429, "budget_esaurito")
    assert 1 <= int(response.headers["retry-after"]) <= 25 * 3_600
    found = (await gateway.capabilities(tenant))["spesa"]
    assert found == {"oggi_usd": 0.12, "tetto_usd": 0.1, "residuo_usd": 0}
    assert len(gateway.fakes.claude.seen) == upstream


async def test_calls_wait_for_room_in_the_budget(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(0.0, 30.0), cap=10.0)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=10, output_tokens=100, delay=0.05)
    # Each may cost nearly half a dollar: some wait, nobody is refused.
    assert codes(await at_once(gateway, tenant, 40)) == {"ok": 40}


async def test_who_waits_in_vain_is_told_to_come_back(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(0.0, 30.0), cap=0.10)
    gateway.fakes.claude.default = say("Ecco.", output_tokens=10, first_delay=12)
    first = asyncio.ensure_future(gateway.ask(tenant))
    await asyncio.sleep(0.5)
    response = await gateway.ask(tenant)
    told.error(response, 429, "troppe_richieste")
    assert response.headers["retry-after"] == "2"
    told.answer(await first)
    assert len(gateway.fakes.claude.seen) == 1


async def test_a_refusal_is_paid_and_an_error_is_not(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(10.0, 10.0))
    gateway.fakes.claude.script(refuse("No"), status(400))
    told.error(await gateway.ask(tenant), 422, "richiesta_rifiutata")
    told.error(await gateway.ask(tenant), 502, "errore_ai")
    refused, failed = await gateway.desk.rows(tenant)
    assert (refused.outcome, refused.fault) == (Outcome.REFUSED, "richiesta_rifiutata")
    assert refused.cost > 0
    assert (failed.outcome, failed.fault, failed.cost) == (Outcome.FAILED, "errore_ai", 0)
    assert await gateway.desk.spent(tenant) == refused.cost
