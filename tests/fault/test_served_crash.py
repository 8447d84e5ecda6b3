"""kill -9 in the middle of work: what was answered is in the ledger, what was held is let go, and the limits are right."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.domain.calls import Outcome
from tests.e2e import told
from tests.e2e.desk import Tenant, held_in_gate
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually
from tests.fakes import hang, say, until

CLAIM_SECONDS = 15.0
RESERVATION_SECONDS = 60.0
SWEEP_SECONDS = 15.0
CALL_COST = 10 * 1 + 1_000 * 30


pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def gateway(make_gateway: Callable[..., Gateway]) -> Any:
    """One of its own for each test, with two workers."""
    gateway = make_gateway(workers=2)
    for fake in (gateway.fakes.claude, gateway.fakes.openai):
        fake.reset()
    await asyncio.to_thread(gateway.start)
    async with gateway.connected():
        yield gateway
    gateway.kill()


def lease_seconds(gateway: Gateway) -> float:
    """After how long what a dead process held is free: at once where its death can be seen."""
    return SWEEP_SECONDS if gateway.stores.kind == "embedded" else RESERVATION_SECONDS + SWEEP_SECONDS


class Load:
    """Callers who go on until they are told to stop, whatever happens to their calls."""

    def __init__(self, gateway: Gateway, tenant: Tenant) -> None:
        self.gateway = gateway
        self.tenant = tenant
        self.answers: list[dict[str, Any]] = []
        self.broken = 0
        self.others: set[int] = set()
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []

    async def caller(self, number: int) -> None:
        conversation = "nuova"
        turn = 0
        async with httpx.AsyncClient(base_url=self.gateway.address, timeout=30) as client:
            while not self._stopped:
                turn += 1
                body = {
                    "progetto": self.tenant.name,
                    "encode": "libero",
                    "contenuto": f"domanda {number}.{turn}",
                    "conversazione": conversation,
                }
                try:
                    response = await client.post(
                        "/api.php", json=body, headers={"x-pepper-key": self.tenant.key}
                    )
                except httpx.TransportError:
                    self.broken += 1
                    await asyncio.sleep(0.05)
                    continue
                if response.status_code == 200:
                    self.answers.append(told.answer(response))
                    conversation = self.answers[-1]["conversazione"]
                else:
                    self.others.add(response.status_code)
                    await asyncio.sleep(0.05)

    def start(self, callers: int) -> None:
        self._tasks = [asyncio.ensure_future(self.caller(n)) for n in range(callers)]

    async def stop(self) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks)

    async def check(self) -> None:
        """Every answer has its row and its pair; rows, spending and pairs agree."""
        rows = {row.request_id: row for row in await self.gateway.desk.rows(self.tenant)}
        for body in self.answers:
            assert rows[body["meta"]["richiesta"]].outcome is Outcome.OK
        assert sum(row.cost for row in rows.values()) == await self.gateway.desk.spent(self.tenant)
        for conversation in {body["conversazione"] for body in self.answers}:
            pairs = await self.gateway.desk.pairs(self.tenant, conversation)
            assert pairs is not None
            assert all(answer == f"eco di {question}" for question, answer in pairs)
            mine = [body["risposta"] for body in self.answers if body["conversazione"] == conversation]
            assert [answer for _, answer in pairs if answer in mine] == mine


def echo(gateway: Gateway) -> None:
    def answer(seen: Any) -> Any:
        content = seen.body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        return say(f"eco di {text}", first_delay=0.03, input_tokens=10, output_tokens=10)

    gateway.fakes.claude.default = answer


async def test_a_worker_killed_under_load_loses_nothing_that_was_answered(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    echo(gateway)
    load = Load(gateway, tenant)
    load.start(16)
    await eventually(lambda: _enough(load, 30), 30)
    for _ in range(2):
        os.kill(gateway.worker_pids()[0], signal.SIGKILL)
        had = len(load.answers)
        await eventually(lambda had=had: _enough(load, had + 60), 30)  # type: ignore[misc]
        await eventually(lambda: _workers(gateway, 2), 10)
    await load.stop()
    assert load.others <= {503}
    await load.check()
    # Every call whose process died ends as lost; then nothing is held any more.
    await _nothing_held(gateway, tenant)
    await load.check()


async def test_the_server_killed_under_load_loses_nothing_that_was_answered(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    echo(gateway)
    load = Load(gateway, tenant)
    load.start(16)
    await eventually(lambda: _enough(load, 50), 30)
    await asyncio.to_thread(gateway.kill)
    await load.stop()
    await load.check()
    await asyncio.to_thread(gateway.start)
    await load.check()
    told.answer(await gateway.ask(tenant, "ancora"))
    await _nothing_held(gateway, tenant)
    await load.check()


async def test_limits_are_right_after_a_crash(gateway: Gateway) -> None:
    hourly = await gateway.desk.project(per_hour=10)
    capped, _ = await gateway.tenant_of_its_own(cap=0.10, usd=(1.0, 30.0))
    gateway.fakes.claude.default = say("Ecco.", input_tokens=10, output_tokens=1_000)
    for _ in range(6):
        told.answer(await gateway.ask(hourly))
    for _ in range(3):
        told.answer(await gateway.ask(capped))
    await asyncio.to_thread(gateway.restart)
    replies = await asyncio.gather(*(gateway.ask(hourly) for _ in range(10)))
    assert sorted(reply.status_code for reply in replies) == [200] * 4 + [429] * 6
    told.answer(await gateway.ask(capped))
    told.error(await gateway.ask(capped), 429, "budget_esaurito")
    assert await gateway.desk.spent(capped) == 4 * CALL_COST


async def test_a_crash_frees_the_key_and_the_reservation(gateway: Gateway) -> None:
    """A call that hangs holds its key and the whole rest of the budget; then its process dies."""
    tenant, _ = await gateway.tenant_of_its_own(cap=0.10, usd=(1.0, 30.0))
    gateway.fakes.claude.script(hang())
    lost = asyncio.ensure_future(gateway.ask(tenant, key="k"))
    await until(lambda: gateway.fakes.claude.seen, 20)
    await asyncio.to_thread(gateway.kill)
    with pytest.raises(httpx.TransportError):
        await lost
    await asyncio.to_thread(gateway.start)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=10, output_tokens=10)
    began = time.monotonic()

    async def answered() -> Any:
        response = await gateway.ask(tenant, key="k", encode="libero")
        return response.status_code == 200 and response.json()

    free = await gateway.desk.project()
    told.answer(await gateway.ask(free, key="k"))
    body = await eventually(answered, lease_seconds(gateway), pause=0.5)
    assert "idempotente" not in body["meta"]
    if gateway.stores.kind == "embedded":
        assert time.monotonic() - began < CLAIM_SECONDS
    await _nothing_held(gateway, tenant)
    outcomes = [row.outcome for row in await gateway.desk.rows(tenant)]
    assert sorted(outcomes) == sorted([Outcome.LOST, Outcome.OK])
    [row] = [row for row in await gateway.desk.rows(tenant) if row.outcome is Outcome.LOST]
    assert row.cost > 0, "charged at its input's estimate"


async def test_a_crash_frees_the_key_within_fifteen_seconds(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(hang())
    lost = asyncio.ensure_future(gateway.ask(tenant, key="k"))
    await until(lambda: gateway.fakes.claude.seen or lost.done(), 10)
    assert not lost.done(), lost.result().text
    died = time.monotonic()
    await asyncio.to_thread(gateway.kill)
    with pytest.raises(httpx.TransportError):
        await lost
    await asyncio.to_thread(gateway.start)
    body = told.answer(await gateway.ask(tenant, key="k"))
    assert time.monotonic() - died < CLAIM_SECONDS + 5
    assert "idempotente" not in body["meta"]


async def _enough(load: Load, count: int) -> bool:
    return len(load.answers) >= count


async def _workers(gateway: Gateway, count: int) -> bool:
    return len(gateway.worker_pids()) == count


async def _nothing_held(gateway: Gateway, tenant: Tenant) -> None:
    """Whatever was begun upstream has its row in the end: answered, or lost with its process."""

    redis = gateway.stores.redis

    async def settled() -> bool:
        in_gate = await asyncio.to_thread(held_in_gate, tenant, gateway.data, redis.url if redis else None)
        return not in_gate and not await gateway.desk.reservations(tenant)

    await eventually(settled, lease_seconds(gateway), pause=0.5)
