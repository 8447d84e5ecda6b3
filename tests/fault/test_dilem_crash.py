"""Dilem's process dies or is stopped in the middle of a turn: no credit is lost or taken twice, and who was told so has decided."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from sqlalchemy import update

from gateway.dilem.contract import DecisionResponse
from gateway.storage import schema
from gateway.storage.columns import database_now
from tests.e2e.agents import RESULT, Agent, body, fresh_case, refusal
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually

ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "100000",
    "PEPPER_DILEM_IP_PER_MINUTE": "1000000",
}
SLOW = f"{RESULT} [[prova:lento:3]]"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def gateway(make_gateway: Callable[..., Gateway]) -> AsyncIterator[Gateway]:
    """One of its own for each test, with two workers."""
    gateway = make_gateway(workers=2, environment=ENVIRONMENT)
    await asyncio.to_thread(gateway.start)
    sandbox = await asyncio.to_thread(gateway.command, "project", "set", "dilem", "--sandbox")
    assert sandbox.returncode == 0, sandbox.stderr
    await asyncio.sleep(2)
    async with gateway.connected():
        yield gateway
    gateway.kill()


async def begun(agent: Agent, case: str) -> asyncio.Task[httpx.Response]:
    """A slow turn that has been admitted."""
    turn = asyncio.create_task(agent.decide(case, SLOW))

    async def admitted() -> bool:
        return bool((await agent.usage(case))["case"]["admitted"])

    await eventually(admitted, 10, pause=0.05)
    await asyncio.sleep(0.3)  # and the model is being asked
    return turn


@asynccontextmanager
async def again(gateway: Gateway, token: str) -> AsyncIterator[Agent]:
    """The same identity after a restart."""
    async with httpx.AsyncClient(base_url=gateway.address, timeout=60) as client:
        yield Agent(client, token)


async def test_a_killed_turn_leaves_an_open_case(gateway: Gateway) -> None:
    agent = await Agent.started(gateway.client)
    case = fresh_case()
    turn = await begun(agent, case)
    await asyncio.to_thread(gateway.kill)
    with pytest.raises(httpx.TransportError):
        await turn
    await asyncio.to_thread(gateway.start)
    async with again(gateway, agent.token) as agent:
        told = await agent.usage(case)
        assert (told["dilemmas"]["used"], told["case"]) == (
            1,
            {"id": case, "admitted": True, "completed": False},
        )
        assert refusal(await agent.decide(case)) == (429, "case_in_progress")
        async with gateway.desk.database.begin() as connection:  # as if two minutes had passed
            await connection.execute(update(schema.dilem_cases).values(lock_until=database_now(-1)))
        assert (await agent.decided(case))["type"] == "result"
        told = await agent.usage(case)
        assert (told["dilemmas"]["used"], told["case"]["completed"]) == (1, True)


async def test_a_turn_ends_before_the_server_does_also_without_its_caller(gateway: Gateway) -> None:
    agent = await Agent.started(gateway.client)
    case, lonely = fresh_case(), fresh_case()
    before = (await agent.usage())["collective"]["completed"]
    watched, left = await asyncio.gather(begun(agent, case), begun(agent, lonely))
    left.cancel()
    assert await asyncio.to_thread(gateway.terminate) == 0
    body(await watched, DecisionResponse)
    await asyncio.to_thread(gateway.start)
    async with again(gateway, agent.token) as agent:
        for each in (case, lonely):
            assert (await agent.usage(each))["case"]["completed"], each
        after = (await agent.usage())["collective"]["completed"]
        assert after == before + 2
        assert gateway.complaints() == []
