"""Heavy and hostile attachments on one worker: they cost their own caller, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.attachments.verdicts import COUNTING_SECONDS as SECONDS
from gateway.domain.limits import BYTES_PER_MB
from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.desk import Tenant, held_in_gate
from tests.e2e.enclosed import pdf, sent
from tests.e2e.harness import Gateway
from tests.e2e.waiting import command_line, eventually
from tests.fakes import say
from tests.unit.attachments import corpus

DOCUMENTS = (Permission.DOCUMENTS,)
GENEROUS_SECONDS = 30.0
"""For what takes well under a second on a machine with nothing else to do."""
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}
"""So that what is measured is what the gateway holds, and not what the C library keeps in many arenas for later."""
SPARE_MB = 150
"""So much more may a worker hold after twenty calls of 10 MB than before; if each left its body behind it were 280."""


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


def body_of(tenant: Tenant, *files: dict[str, Any]) -> bytes:
    fields = {"progetto": tenant.name, "encode": "libero", "contenuto": "Che dice?", "documenti": files}
    return json.dumps(fields).encode()


async def post(gateway: Gateway, tenant: Tenant, body: bytes) -> httpx.Response:
    return await gateway.client.post("/api.php", content=body, headers=gateway.headers(tenant))


def resident_mb(gateway: Gateway) -> int:
    [worker] = gateway.worker_pids()
    [line] = [
        one for one in Path(f"/proc/{worker}/status").read_text().splitlines() if one.startswith("VmRSS:")
    ]
    return int(line.split()[1]) // 1024


def counting_processes(gateway: Gateway) -> int:
    [worker] = gateway.worker_pids()
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    return sum(b"gateway.attachments.counter" in command_line(int(pid)) for pid in children)


async def small_calls(gateway: Gateway, tenant: Tenant, busy: asyncio.Future[Any]) -> list[float]:
    """Ask one thing after the other for as long as the others are busy; how long each took."""
    took: list[float] = []
    while not busy.done() or not took:
        began = time.monotonic()
        told.answer(await gateway.ask(tenant))
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.05)
    return took


async def test_twenty_heavy_files_at_once_leave_room_for_small_calls(gateway: Gateway) -> None:
    gateway.fakes.claude.default = say("Ecco.", first_delay=0.3)
    heavy = pdf(pages=40, size=10 * BYTES_PER_MB)
    readers = [await gateway.desk.project(allow=DOCUMENTS) for _ in range(10)]
    bodies = [(tenant, body_of(tenant, heavy)) for tenant in readers]
    small = await gateway.desk.project()
    told.answer(await post(gateway, *bodies[0]))  # whatever is loaded once is loaded now
    before = resident_mb(gateway)

    async def all_of_them() -> list[httpx.Response]:
        return await asyncio.gather(*(post(gateway, *one) for one in bodies * 2))

    busy = asyncio.ensure_future(all_of_them())
    took = await small_calls(gateway, small, busy)
    for response in await busy:
        assert told.answer(response)["meta"]["documenti_pagine"] == 40
    assert len(took) > 3
    assert max(took) < GENEROUS_SECONDS
    for tenant in readers:
        assert len(await gateway.desk.rows(tenant)) == (3 if tenant is readers[0] else 2)

    gateway.fakes.claude.reset()

    async def light() -> bool:
        return resident_mb(gateway) < before + SPARE_MB

    await eventually(light, 10)


async def test_a_file_that_holds_its_reader_up_costs_its_own_caller_alone(gateway: Gateway) -> None:
    hostile, first, second = [await gateway.desk.project(allow=DOCUMENTS, cap=5.0) for _ in range(3)]
    endless = body_of(hostile, sent(corpus.endless(), "infinito.pdf"))

    async def refused() -> float:
        began = time.monotonic()
        message = told.error(await post(gateway, hostile, endless), 400, "documento_non_valido")
        assert "'infinito.pdf'" in message
        return time.monotonic() - began

    # Two fill the project's turns; the other projects read and ask meanwhile.
    busy = asyncio.gather(refused(), refused())
    await asyncio.sleep(0.5)
    while not busy.done():
        for tenant in (first, second):
            began = time.monotonic()
            body = told.answer(await gateway.ask(tenant, documenti=[pdf(pages=3)]))
            assert body["meta"]["documenti_pagine"] == 3
            assert time.monotonic() - began < SECONDS
        await asyncio.sleep(0.2)
    assert all(SECONDS <= seconds < SECONDS + GENEROUS_SECONDS / 2 for seconds in await busy)
    assert await gateway.desk.rows(hostile) == []
    assert held_in_gate(hostile, gateway.data, None) == 0
    told.answer(await gateway.ask(hostile, documenti=[pdf()]))

    async def tidy() -> bool:
        return counting_processes(gateway) <= 4

    await eventually(tidy, 5)


async def test_a_caller_who_leaves_while_pages_are_counted_leaves_nothing(gateway: Gateway) -> None:
    """A whole answer is finished though its caller left: one that is refused is simply refused to nobody."""
    tenant = await gateway.desk.project(allow=DOCUMENTS, cap=5.0)
    body = body_of(tenant, sent(corpus.endless(), "infinito.pdf"))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await post(gateway, tenant, body)
    # Both of the project's turns come free again.

    async def free() -> bool:
        return (await gateway.ask(tenant, documenti=[pdf()])).status_code == 200

    await eventually(free, GENEROUS_SECONDS)
    assert len(await gateway.desk.rows(tenant)) == 1
    assert held_in_gate(tenant, gateway.data, None) == 0


async def test_more_bytes_than_a_worker_holds_are_refused_and_come_back(gateway: Gateway) -> None:
    """Bodies in flight are bounded: who is beyond the bound is told when to come back, and the rest is served."""
    gateway.fakes.claude.default = say("Ecco.", first_delay=1)
    tenants = [await gateway.desk.project(allow=DOCUMENTS) for _ in range(12)]
    blank = b" " * (50 * BYTES_PER_MB)

    async def one(tenant: Tenant) -> httpx.Response:
        return await post(gateway, tenant, body_of(tenant) + blank)

    replies = await asyncio.gather(*(one(tenant) for tenant in tenants))
    served = [reply for reply in replies if reply.status_code == 200]
    for reply in replies:
        if reply.status_code != 200:
            told.error(reply, 503, "servizio_non_disponibile")
    # Ten fit. What the others had sent is let go when they are refused, and not when they have sent the rest too.
    assert 8 <= len(served) < 12
    gateway.fakes.claude.reset()
    for tenant in tenants:
        told.answer(await gateway.ask(tenant))
