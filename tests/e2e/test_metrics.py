"""The counts for operators: over all workers, to those who may see them, without a tenant's name or key."""

from __future__ import annotations

import re

import pytest

from tests.e2e import told
from tests.e2e.harness import Gateway
from tests.fakes import slow

WORKERS = 2
PROVIDER_SECONDS = 2.0
ENVIRONMENT = {"PEPPER_METRICS_TOKEN": "un-gettone"}


@pytest.fixture(scope="module")
def backend() -> str:
    return "embedded"


def counted(text: str, route: str, status: int) -> float:
    """What the counts say of an address and a status."""
    found = re.search(
        rf'^pepper_requests_total{{route="{route}",status="{status}"}} ([\d.e+]+)$', text, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


async def test_every_worker_counts_into_one_sum(gateway: Gateway) -> None:
    mine, _ = await gateway.tenant_of_its_own()
    before = counted((await gateway.client.get("/metrics")).text, "/api.php", 404)
    for _ in range(20):
        told.error(await gateway.ask(mine, encode="nessuna"), 404, "encode_sconosciuto")
    text = (await gateway.client.get("/metrics")).text
    assert counted(text, "/api.php", 404) == before + 20
    assert 'pepper_store_up{store="database"} 1.0' in text
    assert 'pepper_store_up{store="key-value"} 1.0' in text
    assert mine.name not in text
    assert mine.key not in text


def overheads(text: str, mode: str) -> tuple[float, float]:
    """How many calls' own time was noted, and how many seconds in all."""
    found = re.findall(
        rf'^pepper_overhead_seconds_(count|sum){{mode="{mode}"}} ([\d.e+-]+)$', text, re.MULTILINE
    )
    values = dict(found)
    return float(values.get("count", 0)), float(values.get("sum", 0))


async def test_the_gateways_own_time_leaves_out_the_providers(gateway: Gateway) -> None:
    mine, _ = await gateway.tenant_of_its_own()
    before = (await gateway.client.get("/metrics")).text
    gateway.fakes.claude.script(slow("Con calma.", PROVIDER_SECONDS), slow("Con calma.", PROVIDER_SECONDS))
    told.answer(await gateway.ask(mine))
    async with gateway.stream(mine) as stream:
        await stream.told()
    after = (await gateway.client.get("/metrics")).text
    for mode in ("json", "stream"):
        (calls, seconds), (earlier_calls, earlier_seconds) = overheads(after, mode), overheads(before, mode)
        assert calls == earlier_calls + 1
        assert 0 < seconds - earlier_seconds < PROVIDER_SECONDS


async def test_only_this_machine_or_the_token_sees_them(gateway: Gateway) -> None:
    for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
        told.error(await gateway.client.get("/metrics", headers={name: "1.2.3.4"}), 401, "non_autorizzato")
        headers = {name: "1.2.3.4", "Authorization": "Bearer un-gettone"}
        assert (await gateway.client.get("/metrics", headers=headers)).status_code == 200
        wrong = {name: "1.2.3.4", "Authorization": "Bearer un-gettone-no"}
        told.error(await gateway.client.get("/metrics", headers=wrong), 401, "non_autorizzato")
    response = await gateway.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert (await gateway.client.head("/metrics")).content == b""
    assert (await gateway.client.post("/metrics")).status_code == 405
