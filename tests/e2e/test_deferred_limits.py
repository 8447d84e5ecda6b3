"""What deferred work refuses, whose a batch is, and how seldom a provider is asked about it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.deferral import CREATE, NOON, STATE, one_more_process, worker
from tests.e2e.harness import Gateway
from tests.e2e.test_isolation import comparable
from tests.fakes import say, status, until
from tests.unit.attachments import corpus

WORKERS = 2
RANDOM = "prt_0123456789ab"
PAPER = {"nome": "a.pdf", "dati": corpus.encoded(corpus.pdf(1))}


@pytest.fixture(autouse=True)
def noon(gateway: Gateway) -> Iterator[None]:
    gateway.set_clock(NOON)
    yield
    gateway.free_clock()


NONSENSE: list[dict[str, Any]] = [
    {"contenuti": ["x"] * 101},
    {"contenuti": []},
    {"contenuti": ["x", " "]},
    {"contenuti": ["x", 1]},
    {"contenuti": "x"},
    {"contenuto": "x", "contenuti": ["y"]},
    {"contenuto": ..., "contenuti": ...},
    {"stream": True},
    {"conversazione": "nuova"},
    {"conversazione": "cnv_" + "a" * 16},
    {"documenti": [PAPER]},
    {"modo": "Differito"},
    {"modo": "subito"},
    {"modo": ...},
]


async def test_what_deferred_work_cannot_be(gateway: Gateway) -> None:
    anna = await worker(gateway, allow=list(Permission))
    for fields in NONSENSE:
        sent: dict[str, Any] = {"contenuti": ["uno", "due"], **fields}
        assert told.error(await anna.send(**sent), 400, "richiesta_non_valida"), fields
    assert anna.fake.seen == []
    assert await anna.numbers() == []


async def test_who_may_not_defer(gateway: Gateway) -> None:
    anna = await worker(gateway, allow=[permission for permission in Permission if permission != "differito"])
    told.error(await anna.send("uno"), 403, "differito_non_abilitato")
    # The order of the checks: fields, recipe, permissions, attachments.
    told.error(await anna.send("uno", encode="mai"), 404, "encode_sconosciuto")
    told.error(await anna.send("uno", stream=True, encode="mai"), 400, "richiesta_non_valida")
    bad: dict[str, Any] = {"contenuto": "x", "documenti": [{"nome": "a.pdf", "dati": "!"}]}
    told.error(await anna.send(**bad), 403, "differito_non_abilitato")
    able = await anna.another()
    told.error(await able.send(**bad), 403, "documenti_non_abilitati")
    assert (await gateway.capabilities(anna.tenant))["puo"]["differito"] is False
    found = await gateway.capabilities(able.tenant)
    assert found["puo"]["differito"] is True
    assert (found["limiti"]["differito_testi"], found["limiti"]["differito_pratiche_aperte"]) == (100, 20)


async def test_a_hundred_texts_and_a_hundred_thousand_characters(gateway: Gateway) -> None:
    anna = await worker(gateway, "openai")
    number = await anna.submit(*(f"testo {n}" for n in range(99)), "è" * 100_000)
    assert (await anna.collect(number))["stato"] == "pronta"
    too_long = await anna.send("uno", "x" * 100_001)
    assert "contenuti[1]" in told.error(too_long, 413, "contenuto_troppo_grande")


async def test_twenty_open_batches_and_not_one_more(gateway: Gateway) -> None:
    anna = await worker(gateway, per_hour=30)
    anna.batches.delay = 3_600
    replies = await asyncio.gather(*(anna.send("uno") for _ in range(30)))
    assert Counter(reply.status_code for reply in replies) == {202: 20, 429: 10}
    for reply in replies:
        if reply.status_code == 429:
            told.error(reply, 429, "troppe_pratiche")
            assert reply.headers["retry-after"] == "20"
    assert len(await anna.numbers()) == anna.batches.created == 20
    numbers = [reply.json()["pratica"] for reply in replies if reply.status_code == 202]
    assert len(set(numbers)) == 20
    anna.batches.end()
    assert (await anna.collect(numbers[0]))["stato"] == "pronta"
    # What was refused has not counted for the hour: nine calls are left of thirty.
    anna.batches.delay = 3_600
    await anna.submit("uno")
    told.error(await anna.send("uno"), 429, "troppe_pratiche")
    for _ in range(9):
        told.answer(await gateway.ask(anna.tenant))
    told.error(await anna.send("uno"), 429, "troppe_richieste")


async def test_a_batch_counts_as_one_call_of_the_hour(gateway: Gateway) -> None:
    anna = await worker(gateway, per_hour=3)
    number = await anna.submit("uno", "due", "tre")
    for _ in range(5):
        await anna.collect(number)
    told.answer(await gateway.ask(anna.tenant))
    anna.fake.script(status(400), on=CREATE["claude"])
    told.error(await anna.send("uno"), 502, "errore_ai")
    response = await anna.send("uno")
    told.error(response, 429, "troppe_richieste")
    assert response.headers["retry-after"] == "3600"
    gateway.fakes.claude.take_refused()


async def test_an_idempotency_key_means_nothing_here(gateway: Gateway) -> None:
    anna = await worker(gateway)
    keys = ["chiave", "chiave", "x" * 300]
    numbers = [anna.receipt(await anna.send("uno", headers={"idempotency-key": key}), 1) for key in keys]
    assert len(set(numbers)) == 3
    answer = told.answer(await gateway.ask(anna.tenant, key="chiave"))
    assert "idempotente" not in answer["meta"]


async def test_nothing_is_taken_from_the_cache_or_put_there(gateway: Gateway) -> None:
    anna = await worker(gateway)
    gateway.fakes.claude.default = say("Dalla cache.")
    body: dict[str, Any] = {"encode": "riassumi"}
    told.answer(await gateway.ask(anna.tenant, "Un testo", **body))
    number = await anna.submit("Un testo", "Un altro", **body)
    found = await anna.collect(number)
    assert [item["risposta"] for item in found["risposte"]] == ["Fatto il numero 0.", "Fatto il numero 1."]
    again = told.answer(await gateway.ask(anna.tenant, "Un altro", **body))
    assert "cache" not in again["meta"]


async def test_foreign_numbers_answer_like_none(gateway: Gateway) -> None:
    anna = await worker(gateway)
    bruno = await anna.another()
    number = await anna.submit("uno")
    never = comparable(await bruno.ask(RANDOM))
    for _ in range(2):  # before and after it has ended
        foreign = await bruno.ask(number)
        told.error(foreign, 404, "pratica_sconosciuta")
        assert comparable(foreign) == never
        await anna.collect(number)
    variants = [
        number.upper(),
        number + " ",
        " " + number,
        number + "\u0000",
        number[:-1],
        number + "0",
        number.removeprefix("prt_"),
        "prt_%",
        "prt_" + "_" * 12,
        "",
        number[:-1] + "\u00e8",
        number[:-1] + "\U0001f336",
        "prt_" + "a" * 5_000,
    ]
    for one in variants:
        assert comparable(await anna.ask(one)) == never, one
    for wrong in (None, 7, ["x"], {"a": 1}, True):
        told.error(await anna.ask(wrong), 400, "richiesta_non_valida")
    assert (await anna.collect(number))["stato"] == "pronta"
    assert await gateway.desk.rows(bruno.tenant) == []


@pytest.mark.parametrize("provider", ["claude", "openai"])
async def test_the_provider_is_asked_once_in_twenty_seconds(gateway: Gateway, provider: str) -> None:
    anna = await worker(gateway, provider)
    anna.batches.delay = 3_600
    first, second = await anna.submit("uno"), await anna.submit("due")

    async def asked(seconds: float, number: str) -> int:
        gateway.set_clock(NOON + timedelta(seconds=seconds))
        before = len(anna.asked(STATE[provider]))
        found = await asyncio.gather(*(anna.running(number) for _ in range(5)))
        assert all(found)
        return len(anna.asked(STATE[provider])) - before

    assert await asked(0, first) == 1
    assert await asked(10, second) == 1
    assert await asked(19.9, first) == 0
    assert await asked(20, first) == 1
    assert await asked(29, second) == 0
    assert await asked(39.9, first) == 0
    assert await asked(3_600, first) == 1
    assert await asked(3_600, second) == 1


async def test_a_batch_can_be_collected_for_thirty_days(gateway: Gateway) -> None:
    anna = await worker(gateway)
    number, young = await anna.submit("uno"), ""
    ready = await anna.collect(number)
    gateway.set_clock(NOON + timedelta(days=29, hours=23))
    young = await anna.submit("due")
    await anna.collect(young)
    assert await anna.collect(number) == ready
    async with one_more_process(gateway) as one:
        await one.upkeep.forget()
        assert await anna.collect(number) == ready
        gateway.set_clock(NOON + timedelta(days=30, seconds=1))
        gone = await anna.ask(number)
        told.error(gone, 404, "pratica_sconosciuta")
        assert comparable(gone) == comparable(await anna.ask(RANDOM))
        await one.upkeep.forget()
    assert comparable(gone) == comparable(await anna.ask(number))
    assert await anna.numbers() == [young]
    assert (await anna.collect(young))["stato"] == "pronta"
    assert len(await gateway.desk.rows(anna.tenant)) == 2


async def test_who_hangs_up_has_handed_in_all_the_same(gateway: Gateway) -> None:
    anna = await worker(gateway)
    anna.fake.script(say("", first_delay=0.3), on=CREATE["claude"])
    sending = asyncio.ensure_future(anna.send("uno"))
    await until(lambda: anna.asked(CREATE["claude"]), 5)
    sending.cancel()
    [number] = await anna.numbers()
    await asyncio.sleep(0.6)
    row = await anna.row(number)
    assert row is not None
    assert row.provider_id in anna.batches.held
    assert (await anna.collect(number))["stato"] == "pronta"
