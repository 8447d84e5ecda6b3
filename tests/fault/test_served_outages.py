"""Stores that go away and come back under a running gateway: every reply in time, nothing paid is lost, all heals.

`docs/operating.md`, last section, and the rules for outages in `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from gateway.domain.calls import Outcome
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.e2e.surroundings import Stores
from tests.e2e.waiting import eventually
from tests.fakes import say, until
from tests.services import Service

REPLY_SECONDS = 8.0
HEAL_SECONDS = 5.0

pytestmark = [pytest.mark.mysql, pytest.mark.redis]


@pytest.fixture(scope="module")
def backend() -> str:
    """Only servers can go away."""
    return "production"


@pytest.fixture(params=["stopped", "killed", "frozen"])
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


def take_away(service: Service, manner: str) -> None:
    {"stopped": service.stop, "killed": service.kill, "frozen": service.freeze}[manner]()


async def in_time(call: Awaitable[httpx.Response]) -> httpx.Response:
    began = time.monotonic()
    response = await call
    assert time.monotonic() - began < REPLY_SECONDS, response.text
    return response


async def ready(gateway: Gateway) -> int:
    return (await in_time(gateway.client.get("/stato.php?pronto=1"))).status_code


async def healed(gateway: Gateway, *calls: Callable[[], Awaitable[httpx.Response]]) -> None:
    """Within five seconds everything answers 200 again."""

    async def all_well() -> bool:
        if await ready(gateway) != 200:
            return False
        return all([(await in_time(call())).status_code == 200 for call in calls])

    await eventually(all_well, HEAL_SECONDS, pause=0.1)


async def test_calls_go_on_without_redis(gateway: Gateway, redis: Service, manner: str) -> None:
    free = await gateway.desk.project()
    capped, _ = await gateway.tenant_of_its_own(cap=1.0, usd=(0.0, 30.0))
    gateway.fakes.claude.default = say("Ecco.", input_tokens=10, output_tokens=100)
    for tenant in (free, capped):
        told.answer(await gateway.ask(tenant))
    await asyncio.to_thread(take_away, redis, manner)
    try:
        replies = await asyncio.gather(*(in_time(gateway.ask(free, encode="riassumi")) for _ in range(10)))
        bodies = [told.answer(reply) for reply in replies]
        assert all("cache" not in body["meta"] for body in bodies)
        told.answer(await in_time(gateway.ask(capped)))
        response = await in_time(gateway.ask(free, key="una-chiave"))
        told.error(response, 503, "servizio_non_disponibile")
        assert await ready(gateway) == 503
        assert (await in_time(gateway.client.get("/stato.php"))).status_code == 200
        assert (await gateway.capabilities(capped))["spesa"]["oggi_usd"] == pytest.approx(0.006)
        conversation = told.answer(await in_time(gateway.ask(free, conversazione="nuova")))["conversazione"]
        told.error(await in_time(gateway.ask(Tenant(free.name, "pk_no"))), 401, "non_autorizzato")
    finally:
        await asyncio.to_thread(redis.start)
    await healed(
        gateway,
        lambda: gateway.ask(free, key="una-chiave"),
        lambda: gateway.ask(capped),
        lambda: gateway.ask(free, conversazione=conversation),
    )
    assert told.answer(await gateway.ask(free, key="una-chiave"))["meta"]["idempotente"] is True
    rows = await gateway.desk.rows(capped)
    assert sum(row.cost for row in rows) == await gateway.desk.spent(capped) == 3_000 * len(rows)


async def test_the_hour_is_counted_without_redis_too(gateway: Gateway, redis: Service) -> None:
    tenant = await gateway.desk.project(per_hour=5)
    with_redis_away = redis.away()
    await asyncio.to_thread(with_redis_away.__enter__)
    try:
        replies = await asyncio.gather(*(in_time(gateway.ask(tenant)) for _ in range(12)))
        assert sorted(reply.status_code for reply in replies) == [200] * 5 + [429] * 7
    finally:
        await asyncio.to_thread(with_redis_away.__exit__, None, None, None)
    await healed(gateway)


async def test_the_cap_holds_while_redis_goes_and_comes(gateway: Gateway, redis: Service) -> None:
    tenant, _ = await gateway.tenant_of_its_own(cap=0.10, usd=(0.0, 30.0))
    gateway.fakes.claude.default = say("Ecco.", input_tokens=10, output_tokens=1_000, delay=0.1)
    stop = asyncio.Event()

    async def caller() -> list[int]:
        found = []
        while not stop.is_set():
            response = await gateway.ask(tenant, encode="classifica", extra={"senza_cache": True})
            found.append(response.status_code)
            await asyncio.sleep(0.05)
        return found

    callers = [asyncio.ensure_future(caller()) for _ in range(6)]
    for _ in range(2):
        await asyncio.to_thread(redis.kill)
        await asyncio.sleep(1)
        await asyncio.to_thread(redis.start)
        await asyncio.sleep(1)
    await asyncio.sleep(6)
    stop.set()
    statuses = {status for one in await asyncio.gather(*callers) for status in one}
    assert statuses <= {200, 429, 503}
    spent = await gateway.desk.spent(tenant)
    assert 100_000 <= spent <= 130_000
    assert spent == 30_000 * len(gateway.fakes.claude.seen)
    await healed(gateway)


async def test_nothing_new_is_begun_without_the_database(
    gateway: Gateway, mariadb: Service, manner: str
) -> None:
    tenant, _ = await gateway.tenant_of_its_own()  # known to the server by heart
    told.answer(await gateway.ask(tenant))
    kept = told.answer(await gateway.ask(tenant, key="prima"))
    await asyncio.to_thread(take_away, mariadb, manner)
    try:
        # What begins before anybody could know is paid, and goes out; that a store hangs is known after some seconds.
        async def known() -> bool:
            return (await in_time(gateway.ask(tenant))).status_code == 503

        await eventually(known, REPLY_SECONDS)
        asked = len(gateway.fakes.claude.seen)
        for call in (
            gateway.ask(tenant),
            gateway.ask(tenant, key="seconda"),
            gateway.ask(tenant, conversazione="nuova"),
            gateway.ask(tenant, conversazione="cnv_" + "a" * 16),
            gateway.ask(tenant, stream=True),
            gateway.ask(Tenant(tenant.name, "pk_" + "x" * 43)),
            gateway.client.post(
                "/capacita.php", json={"progetto": tenant.name}, headers=gateway.headers(tenant)
            ),
        ):
            told.error(await in_time(call), 503, "servizio_non_disponibile")
        assert len(gateway.fakes.claude.seen) == asked
        assert await ready(gateway) == 503
        assert (await in_time(gateway.client.get("/stato.php"))).status_code == 200
        told.error(await in_time(gateway.client.post("/api.php", json={})), 401, "non_autorizzato")
        again = told.answer(await in_time(gateway.ask(tenant, key="prima")))
        assert again["meta"].pop("idempotente") is True
        assert again == kept
    finally:
        await asyncio.to_thread(mariadb.start)
    await healed(
        gateway,
        lambda: gateway.ask(tenant),
        lambda: gateway.ask(tenant, key="seconda"),
        lambda: gateway.ask(tenant, conversazione="nuova"),
    )


async def test_an_answer_that_is_paid_goes_out_without_the_database(
    gateway: Gateway, mariadb: Service
) -> None:
    """Its row waits in the spool; a conversation, which could not be written, is told so."""
    tenant, _ = await gateway.tenant_of_its_own(usd=(1.0, 1.0))
    conversation = told.answer(await gateway.ask(tenant, "1", conversazione="nuova"))["conversazione"]
    gateway.fakes.claude.default = say("Pagata.", first_delay=1.5, input_tokens=1_000, output_tokens=0)
    asked = len(gateway.fakes.claude.seen)
    single = asyncio.ensure_future(gateway.ask(tenant))
    streamed = asyncio.ensure_future(gateway.ask(tenant, stream=True))
    turn = asyncio.ensure_future(gateway.ask(tenant, "2", conversazione=conversation))
    told_turn = asyncio.ensure_future(gateway.ask(tenant, "2", conversazione=conversation, stream=True))
    keyed = asyncio.ensure_future(gateway.ask(tenant, "3", conversazione=conversation, key="k"))
    await until(lambda: len(gateway.fakes.claude.seen) == asked + 5, 5)
    await asyncio.to_thread(mariadb.kill)
    try:
        answers = await asyncio.wait_for(asyncio.gather(single, streamed, turn, told_turn, keyed), 12)
        body = told.answer(answers[0])
        assert body["risposta"] == "Pagata."
        assert "event: done" in answers[1].text
        told.error(answers[2], 503, "servizio_non_disponibile")
        assert "event: error" in answers[3].text
        assert "ai_non_disponibile" in answers[3].text
        told.error(answers[4], 503, "servizio_non_disponibile")
        assert (gateway.data / "spool.jsonl").exists()
    finally:
        await asyncio.to_thread(mariadb.start)

    async def imported() -> bool:
        return len(await gateway.desk.rows(tenant)) == 6

    await eventually(imported, HEAL_SECONDS)
    rows = await gateway.desk.rows(tenant)
    assert {row.outcome for row in rows} == {Outcome.OK}
    assert sum(row.cost for row in rows) == await gateway.desk.spent(tenant)
    assert body["meta"]["richiesta"] in {row.request_id for row in rows}
    # The key's answer was kept, with its pair: the repeat writes it and asks nobody.
    repeat = told.answer(await gateway.ask(tenant, "3", conversazione=conversation, key="k"))
    assert repeat["risposta"] == "Pagata."
    assert len(gateway.fakes.claude.seen) == asked + 5
    pairs = await gateway.desk.pairs(tenant, conversation)
    assert pairs is not None
    assert [question for question, _ in pairs] == ["1", "3"]


async def test_an_answer_finished_without_redis_is_kept_when_it_is_back(
    gateway: Gateway, redis: Service
) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(say("Finita.", first_delay=1))
    running = asyncio.ensure_future(gateway.ask(tenant, key="k"))
    await until(lambda: gateway.fakes.claude.seen, 5)
    await asyncio.to_thread(redis.stop)
    try:
        first = told.answer(await in_time(running))
    finally:
        await asyncio.to_thread(redis.start)

    async def kept() -> Any:
        response = await gateway.ask(tenant, key="k")
        return response.status_code == 200 and response.json()

    body = await eventually(kept, HEAL_SECONDS, pause=0.2)
    assert body["meta"].pop("idempotente", None) is True
    assert body == first
    assert len(gateway.fakes.claude.seen) == 1


async def test_it_starts_without_its_stores_and_heals(
    make_gateway: Callable[..., Gateway], stores: Stores, redis: Service, mariadb: Service
) -> None:
    gateway = make_gateway()
    gateway.start()
    async with gateway.connected():
        tenant = await gateway.desk.project()
    gateway.kill()
    for away in ((redis,), (mariadb,), (redis, mariadb)):
        for service in away:
            await asyncio.to_thread(service.stop)
        try:
            await asyncio.to_thread(gateway.start, ready=False)
            async with gateway.connected():
                response = await in_time(gateway.ask(tenant))
                if mariadb in away:
                    told.error(response, 503, "servizio_non_disponibile")
                else:
                    told.answer(response)
                assert await ready(gateway) == 503
        finally:
            for service in away:
                await asyncio.to_thread(service.start)
        async with gateway.connected():
            await healed(
                gateway, lambda: gateway.ask(tenant), lambda: gateway.ask(tenant, key=str(datetime.now(UTC)))
            )
        gateway.kill()
