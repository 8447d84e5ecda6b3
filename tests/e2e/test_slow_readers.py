"""Streams to readers of every kind: who never reads is dropped and billed, who reads slowly is waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from gateway.bootstrap.serving import build
from gateway.domain.calls import CallRecord, Outcome
from gateway.routes import responses
from gateway.routes.exchange import BodyBudget, Exchange
from gateway.routes.pepper import answers
from gateway.settings import read_settings
from tests.e2e import told
from tests.e2e.desk import Tenant, held_in_gate
from tests.e2e.harness import Gateway
from tests.fakes import SAMPLE, say, split_bytes, until

QUICK_SECONDS = 0.3


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


class Reader:
    """A caller at the other end of bare ASGI: `read` is awaited for every part of the body that is sent."""

    def __init__(self, read: Callable[[int], Awaitable[None]]) -> None:
        self._read = read
        self._asked = False
        self.left = asyncio.Event()
        self.parts: list[bytes] = []
        self.complete = False
        self.headers: dict[str, str] = {}
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        if self._asked:
            await self.left.wait()
            return {"type": "http.disconnect"}
        self._asked = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        await self._read(len(self.parts))
        self.parts.append(message["body"])
        self.complete = not message["more_body"]

    @property
    def frames(self) -> list[str]:
        return b"".join(self.parts).decode().split("\n\n")[:-1]


@asynccontextmanager
async def beside(gateway: Gateway) -> AsyncIterator[Callable[[Tenant, Reader], Awaitable[None]]]:
    """Another worker on the same stores, in this process, that tells its streams to a `Reader`."""
    core = build(read_settings(gateway.variables()))
    core.warmers = ()

    async def tell(tenant: Tenant, reader: Reader) -> None:
        fields = {"progetto": tenant.name, "encode": "libero", "contenuto": "Ciao", "stream": True}
        reader.body = json.dumps(fields | {"conversazione": "nuova"}).encode()
        scope = {"method": "POST", "headers": [(b"x-pepper-key", tenant.key.encode())]}
        exchange = Exchange(scope, reader.receive, reader.send, BodyBudget())
        handle = partial(answers.answer, core.chain)
        await responses.answered(exchange, route="/api.php", allow="POST", handle=handle)

    await core.start()
    try:
        yield tell
    finally:
        await core.stop()


async def only_row(gateway: Gateway, tenant: Tenant) -> CallRecord:
    [row] = await gateway.desk.rows(tenant)
    assert held_in_gate(tenant, gateway.data, None) == 0
    return row


async def never(_: int) -> None:
    await asyncio.Event().wait()


async def test_who_never_reads_is_dropped_and_pays_what_came(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "READER_SECONDS", QUICK_SECONDS)
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 25.0), cap=10.0)
    gateway.fakes.claude.script(say("parola " * 300, pieces=300, delay=0.1, input_tokens=1_000))
    reader = Reader(never)
    async with beside(gateway) as tell, asyncio.timeout(10):
        await tell(tenant, reader)
        await until(lambda: gateway.fakes.claude.seen[0].outcome == "closed", 1.5)
        row = await only_row(gateway, tenant)
    assert (row.outcome, row.fault) == (Outcome.INTERRUPTED, None)
    assert 1_000 * 5 < row.cost < 1_000 * 5 + 300 * 25
    assert await gateway.desk.spent(tenant) == row.cost
    assert not reader.complete
    assert await gateway.desk.conversation_count(tenant) == 1


async def test_who_stops_reading_when_all_is_said_pays_the_whole(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "READER_SECONDS", QUICK_SECONDS)
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 25.0))
    gateway.fakes.claude.script(say("uno due", input_tokens=1_000, output_tokens=100))
    reader = Reader(never)
    async with beside(gateway) as tell, asyncio.timeout(10):
        await tell(tenant, reader)
        row = await only_row(gateway, tenant)
    assert (row.outcome, row.cost) == (Outcome.OK, 1_000 * 5 + 100 * 25)


async def test_who_reads_slowly_is_waited_for(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part takes long, all of them far longer than the limit; what waits meanwhile is sent in one part."""
    monkeypatch.setattr(responses, "READER_SECONDS", QUICK_SECONDS)
    tenant, _ = await gateway.tenant_of_its_own()
    words = " ".join(map(str, range(200)))
    gateway.fakes.claude.script(say(words, pieces=200, delay=0.01))

    async def slowly(_: int) -> None:
        await asyncio.sleep(QUICK_SECONDS / 2)

    reader = Reader(slowly)
    async with beside(gateway) as tell, asyncio.timeout(20):
        await tell(tenant, reader)
    assert reader.complete
    *deltas, done = reader.frames
    assert "".join(json.loads(frame.partition("data: ")[2])["text"] for frame in deltas) == words
    assert json.loads(done.partition("data: ")[2])["risposta"] == words
    assert len(reader.parts) < 50
    assert (await only_row(gateway, tenant)).outcome is Outcome.OK


