"""Handing work in to a provider that refuses, is overloaded, or says nothing: no paid work is lost, none paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.deferral import CREATE, LIST, NOON, Worker, answer_of, worker
from tests.e2e.harness import Gateway
from tests.fakes import OPENAI_FILES, cut_after, drop, html, status, wrong_shape
from tests.unit.attachments import corpus

UPLOAD = f"POST {OPENAI_FILES}"
OVERLOADED = {"claude": 529, "openai": 429}


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def anna(gateway: Gateway, provider: str) -> Worker:
    return await worker(gateway, provider, cap=1.0, usd=(0.0, 10.0))


@pytest.fixture(autouse=True)
def noon(gateway: Gateway) -> Iterator[None]:
    gateway.set_clock(NOON)
    yield
    gateway.free_clock()


async def nothing_left(gateway: Gateway, anna: Worker) -> None:
    assert await anna.numbers() == []
    assert await anna.today() == await gateway.desk.spent(anna.tenant) == 0
    assert await gateway.desk.rows(anna.tenant) == []
    assert await gateway.desk.reservations(anna.tenant) == 0


async def test_a_clear_refusal_leaves_nothing(gateway: Gateway, anna: Worker) -> None:
    for asked, code in enumerate([400, 401, 403, 404, 408, 409, 413, 422], 1):
        anna.fake.script(status(code), on=CREATE[anna.provider])
        told.error(await anna.send(*("uno",) * 12), 502, "errore_ai")
        assert len(anna.asked(CREATE[anna.provider])) == asked
        await nothing_left(gateway, anna)
    # And all of the cap is free again.
    await anna.submit(*("uno",) * 12)


async def test_an_overloaded_provider_is_asked_again(gateway: Gateway, anna: Worker) -> None:
    place, code = CREATE[anna.provider], OVERLOADED[anna.provider]
    anna.fake.script(status(code, retry_after=1), status(code), on=place)
    began = time.monotonic()
    number = await anna.submit("uno")
    assert time.monotonic() - began > 1 + 1.4
    assert len(anna.asked(place)) == 3
    assert (await anna.collect(number))["stato"] == "pronta"
    assert anna.batches.created == 1


async def test_one_that_stays_overloaded_has_nothing(gateway: Gateway, anna: Worker) -> None:
    place, code = CREATE[anna.provider], OVERLOADED[anna.provider]
    anna.fake.script(*[status(code)] * 3, status(code, retry_after=21), on=place)
    for asked in (3, 4):
        response = await anna.send("uno")
        told.error(response, 503, "ai_non_disponibile")
        assert len(anna.asked(place)) == asked
        await nothing_left(gateway, anna)


async def test_one_that_is_not_there_has_nothing(gateway: Gateway, anna: Worker) -> None:
    await asyncio.to_thread(anna.fake.stop)
    try:
        told.error(await anna.send("uno"), 503, "ai_non_disponibile")
    finally:
        await asyncio.to_thread(anna.fake.start)
    await nothing_left(gateway, anna)


async def test_a_bad_document_is_told_as_such(gateway: Gateway) -> None:
    anna = await worker(gateway, allow=[Permission.DEFERRED, Permission.DOCUMENTS])
    anna.fake.script(status(400), on=CREATE["claude"])
    paper = {"nome": "a.pdf", "dati": corpus.encoded(corpus.pdf(1))}
    told.error(await anna.send(contenuto="x", documenti=[paper]), 400, "documento_non_valido")
    assert await anna.numbers() == []


async def test_before_the_batch_itself_nothing_is_ambiguous(gateway: Gateway) -> None:
    """OpenAI takes a file first: what goes wrong there is tried again, or has left nothing."""
    anna = await worker(gateway, "openai")
    anna.fake.script(status(500), html(), on=UPLOAD)
    await anna.submit("uno")
    assert (len(anna.asked(UPLOAD)), anna.batches.created) == (3, 1)
    anna.fake.script(drop(), drop(), drop(), on=UPLOAD)
    told.error(await anna.send("uno"), 503, "ai_non_disponibile")
    assert len(await anna.numbers()) == anna.batches.created == 1


async def test_a_lost_reply_is_a_receipt_all_the_same(gateway: Gateway, anna: Worker) -> None:
    """The batch was made, and its name got lost: it is found by what it holds."""
    lost = [anna.batches.lost(one) for one in (drop(), status(500), status(503), html(), wrong_shape())]
    for made, behaviour in enumerate([*lost, cut_after(0)], 1):
        anna.fake.script(behaviour, on=CREATE[anna.provider])
        spent = await anna.today()
        number = await anna.submit("uno", "due")
        assert len(anna.asked(CREATE[anna.provider])) == anna.batches.created == made
        assert await anna.today() == spent + 2 * 80_001
        body = await anna.collect(number)
        assert answer_of(body) == ["Fatto il numero 0.", "Fatto il numero 1."]
        [row] = [row for row in await gateway.desk.rows(anna.tenant) if row.batch == number]
        assert (row.outcome, row.cost) == (Outcome.OK, await anna.today() - spent)
        found = await anna.row(number)
        assert found is not None
        assert found.provider_id in anna.batches.held


async def test_each_lost_batch_finds_its_own(gateway: Gateway, anna: Worker) -> None:
    """Among others of the same size: ours, other customers', and one that is still at work."""
    known = await anna.submit("noto")
    if anna.provider == "claude":
        gateway.fakes.claude.batches.plant("msgbatch_altro", [f"{known[:-1]}x-0"])
        gateway.fakes.claude.batches.plant("msgbatch_vecchio", ["prt_000000000000-0"], age=3_600)
    else:
        gateway.fakes.openai.batches.plant("batch_altro", metadata={"pepper": "prt_000000000000"})
        gateway.fakes.openai.batches.plant("batch_senza")
    anna.batches.answers = {}
    anna.fake.script(*[anna.batches.lost(drop())] * 3, on=CREATE[anna.provider])
    lost = [await anna.submit("uno") for _ in range(3)]
    anna.batches.delay = 3_600
    anna.fake.script(anna.batches.lost(drop()), on=CREATE[anna.provider])
    slow = await anna.submit("lento")
    assert await anna.running(slow)
    bodies = await asyncio.gather(*(anna.collect(number) for number in reversed(lost)))
    assert {body["stato"] for body in bodies} == {"pronta"}
    rows = [await anna.row(number) for number in [known, *lost]]
    names = [row.provider_id for row in rows if row is not None]
    assert len(set(names)) == 4
    for number, name in zip([known, *lost], names, strict=True):
        assert name is not None
        assert anna.batches.held[name].items[0].custom_id.startswith(number)
    assert (await anna.collect(known))["stato"] == "pronta"
    assert len(await gateway.desk.rows(anna.tenant)) == 4
    anna.batches.end()
    gateway.set_clock(NOON + timedelta(hours=26))
    assert (await anna.collect(slow))["stato"] == "pronta"


