"""Stores that go away around deferred work: every reply in time, nothing paid is lost, and all heals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from gateway.chain.isolate import isolate
from gateway.domain.errors import StoreAwayError
from gateway.storage.batches import Batches
from tests.e2e import told
from tests.e2e.deferral import CREATE, NOON, RESULTS, Worker, answer_of, one_more_process, worker
from tests.e2e.desk import held_in_gate
from tests.e2e.harness import Gateway
from tests.e2e.notified import address, attempted, notice_rows, set_address, told_to
from tests.e2e.surroundings import Stores
from tests.e2e.waiting import eventually
from tests.fakes import say, slow, status, until
from tests.fakes.receiver import Receiver, silent
from tests.services import Service

ENVIRONMENT = {"PEPPER_WEBHOOK_PRIVATE": "on"}
TAKE_OVER_SECONDS = 30.0
HELD = 80_001
COST = 500
REPLY_SECONDS = 8.0
HEAL_SECONDS = 10.0

pytestmark = [pytest.mark.mysql, pytest.mark.redis]


@pytest.fixture(scope="module")
def backend() -> str:
    """Only servers can go away."""
    return "production"


@pytest.fixture(params=["killed", "frozen"])
def manner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def redis(stores: Stores) -> Service:
    assert stores.redis is not None
    return stores.redis


@pytest.fixture
def mariadb(stores: Stores) -> Service:
    assert stores.mariadb is not None
    return stores.mariadb


@pytest.fixture
async def anna(gateway: Gateway) -> AsyncIterator[Worker]:
    gateway.set_clock(NOON)
    found = await worker(gateway, usd=(0.0, 10.0), cap=1.0)
    found.batches.answers = {n: say(f"Risposta {n}.", output_tokens=100) for n in range(100)}
    yield found
    gateway.free_clock()


def take_away(service: Service, manner: str) -> None:
    {"killed": service.kill, "frozen": service.freeze}[manner]()


async def in_time(call: Awaitable[httpx.Response]) -> httpx.Response:
    began = time.monotonic()
    response = await call
    assert time.monotonic() - began < REPLY_SECONDS, response.text
    return response


async def healed(gateway: Gateway) -> None:
    async def ready() -> bool:
        return (await gateway.client.get("/stato.php?pronto=1")).status_code == 200

    await eventually(ready, HEAL_SECONDS, pause=0.1)


async def collected(anna: Worker, number: str, after: float) -> None:
    """In the end it is there, paid once."""
    anna.gateway.set_clock(NOON + timedelta(seconds=after))

    async def told_so() -> Any:
        response = await in_time(anna.ask(number))
        return response.status_code == 200 and response.json()

    body = await eventually(told_so, HEAL_SECONDS, pause=0.2)
    assert answer_of(body) == ["Risposta 0.", "Risposta 1."]
    [row] = await anna.gateway.desk.rows(anna.tenant)
    assert row.cost == await anna.today() == await anna.gateway.desk.spent(anna.tenant) == 2 * COST
    assert anna.batches.created == 1


async def test_without_the_database_nothing_is_taken_in_or_given_out(
    gateway: Gateway, anna: Worker, mariadb: Service, manner: str
) -> None:
    number = await anna.submit("uno", "due")
    await asyncio.to_thread(take_away, mariadb, manner)
    try:
        told.error(await in_time(anna.send("tre")), 503, "servizio_non_disponibile")
        told.error(await in_time(anna.ask(number)), 503, "servizio_non_disponibile")
        told.error(await in_time(anna.send("tre")), 503, "servizio_non_disponibile")
    finally:
        await asyncio.to_thread(mariadb.start)
    await healed(gateway)
    assert await anna.numbers() == [number]
    await collected(anna, number, 20)


async def test_the_database_goes_while_the_provider_takes_it(
    gateway: Gateway, anna: Worker, mariadb: Service
) -> None:
    """Its name cannot be written; the caller has the receipt, and it is found again."""
    anna.fake.script(slow(seconds=1.0), on=CREATE["claude"])
    sending = asyncio.ensure_future(in_time(anna.send("uno", "due")))
    await until(lambda: anna.asked(CREATE["claude"]), 5)
    await asyncio.to_thread(take_away, mariadb, "killed")
    try:
        number = anna.receipt(await sending, 2)
    finally:
        await asyncio.to_thread(mariadb.start)
    await healed(gateway)
    await collected(anna, number, 20)


async def test_the_database_goes_while_the_provider_refuses_it(
    gateway: Gateway, anna: Worker, mariadb: Service
) -> None:
    """The row cannot be removed then: it is as soon as the database is back."""
    anna.fake.script(status(400, first_delay=1.0), on=CREATE["claude"])
    sending = asyncio.ensure_future(in_time(anna.send("uno", "due")))
    await until(lambda: anna.asked(CREATE["claude"]), 5)
    await asyncio.to_thread(take_away, mariadb, "killed")
    try:
        told.error(await sending, 502, "errore_ai")
    finally:
        await asyncio.to_thread(mariadb.start)
    await healed(gateway)

    async def undone() -> bool:
        return await anna.numbers() == []

    await eventually(undone, HEAL_SECONDS, pause=0.2)
    assert await anna.today() == 0
    for _ in range(2):
        await anna.submit(*("uno",) * 6)  # the day's cap is whole again


async def test_the_database_goes_before_anybody_is_asked(
    gateway: Gateway, anna: Worker, mariadb: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written, and then cannot be noted as being sent: nobody is asked, and the row goes."""
    async with one_more_process(gateway) as core:

        async def away(*_: Any) -> bool:
            await asyncio.to_thread(take_away, mariadb, "killed")
            raise StoreAwayError("the database went away")

        monkeypatch.setattr(Batches, "sending", away)
        scope = isolate(await core.chain.caller(anna.tenant.key), anna.tenant.name, "req_" + "0" * 27)
        try:
            with pytest.raises(StoreAwayError):
                await core.chain.submit(scope, anna.request())
        finally:
            await asyncio.to_thread(mariadb.start)
        await healed(gateway)

        async def undone() -> bool:
            return await anna.numbers() == []

        await eventually(undone, HEAL_SECONDS, pause=0.2)
    assert anna.asked(CREATE["claude"]) == []
    assert await anna.today() == 0