async def test_who_leaves_is_noticed_though_nothing_is_said(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(say("Tardi.", first_delay=30))
    reader = Reader(never)
    async with beside(gateway) as tell, asyncio.timeout(10):
        telling = asyncio.ensure_future(tell(tenant, reader))
        await until(lambda: gateway.fakes.claude.seen, 3)
        reader.left.set()
        await telling
        await until(lambda: gateway.fakes.claude.seen[0].outcome == "closed", 1)
        assert (await only_row(gateway, tenant)).outcome is Outcome.INTERRUPTED


async def test_silence_is_filled_with_pings(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "PING_SECONDS", QUICK_SECONDS)
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(say("uno due", pieces=2, first_delay=1.0, delay=1.0))

    async def at_once(_: int) -> None:
        pass

    reader = Reader(at_once)
    async with beside(gateway) as tell, asyncio.timeout(10):
        await tell(tenant, reader)
    names = [frame.partition("\n")[0] for frame in reader.frames]
    first, second = [number for number, name in enumerate(names) if name == "event: delta"]
    assert 2 <= first <= 4
    assert 2 <= second - first - 1 <= 4
    assert set(names[:first] + names[first + 1 : second]) == {": ping"}
    assert names[second + 1 :] == ["event: done"]
    assert b": ping\n\n" in reader.parts


async def test_the_headers_keep_proxies_from_holding_it_back(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    async with gateway.stream(tenant) as stream:
        await stream.told()
        headers = stream.response.headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache, no-store"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
    assert "content-encoding" not in headers


async def test_characters_that_arrive_in_halves_leave_whole(gateway: Gateway) -> None:
    for fake in (gateway.fakes.claude, gateway.fakes.openai):
        fake.script(split_bytes(SAMPLE))

    async def one(tenant: Tenant) -> None:
        async with gateway.stream(tenant) as stream:
            assert (await stream.told())["risposta"] == SAMPLE

    brains = (None, "Pepper 6 · OpenAI")
    await asyncio.gather(*[one(await gateway.desk.project(brain=brain)) for brain in brains])


async def test_three_hundred_streams_at_once(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(cap=1_000_000.0)
    gateway.fakes.claude.default = say(SAMPLE, pieces=5, delay=0.3, input_tokens=100, output_tokens=10)

    async def one(number: int) -> None:
        async with gateway.stream(tenant, f"Domanda {number}") as stream:
            assert (await stream.told())["risposta"] == SAMPLE

    async with asyncio.timeout(60):
        await asyncio.gather(*(one(number) for number in range(300)))
    assert gateway.fakes.claude.peak > 100
    rows = await gateway.desk.rows(tenant)
    assert len(rows) == 300
    assert {row.outcome for row in rows} == {Outcome.OK}
    assert held_in_gate(tenant, gateway.data, None) == 0
    told.answer(await gateway.ask(tenant))
