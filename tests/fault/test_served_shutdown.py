"""SIGTERM: nobody new comes in, who is in is served, and who takes too long is told so, billed and written down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from gateway.domain.calls import Outcome
from tests.e2e import told
from tests.e2e.harness import Gateway
from tests.fakes import hang, say, until

DRAIN_SECONDS = 4


@pytest.fixture
async def gateway(make_gateway: Callable[..., Gateway]) -> AsyncIterator[Gateway]:
    """One of its own for each test, with two workers and a short patience."""
    gateway = make_gateway(workers=2, environment={"PEPPER_DRAIN_SECONDS": str(DRAIN_SECONDS)})
    for fake in (gateway.fakes.claude, gateway.fakes.openai):
        fake.reset()
    await asyncio.to_thread(gateway.start)
    async with gateway.connected():
        yield gateway
    assert gateway.complaints() == []


async def test_an_idle_server_does_not_wait_for_the_limit(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway(workers=2, environment={"PEPPER_DRAIN_SECONDS": "100"})
    await asyncio.to_thread(gateway.start)
    began = time.monotonic()
    assert await asyncio.to_thread(gateway.terminate) == 0
    assert time.monotonic() - began < 25
    async with gateway.connected():
        assert await gateway.desk.nodes.live_nodes(60) == ()


async def test_calls_in_flight_finish_and_nobody_new_comes_in(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.default = say("uno due tre quattro", pieces=4, delay=0.5)
    whole = [asyncio.ensure_future(gateway.ask(tenant, conversazione="nuova")) for _ in range(8)]
    streamed = [asyncio.ensure_future(gateway.ask(tenant, stream=True)) for _ in range(8)]
    await until(lambda: len(gateway.fakes.claude.seen) == 16, 10)
    ending = asyncio.ensure_future(asyncio.to_thread(gateway.terminate))
    await asyncio.sleep(0.7)
    async with httpx.AsyncClient(base_url=gateway.address, timeout=3) as stranger:
        with pytest.raises(httpx.TransportError):
            await stranger.get("/stato.php")
    for reply in await asyncio.gather(*whole):
        told.answer(reply)
    for reply in await asyncio.gather(*streamed):
        assert "event: done" in reply.text
    assert await ending == 0
    rows = await gateway.desk.rows(tenant)
    assert len(rows) == 16
    assert {row.outcome for row in rows} == {Outcome.OK}


async def test_what_lasts_beyond_the_limit_is_cut_told_and_billed(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    conversation = told.answer(await gateway.ask(tenant, "1", conversazione="nuova"))["conversazione"]
    gateway.fakes.claude.default = say("parola " * 200, pieces=200, delay=0.3, input_tokens=500)
    streamed = asyncio.ensure_future(gateway.ask(tenant, "2", stream=True, conversazione=conversation))
    whole = asyncio.ensure_future(gateway.ask(tenant))
    await until(lambda: len(gateway.fakes.claude.seen) == 3, 10)
    gateway.fakes.claude.script(hang())
    silent = asyncio.ensure_future(gateway.ask(tenant, stream=True))
    await until(lambda: len(gateway.fakes.claude.seen) == 4, 10)
    began = time.monotonic()
    ending = asyncio.ensure_future(asyncio.to_thread(gateway.terminate))
    reply = await streamed
    assert DRAIN_SECONDS - 1 < time.monotonic() - began < DRAIN_SECONDS + 8
    *_, last, rest = reply.text.split("\n\n")
    assert rest == ""
    assert last.startswith("event: error\n")
    assert "ai_non_disponibile" in last
    assert "event: delta" in reply.text
    told.error(await whole, 503, "ai_non_disponibile")
    assert (await silent).text.startswith("event: error\n")
    assert await ending == 0
    rows = [row for row in await gateway.desk.rows(tenant) if row.outcome is not Outcome.OK]
    assert len(rows) == 3
    assert all(row.fault == "ai_non_disponibile" or row.outcome is Outcome.INTERRUPTED for row in rows)
    [billed] = [row for row in rows if row.cost > 0]
    assert billed.cost > 500 * 5
    pairs = await gateway.desk.pairs(tenant, conversation)
    assert pairs is not None
    assert pairs[0][0] == "1"
    assert not await gateway.desk.reservations(tenant)


async def test_a_second_sigterm_changes_nothing(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.default = say("Ecco.", first_delay=1.5)
    running = asyncio.ensure_future(gateway.ask(tenant))
    await until(lambda: gateway.fakes.claude.seen, 10)
    assert gateway.process is not None
    gateway.process.terminate()
    await asyncio.sleep(0.3)
    ending = asyncio.ensure_future(asyncio.to_thread(gateway.terminate))
    told.answer(await running)
    assert await ending == 0
