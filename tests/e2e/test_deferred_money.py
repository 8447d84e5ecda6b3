"""What deferred work costs: half, once, on the day it was taken in; and what it holds of the cap until then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from gateway.chain.isolate import isolate
from gateway.domain.calls import Outcome
from gateway.domain.usage import Usage
from gateway.storage.batches import Batches
from tests.e2e import told
from tests.e2e.deferral import (
    NOON,
    RESULTS,
    STATE,
    Worker,
    answer_of,
    one_more_process,
    total_in_gate,
    worker,
)
from tests.e2e.harness import Gateway
from tests.fakes import refuse, say, slow, until

WORKERS = 2
USD = (0.0, 10.0)
HELD = (16_000 * 10 + 1 + 1) // 2
"""What one text of `libero` may cost at most at this price, in micro-dollars: half of all the tokens it may answer."""
TWO_AND_A_HALF = HELD * 5 // 2
COST = 500
"""What one text costs: half of a hundred tokens."""


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def noon(gateway: Gateway) -> Iterator[None]:
    gateway.set_clock(NOON)
    yield
    gateway.free_clock()


async def earner(gateway: Gateway, provider: str = "claude", **settings: Any) -> Worker:
    """Its answers have a hundred tokens each."""
    found = await worker(gateway, provider, usd=USD, **settings)
    found.batches.answers = {n: say(f"Risposta {n}.", output_tokens=100) for n in range(100)}
    return found


async def test_half_the_price_on_one_row(gateway: Gateway, provider: str) -> None:
    anna = await worker(gateway, provider, usd=(5.0, 25.0))
    anna.batches.answers = {
        0: say("Uno.", input_tokens=1_000, output_tokens=100),
        1: say("Due.", input_tokens=2_001, output_tokens=200),
    }
    anna.batches.fates = {2: "errored", 3: "expired"}
    receipt = await anna.send("a", "b", "c", "d")
    number = anna.receipt(receipt, 4)
    assert await gateway.desk.rows(anna.tenant) == []
    assert answer_of(await anna.collect(number)) == ["Uno.", "Due.", None, None]
    [row] = await gateway.desk.rows(anna.tenant)
    assert row.request_id == receipt.headers["x-request-id"]
    assert row.cost == 3_750 + 7_503  # half of 7,500 and of 15,005
    assert row.usage == Usage(input_tokens=3_001, output_tokens=300)
    assert (row.outcome, row.batch, row.recipe) == (Outcome.OK, number, "libero")
    assert (row.day, row.started_at) == (date(2026, 11, 30), NOON)
    assert (row.model, row.brain, row.key_id) == (anna.brain.principal, anna.brain.name, anna.tenant.key_id)
    assert row.cost == await anna.today() == await gateway.desk.spent(anna.tenant)


async def test_what_has_no_answer_is_not_paid(gateway: Gateway, provider: str) -> None:
    """Also what the model refused, which the provider bills."""
    anna = await earner(gateway, provider)
    anna.batches.answers = {0: refuse("No")}
    assert (await anna.collect(await anna.submit("uno")))["stato"] == "fallita"
    [refused] = await gateway.desk.rows(anna.tenant)
    assert (refused.outcome, refused.cost, refused.usage) == (Outcome.FAILED, 0, Usage())
    anna.batches.answers = {0: refuse("No"), 1: say("Sì.", output_tokens=100)}
    assert (await anna.collect(await anna.submit("uno", "due")))["stato"] == "pronta"
    assert await anna.today() == COST
    anna.batches.fates = {0: "expired", 1: "errored"}
    await anna.collect(await anna.submit("uno", "due"))
    assert sorted(row.cost for row in await gateway.desk.rows(anna.tenant)) == [0, 0, COST]
    assert await anna.today() == await gateway.desk.spent(anna.tenant) == COST


async def test_forty_two_of_a_hundred_are_billed_once(gateway: Gateway, provider: str) -> None:
    anna = await earner(gateway, provider)
    anna.batches.shuffled = anna.batches.doubled = True
    anna.batches.done = 42
    number = await anna.submit(*("testo",) * 100)
    assert await anna.today() == 100 * HELD
    body = await anna.collect(number)
    assert answer_of(body) == [f"Risposta {n}." for n in range(42)] + [None] * 58
    assert await anna.today() == 42 * COST


async def test_many_who_collect_at_once_pay_once(gateway: Gateway, provider: str) -> None:
    """Also when the reading takes so long that others may ask meanwhile, and both read it all."""
    anna = await earner(gateway, provider)
    number = await anna.submit("uno", "due")
    anna.fake.script(slow(), slow(), on=RESULTS[provider])
    first = asyncio.gather(*(anna.collect(number) for _ in range(10)))
    await until(lambda: len(anna.asked(RESULTS[provider])) == 1, 5)
    gateway.set_clock(NOON + timedelta(seconds=20))
    second = asyncio.gather(*(anna.collect(number) for _ in range(10)))
    await until(lambda: len(anna.asked(RESULTS[provider])) == 2, 5)
    states = Counter(body["stato"] for body in [*await first, *await second])
    assert states == {"in_corso": 18, "pronta": 2}
    bodies = [body for body in [*await first, *await second] if body["stato"] == "pronta"]
    assert bodies[0] == bodies[1] == await anna.collect(number)
    assert len(anna.asked(STATE[provider])) == 2
    assert [row.cost for row in await gateway.desk.rows(anna.tenant)] == [2 * COST]
    assert await anna.today() == await gateway.desk.spent(anna.tenant) == 2 * COST


async def test_what_a_batch_holds_counts_as_spent(gateway: Gateway, provider: str) -> None:
    anna = await earner(gateway, provider, cap=TWO_AND_A_HALF / 1_000_000)
    anna.batches.delay = 3_600
    alone = await anna.send("uno", "due", "tre")
    assert "da solo" in told.error(alone, 429, "budget_esaurito")
    assert alone.headers["retry-after"] == str(12 * 3_600)
    first = await anna.submit("uno")
    found = (await gateway.capabilities(anna.tenant))["spesa"]
    assert found == {
        "oggi_usd": HELD / 1_000_000,
        "tetto_usd": TWO_AND_A_HALF / 1_000_000,
        "residuo_usd": (TWO_AND_A_HALF - HELD) / 1_000_000,
    }
    no_room = told.error(await anna.send("uno", "due"), 429, "budget_esaurito")
    assert "da solo" not in no_room
    await anna.submit("uno")
    assert "da solo" not in told.error(await anna.send("uno"), 429, "budget_esaurito")
    assert len(anna.asked(f"POST {STATE[provider].split()[1].removesuffix('/uno')}")) == 2
    # Something is left: a call goes through, alone, and settles to what it cost.
    anna.fake.default = say("Ecco.", output_tokens=100)
    told.answer(await gateway.ask(anna.tenant))
    assert await anna.today() == 2 * HELD + 1_000
    anna.batches.end()
    assert (await anna.collect(first))["stato"] == "pronta"
    assert await anna.today() == HELD + COST + 1_000
    await anna.submit("uno")


async def test_batches_that_fill_the_cap_leave_nothing_for_calls(gateway: Gateway) -> None:
    anna = await earner(gateway, cap=2 * HELD / 1_000_000)
    anna.fake.default = say("Ecco.", output_tokens=100)
    anna.batches.delay = 3_600
    number = await anna.submit("uno", "due")
    for _ in range(2):
        told.error(await gateway.ask(anna.tenant), 429, "budget_esaurito")
    told.error(await gateway.ask(anna.tenant, stream=True), 429, "budget_esaurito")
    told.error(await anna.send("uno"), 429, "budget_esaurito")
    assert len(anna.fake.seen) == 1
    anna.batches.end()
    anna.batches.delay = 0
    await anna.collect(number)
    told.answer(await gateway.ask(anna.tenant))
    assert await anna.today() == 2 * COST + 1_000
    assert (await anna.collect(await anna.submit("uno")))["stato"] == "pronta"


async def test_batches_at_once_never_pass_the_cap(gateway: Gateway) -> None:
    anna = await earner(gateway, cap=5.5 * HELD / 1_000_000)
    anna.batches.delay = 3_600
    replies = await asyncio.gather(*(anna.send("uno") for _ in range(16)))
    assert Counter(reply.status_code for reply in replies) == {202: 5, 429: 11}
    assert {reply.json()["errore"]["codice"] for reply in replies if reply.status_code == 429} <= {
        "budget_esaurito",
        "troppe_richieste",
    }
    assert await anna.today() == 5 * HELD
    assert await gateway.desk.reservations(anna.tenant) == 0


async def test_no_cap_and_no_money(gateway: Gateway) -> None:
    anna = await earner(gateway, cap=0.0)
    told.error(await anna.send("uno"), 429, "budget_esaurito")
    bruno = await anna.another()
    await bruno.submit(*("uno",) * 100)
    assert (await gateway.capabilities(bruno.tenant))["spesa"] == {
        "oggi_usd": 100 * HELD / 1_000_000,
        "tetto_usd": None,
        "residuo_usd": None,
    }


async def test_the_day_of_acceptance_pays(gateway: Gateway, provider: str) -> None:
    """23:59 in Rome; collected after midnight."""
    late = datetime(2026, 11, 30, 22, 59, tzinfo=UTC)
    gateway.set_clock(late)
    anna = await earner(gateway, provider, cap=1.5 * HELD / 1_000_000)
    number = await anna.submit("uno")
    response = await anna.send("due")
    told.error(response, 429, "budget_esaurito")
    assert response.headers["retry-after"] == "60"
    gateway.set_clock(late + timedelta(minutes=2))
    assert await anna.today() == 0
    anna.batches.delay = 3_600
    await anna.submit("due")  # the new day's cap is whole
    body = await anna.collect(number)
    assert (body["stato"], body["meta"]["creato_il"]) == ("pronta", "2026-11-30 23:59:00")
    assert await anna.today() == HELD
    [row] = await gateway.desk.rows(anna.tenant)
    assert (row.day, row.cost) == (date(2026, 11, 30), COST)
    days = [(anna.tenant.name, date(2026, 11, 30)), (anna.tenant.name, date(2026, 12, 1))]
    assert list((await gateway.desk.calls.spent_many(days)).values()) == [COST, HELD]
    gateway.set_clock(late)
    anna.batches.delay = 0
    await anna.submit("tre")  # and of the old one all is left but what it cost


async def test_nobody_collected_for_twenty_nine_days(gateway: Gateway) -> None:
    anna = await earner(gateway, cap=10.0)
    number = await anna.submit("uno", "due")
    collected = await anna.submit("uno")
    await anna.collect(collected)
    gateway.set_clock(NOON + timedelta(days=1))
    young = await anna.submit("uno")
    async with one_more_process(gateway) as one:
        gateway.set_clock(NOON + timedelta(days=29) - timedelta(seconds=1))
        await one.upkeep.forget()
        assert len(await gateway.desk.rows(anna.tenant)) == 1
        gateway.set_clock(NOON + timedelta(days=29, seconds=1))
        await asyncio.gather(one.upkeep.forget(), one.upkeep.forget())
    rows = {row.batch: row for row in await gateway.desk.rows(anna.tenant)}
    assert (rows[collected].outcome, rows[collected].cost) == (Outcome.OK, COST)
    assert (rows[number].outcome, rows[number].cost) == (Outcome.LOST, 2 * HELD)
    assert rows[number].day == date(2026, 11, 30)
    assert len(rows) == 2
    assert await gateway.desk.spent(anna.tenant) == 2 * HELD + COST
    asked = len(anna.fake.seen)
    body = await anna.collect(number)
    assert body["stato"] == "scaduta"
    unclaimed = "Nessuno ha ritirato questo testo entro 29 giorni: la risposta non c'è più."
    assert body["risposte"] == [{"ok": False, "errore": unclaimed}] * 2
    assert len(anna.fake.seen) == asked
    assert (await anna.collect(young))["stato"] == "pronta"


async def test_calls_and_batches_at_once_leave_the_gate_with_the_ledgers_sum(gateway: Gateway) -> None:
    """While totals are forgotten, loaded and added to, nothing is counted twice: what is left can be spent."""
    anna = await earner(gateway, cap=2.0)
    anna.fake.default = say("Ecco.", output_tokens=10)

    async def defer() -> None:
        for _ in range(8):
            reply = await anna.send("uno")
            assert reply.status_code == 202, reply.text
            assert (await anna.collect(reply.json()["pratica"]))["stato"] == "pronta"

    async def call() -> None:
        for _ in range(24):
            told.answer(await gateway.ask(anna.tenant, encode="classifica", extra={"senza_cache": True}))

    await asyncio.gather(*(defer() for _ in range(4)), *(call() for _ in range(4)))
    spent = await anna.today()
    assert spent == sum(row.cost for row in await gateway.desk.rows(anna.tenant)) == 32 * COST + 96 * 100
    told.answer(await gateway.ask(anna.tenant))  # the total is known again
    assert await asyncio.to_thread(total_in_gate, anna, NOON.date()) == spent + 100


async def test_a_total_that_is_loaded_while_a_batch_is_taken_in_counts_it_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another batch is collected just then, and another call reads the day's total from the database."""
    anna = await earner(gateway, cap=2.0)
    anna.fake.default = say("Ecco.", output_tokens=10)
    async with one_more_process(gateway) as core:
        opened = Batches.open

        async def open_slowly(*arguments: Any) -> Any:
            found = await opened(*arguments)
            await core.gate.forget_total(anna.tenant.name, NOON.date().isoformat())
            told.answer(await gateway.ask(anna.tenant))
            return found

        monkeypatch.setattr(Batches, "open", open_slowly)
        scope = isolate(await core.chain.caller(anna.tenant.key), anna.tenant.name, "req_" + "0" * 27)
        batch = await core.chain.submit(scope, anna.request())
    assert await anna.today() == HELD + 100
    told.answer(await gateway.ask(anna.tenant))
    assert await asyncio.to_thread(total_in_gate, anna, NOON.date()) == HELD + 200
    assert (await anna.collect(batch.number))["stato"] == "pronta"


async def test_what_is_larger_than_the_cap_does_not_wait_for_room(gateway: Gateway) -> None:
    anna = await earner(gateway, cap=TWO_AND_A_HALF / 1_000_000)
    anna.fake.script(say("Ecco.", output_tokens=100, first_delay=4))
    running = asyncio.ensure_future(gateway.ask(anna.tenant))
    await until(lambda: anna.fake.seen, 5)
    reply = await anna.send("uno", "due", "tre")
    assert not running.done()
    assert "da solo" in told.error(reply, 429, "budget_esaurito")
    told.answer(await running)