async def test_a_listing_that_fails_decides_nothing(gateway: Gateway, anna: Worker) -> None:
    anna.fake.script(anna.batches.lost(drop()), on=CREATE[anna.provider])
    number = await anna.submit("uno")
    anna.fake.script(status(500), on=LIST[anna.provider])
    gateway.set_clock(NOON + timedelta(hours=26))
    told.error(await anna.ask(number), 503, "ai_non_disponibile")
    gateway.set_clock(NOON + timedelta(hours=27))
    assert (await anna.collect(number))["stato"] == "pronta"


async def test_what_never_arrived_fails_after_twenty_five_hours(gateway: Gateway, anna: Worker) -> None:
    anna.fake.script(drop(), on=CREATE[anna.provider])
    number = await anna.submit("uno", "due")
    assert await anna.running(number)
    gateway.set_clock(NOON + timedelta(hours=25) - timedelta(seconds=1))
    assert await anna.running(number)
    assert await anna.row(number)
    gateway.set_clock(NOON + timedelta(hours=25, seconds=20))
    body = await anna.collect(number)
    assert body["stato"] == "fallita"
    assert answer_of(body) == [None, None]
    [row] = await gateway.desk.rows(anna.tenant)
    assert (row.outcome, row.cost) == (Outcome.FAILED, 0)
    assert await gateway.desk.spent(anna.tenant) == 0