async def test_the_database_goes_while_a_notice_is_on_its_way(
    gateway: Gateway, anna: Worker, mariadb: Service
) -> None:
    with Receiver() as receiver:
        await set_address(anna, address(receiver, anna))
        receiver.answers.append(silent(3))
        await anna.collect(await anna.submit("uno", "due"))
        await until(lambda: told_to(receiver, anna), TAKE_OVER_SECONDS)
        await asyncio.to_thread(mariadb.kill)
        await asyncio.sleep(4)
        assert len(told_to(receiver, anna)) == 1
        await asyncio.to_thread(mariadb.start)
        notice = await attempted(anna, 1, TAKE_OVER_SECONDS)
        assert {told.notice for told in told_to(receiver, anna)} == {notice.id}
        assert len(await notice_rows(anna)) == 1
        await set_address(anna, None)


async def test_the_database_goes_while_results_are_read(
    gateway: Gateway, anna: Worker, mariadb: Service
) -> None:
    number = await anna.submit("uno", "due")
    anna.fake.script(slow(seconds=1.0), on=RESULTS["claude"])
    asking = asyncio.ensure_future(in_time(anna.ask(number)))
    await until(lambda: anna.asked(RESULTS["claude"]), 5)
    await asyncio.to_thread(take_away, mariadb, "frozen")
    try:
        told.error(await asking, 503, "servizio_non_disponibile")
    finally:
        await asyncio.to_thread(mariadb.start)
    await healed(gateway)
    await collected(anna, number, 20)


async def test_without_redis_work_is_taken_in_and_given_out(
    gateway: Gateway, anna: Worker, redis: Service, manner: str
) -> None:
    await asyncio.to_thread(take_away, redis, manner)
    try:
        number = anna.receipt(await in_time(anna.send("uno", "due")), 2)
        assert await anna.today() == 2 * HELD
        told.error(await in_time(anna.send(*("uno",) * 11)), 429, "budget_esaurito")
    finally:
        await asyncio.to_thread(redis.start)
    await healed(gateway)
    await collected(anna, number, 20)
    assert await asyncio.to_thread(held_in_gate, anna.tenant, gateway.data, gateway.stores.redis.url) == 0  # type: ignore[union-attr]
    assert await gateway.desk.reservations(anna.tenant) == 0
    told.answer(await gateway.ask(anna.tenant))
