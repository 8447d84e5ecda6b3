"""The database goes away before or during a turn of Dilem, and comes back: nothing is consumed that was not, nothing is a
500, and a recommendation that was delivered completes its case.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import httpx
import pytest

from gateway.dilem.contract import DecisionResponse
from gateway.dilem.operations import API
from tests.e2e.agents import RESULT, Agent, body, fresh_case, refusal
from tests.e2e.harness import Gateway
from tests.e2e.surroundings import Stores
from tests.e2e.waiting import eventually
from tests.services import Service

ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "100000",
    "PEPPER_DILEM_IP_PER_MINUTE": "1000000",
}
SLOW = f"{RESULT} [[prova:lento:3]]"
REPLY_SECONDS = 8.0
HEAL_SECONDS = 15.0

pytestmark = [pytest.mark.mysql, pytest.mark.redis, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def backend() -> str:
    """Only servers can go away."""
    return "production"


@pytest.fixture(scope="module")
def served(served: Gateway) -> Gateway:
    done = served.command("project", "set", "dilem", "--sandbox")
    assert done.returncode == 0, done.stderr
    time.sleep(2)
    return served


@pytest.fixture
def mariadb(stores: Stores) -> Service:
    assert stores.mariadb is not None
    return stores.mariadb


async def in_time(call: Awaitable[httpx.Response]) -> httpx.Response:
    began = time.monotonic()
    response = await call
    assert time.monotonic() - began < REPLY_SECONDS, response.text
    return response


@pytest.mark.parametrize("manner", ["kill", "freeze"])
async def test_nothing_is_consumed_while_the_database_is_away(
    gateway: Gateway, mariadb: Service, manner: str
) -> None:
    agent = await Agent.started(gateway.client)
    case = fresh_case()
    await asyncio.to_thread(getattr(mariadb, manner))
    try:
        calls = (
            agent.decide(case),
            agent.client.get(f"{API}/usage", headers=agent.headers()),
            agent.vote("0" * 32),
            agent.client.post(f"{API}/session"),
        )
        for response in await asyncio.gather(*map(in_time, calls)):
            assert refusal(response) == (503, "service_unavailable")
            assert int(response.headers["retry-after"]) > 0
        assert refusal(await agent.client.get(f"{API}/nothing")) == (404, "not_found")
    finally:
        await asyncio.to_thread(mariadb.start)

    async def healed() -> bool:
        response = await agent.client.get(f"{API}/usage", headers=agent.headers(case))
        return response.status_code == 200 and response.json()["dilemmas"]["used"] == 0

    await eventually(healed, HEAL_SECONDS, pause=0.2)
    await agent.decided(case)
    assert (await agent.usage())["dilemmas"]["used"] == 1


async def test_a_recommendation_outlives_the_database_and_the_process(
    gateway: Gateway, mariadb: Service
) -> None:
    agent = await Agent.started(gateway.client)
    case = fresh_case()
    before = (await agent.usage())["collective"]["completed"]
    turn = asyncio.create_task(agent.decide(case, SLOW))

    async def admitted() -> bool:
        return bool((await agent.usage(case))["case"]["admitted"])

    await eventually(admitted, 10, pause=0.05)
    await asyncio.sleep(0.5)  # and the model is being asked
    await asyncio.to_thread(mariadb.kill)
    try:
        result = body(await turn, DecisionResponse)
        assert result["type"] == "result"
        assert "result_id" not in result
        # What waits is on the disk.
        await asyncio.to_thread(gateway.kill)
    finally:
        await asyncio.to_thread(mariadb.start)
    await asyncio.to_thread(gateway.start)
    async with httpx.AsyncClient(base_url=gateway.address, timeout=60) as client:
        agent = Agent(client, agent.token)

        async def completed() -> bool:
            response = await client.get(f"{API}/usage", headers=agent.headers(case))
            return response.status_code == 200 and response.json()["case"]["completed"] is True

        await eventually(completed, HEAL_SECONDS, pause=0.2)
        assert refusal(await agent.decide(case)) == (409, "case_completed")
        told = await agent.usage(case)
    assert (told["collective"]["completed"], told["dilemmas"]["used"]) == (before + 1, 1)
