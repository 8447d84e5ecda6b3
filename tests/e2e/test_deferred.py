"""Deferred work over the wire: the receipt, every state, answers in the order of the texts whatever the provider does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.deferral import NOON, NOT_IN_TIME, RESULTS, STATE, Worker, answer_of, worker
from tests.e2e.harness import Gateway
from tests.fakes import cite, cut_after, drop, html, quiet_end, refuse, say, status, truncate, wrong_shape
from tests.fakes.batching import Fate
from tests.unit.attachments import corpus

FAILED = "Il provider non è riuscito a rispondere a questo testo."
MISSING = "Il provider non ha restituito una risposta per questo testo."
REFUSED = "Il modello si è rifiutato di rispondere per motivi di sicurezza."


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def anna(gateway: Gateway, provider: str) -> Worker:
    return await worker(gateway, provider)


@pytest.fixture(autouse=True)
def noon(gateway: Gateway) -> Iterator[None]:
    gateway.set_clock(NOON)
    yield
    gateway.free_clock()


def later(gateway: Gateway, **delta: float) -> None:
    gateway.set_clock(NOON + timedelta(**delta))


async def test_a_batch_from_receipt_to_answers(gateway: Gateway, anna: Worker) -> None:
    anna.batches.delay = 3_600
    number = await anna.submit("primo", "secondo", "terzo")
    running = {
        "ok": True,
        "pratica": number,
        "stato": "in_corso",
        "quanti": 3,
        "meta": {"differito": True, "creato_il": "2026-11-30 12:00:00", "versione": anna.brain.name},
    }
    assert await anna.collect(number) == running
    later(gateway, minutes=1)
    assert await anna.collect(number) == running
    anna.batches.end()
    later(gateway, hours=2)
    ready = await anna.collect(number)
    assert ready == {
        **running,
        "stato": "pronta",
        "risposte": [
            {"ok": True, "risposta": "Fatto il numero 0."},
            {"ok": True, "risposta": "Fatto il numero 1."},
            {"ok": True, "risposta": "Fatto il numero 2."},
        ],
    }
    asked = len(anna.fake.seen)
    for hours in (0, 3, 29 * 24):
        later(gateway, hours=hours)
        assert await anna.collect(number) == ready
    assert len(anna.fake.seen) == asked


async def test_of_a_single_text_the_answer_is_told_twice(anna: Worker) -> None:
    anna.batches.answers = {0: say("Perché no? 🌶")}
    for fields in ({"contenuto": "uno solo"}, {"contenuti": ["uno solo"]}):
        body = await anna.collect(await anna.submit(**fields))
        assert body["risposta"] == "Perché no? 🌶"
        assert body["risposte"] == [{"ok": True, "risposta": "Perché no? 🌶"}]


async def test_a_single_text_that_failed(anna: Worker) -> None:
    fates: list[tuple[Fate, str, str]] = [
        ("errored", "fallita", FAILED),
        ("expired", "scaduta", NOT_IN_TIME),
        ("canceled", "fallita", "Il provider ha annullato questo testo."),
    ]
    for fate, state, message in fates:
        anna.batches.fates = {0: fate}
        body = await anna.collect(await anna.submit(contenuto="uno"))
        assert (body["stato"], body["risposta"]) == (state, None)
        assert body["risposte"] == [{"ok": False, "errore": message}]


async def test_a_refusal_is_an_error_of_that_text(anna: Worker) -> None:
    anna.batches.answers = {1: refuse()}
    body = await anna.collect(await anna.submit("uno", "due"))
    assert body["stato"] == "pronta"
    assert body["risposte"][1] == {"ok": False, "errore": REFUSED}
    anna.batches.answers = {0: refuse()}
    body = await anna.collect(await anna.submit("uno"))
    assert (body["stato"], body["risposta"]) == ("fallita", None)


async def test_all_expired_and_some_of_each(anna: Worker) -> None:
    anna.batches.done = 0
    body = await anna.collect(await anna.submit("uno", "due"))
    assert body["stato"] == "scaduta"
    assert body["risposte"] == [{"ok": False, "errore": NOT_IN_TIME}] * 2
    assert "risposta" not in body
    anna.batches.done = None
    anna.batches.fates = {0: "expired", 1: "errored"}
    assert (await anna.collect(await anna.submit("uno", "due")))["stato"] == "fallita"
    anna.batches.fates = {0: "expired", 2: "errored"}
    body = await anna.collect(await anna.submit("uno", "due", "tre"))
    assert body["stato"] == "pronta"
    assert answer_of(body) == [None, "Fatto il numero 1.", None]
    anna.batches.fates, anna.batches.omitted = {}, {1}
    body = await anna.collect(await anna.submit("uno", "due", "tre"))
    assert answer_of(body) == ["Fatto il numero 0.", None, "Fatto il numero 2."]
    assert body["risposte"][1]["errore"] == MISSING


async def test_shuffled_doubled_and_strange_results(anna: Worker) -> None:
    shelf = anna.batches
    shelf.shuffled = shelf.doubled = shelf.strange = True
    shelf.done = 42
    texts = [f"testo {n}" for n in range(100)]
    body = await anna.collect(await anna.submit(*texts))
    assert body["stato"] == "pronta"
    assert answer_of(body) == [f"Fatto il numero {n}." for n in range(42)] + [None] * 58
    assert body["risposte"][42:] == [{"ok": False, "errore": NOT_IN_TIME}] * 58


async def test_nothing_is_told_of_what_was_not_done(gateway: Gateway) -> None:
    anna = await worker(gateway, "openai")
    gateway.fakes.openai.batches.silent = True
    anna.batches.done = 2
    body = await anna.collect(await anna.submit("a", "b", "c"))
    assert answer_of(body) == ["Fatto il numero 0.", "Fatto il numero 1.", None]
    assert body["risposte"][2]["errore"] == NOT_IN_TIME
    gateway.fakes.openai.batches.failed = True
    assert (await anna.collect(await anna.submit("a", "b")))["stato"] == "fallita"


async def test_forced_shapes_and_truncated_answers(anna: Worker) -> None:
    fields = {"encode": "estrai", "extra": {"campi": ["nome", "città/via"]}}
    body = await anna.collect(await anna.submit("uno", "due", **fields))
    assert body["stato"] == "pronta"
    for text in answer_of(body):
        assert text is not None
        assert list(json.loads(text)) == ["nome", "città/via"]
    body = await anna.collect(
        await anna.submit("uno", encode="classifica", extra={"categorie": ["luce", "gas"]})
    )
    assert body["risposta"] in {"luce", "gas"}
    anna.batches.answers = {0: truncate("Un inizio"), 1: say("Intera.")}
    body = await anna.collect(await anna.submit("uno", "due"))
    assert body["risposte"] == [
        {"ok": True, "risposta": "Un inizio", "troncata": True},
        {"ok": True, "risposta": "Intera."},
    ]
    # A forced shape that was cut is never passed on.
    anna.batches.answers = {0: truncate('{"campo_1": "mez')}
    body = await anna.collect(await anna.submit("uno", **fields))
    assert (body["stato"], body["risposta"], body["risposte"][0]["errore"]) == ("fallita", None, FAILED)


async def test_citations_of_an_attached_document(gateway: Gateway) -> None:
    anna = await worker(gateway, allow=[Permission.DEFERRED, Permission.DOCUMENTS])
    paper = {
        "contenuto": "Chi c'era?",
        "documenti": [{"nome": "verbale.pdf", "dati": corpus.encoded(corpus.pdf(3))}],
    }
    anna.batches.answers = {0: say("C'erano tutti.", citations=[cite("i presenti", pages=(2, 3))])}
    number = await anna.submit(**paper)
    cited = [{"fonte": "documento", "documento": "verbale.pdf", "pagina": 2, "testo": "i presenti"}]
    body = await anna.collect(number)
    assert body["risposte"] == [{"ok": True, "risposta": "C'erano tutti.", "citazioni": cited}]
    assert body["risposta"] == "C'erano tutti."
    anna.batches.answers = {0: say("Non c'è scritto.")}
    body = await anna.collect(await anna.submit(**paper))
    assert body["risposte"] == [{"ok": True, "risposta": "Non c'è scritto.", "citazioni": []}]
    anna.batches.answers = {}
    body = await anna.collect(await anna.submit(**paper, encode="estrai", extra={"campi": ["nome"]}))
    assert list(body["risposte"][0]) == ["ok", "risposta"]


async def test_a_batch_that_the_provider_forgot(gateway: Gateway, anna: Worker) -> None:
    number = await anna.submit("uno", "due")
    [name] = anna.batches.held
    anna.batches.forget(name)
    body = await anna.collect(number)
    assert body["stato"] == "fallita"
    assert body["risposte"] == [{"ok": False, "errore": MISSING}] * 2
    later(gateway, minutes=1)
    assert await anna.collect(number) == body
    assert await anna.today() == 0


@pytest.mark.parametrize("place", [STATE, RESULTS], ids=["state", "results"])
async def test_a_provider_that_gives_no_answer_now(
    gateway: Gateway, anna: Worker, place: dict[str, str]
) -> None:
    number = await anna.submit("uno", "due")
    troubles = [html(), html(502), status(500), status(529), status(401), status(408), wrong_shape(), drop()]
    for turn, behaviour in enumerate(troubles):
        # A question that was dropped unheard is asked once more.
        anna.fake.script(*[behaviour] * (2 if behaviour == drop() else 1), on=place[anna.provider])
        later(gateway, seconds=20 * turn)
        response = await anna.ask(number)
        assert told.error(response, 503, "ai_non_disponibile")
        assert response.headers["retry-after"] == "20"
        assert await anna.running(number)
    assert await gateway.desk.rows(anna.tenant) == []
    later(gateway, hours=1)
    assert (await anna.collect(number))["stato"] == "pronta"
    [row] = await gateway.desk.rows(anna.tenant)
    assert row.cost == await gateway.desk.spent(anna.tenant) > 0


@pytest.mark.parametrize("behaviour", [cut_after(1), quiet_end(1)], ids=["cut", "quiet"])
async def test_results_that_break_off_are_read_again(gateway: Gateway, anna: Worker, behaviour: Any) -> None:
    number = await anna.submit(*(f"testo {n}" for n in range(20)))
    anna.fake.script(behaviour, on=RESULTS[anna.provider])
    response = await anna.ask(number)
    assert response.status_code == 503, response.text
    assert await gateway.desk.rows(anna.tenant) == []
    later(gateway, seconds=20)
    assert None not in answer_of(await anna.collect(number))


async def test_the_sandbox_defers_too(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(sandbox=True, allow=[Permission.DEFERRED])
    other = await worker(gateway)
    [brain] = [one for one in await gateway.desk.catalog.list_brains() if one.name == "Pepper 6"]
    anna = Worker(gateway, tenant, "claude", brain, other.batches)
    number = await anna.submit(
        "uno", "[[prova:scade]]", "[[prova:fallisce]]", "[[prova:troncata]] lungo testo"
    )
    body = await anna.collect(number)
    assert body["stato"] == "pronta"
    assert [item["ok"] for item in body["risposte"]] == [True, False, False, True]
    assert body["risposte"][1]["errore"] == NOT_IN_TIME
    assert body["risposte"][2]["errore"] == FAILED
    assert body["risposte"][3]["troncata"] is True
    number = await anna.submit("[[prova:differito:1]]")
    assert await anna.running(number)
    await asyncio.sleep(1)
    assert await anna.running(number)  # asked once in twenty seconds, here as well
    later(gateway, seconds=20)
    assert (await anna.collect(number))["stato"] == "pronta"
    assert (await anna.collect(await anna.submit("[[prova:scade]]")))["stato"] == "scaduta"
    body = await anna.collect(await anna.submit("[[prova:fallisce]]"))
    assert (body["stato"], body["risposta"]) == ("fallita", None)
    assert await anna.today() == 0
    assert other.fake.seen == []
