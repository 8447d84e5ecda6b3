"""A partner's integration tests: trigger words make every error happen, and nobody is ever asked or paid."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import pytest

from gateway.domain.errors import CONTRACT_FAULTS
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway

CODES = {fault.code: fault.status for fault in reversed(CONTRACT_FAULTS)}
PROVIDERS = {"richiesta_rifiutata", "errore_ai", "ai_non_disponibile"}


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


@pytest.fixture
async def tenant(gateway: Gateway) -> AsyncIterator[Tenant]:
    yield await gateway.desk.project(sandbox=True, per_hour=10_000)
    assert gateway.fakes.claude.seen == gateway.fakes.openai.seen == []


@pytest.mark.parametrize("code", CODES)
async def test_every_code_of_the_table(gateway: Gateway, tenant: Tenant, code: str) -> None:
    told.error(await gateway.ask(tenant, f"Prova [[prova:{code}]]"), CODES[code], code)
    response = await gateway.ask(tenant, f"[[prova:{code}]]", stream=True)
    if code in PROVIDERS:
        assert response.text.startswith("event: error\n")
        assert json.loads(response.text.partition("data: ")[2])["codice"] == code
    else:
        told.error(response, CODES[code], code)


async def test_answers_are_the_same_for_the_same(gateway: Gateway, tenant: Tenant) -> None:
    first = told.answer(await gateway.ask(tenant, "Un testo qualunque."))
    second = told.answer(await gateway.ask(tenant, "Un testo qualunque."))
    other = told.answer(await gateway.ask(tenant, "Un altro testo."))
    assert first["risposta"] == second["risposta"] != other["risposta"]
    assert first["meta"]["provider"] == "prova"
    assert (first["meta"]["modello"], first["meta"]["versione"]) == ("claude-opus-5", "Pepper 6")
    found = await gateway.capabilities(tenant)
    assert found["modelli"]["provider"] == "prova"
    assert found["spesa"]["oggi_usd"] == 0
    assert {row.cost for row in await gateway.desk.rows(tenant)} == {0}


async def test_pieces_silence_truncation_and_attempts(gateway: Gateway, tenant: Tenant) -> None:
    async with gateway.stream(tenant, "[[prova:pezzi:200]]") as stream:
        events = await stream.all()
    assert [event.name for event in events] == ["delta"] * 200 + ["done"]
    began = time.monotonic()
    told.answer(await gateway.ask(tenant, "[[prova:lento:1.5]]"))
    assert time.monotonic() - began >= 1.5
    assert told.answer(await gateway.ask(tenant, "A [[prova:troncata]]"))["meta"]["troncata"] is True
    assert told.answer(await gateway.ask(tenant, "[[prova:tentativi:2]]"))["meta"]["tentativi"] == 3
    async with gateway.stream(tenant, "[[prova:taglio:2]]") as stream:
        text, code = await stream.failed()
    assert text
    assert code == "ai_non_disponibile"


async def test_forms_and_conversations_work_as_for_everybody(gateway: Gateway, tenant: Tenant) -> None:
    body = told.answer(
        await gateway.ask(tenant, "Nome: Rossi", encode="estrai", extra={"campi": ["Nome", "Città"]})
    )
    assert json.loads(body["risposta"]) == {"Nome": "Rossi", "Città": None}
    body = told.answer(
        await gateway.ask(tenant, "È urgente!", encode="classifica", extra={"categorie": ["urgente", "no"]})
    )
    assert body["risposta"] == "urgente"
    conversation = told.answer(await gateway.ask(tenant, "Uno.", conversazione="nuova"))["conversazione"]
    second = told.answer(await gateway.ask(tenant, "Due.", conversazione=conversation))
    assert "2" in second["risposta"]
    told.error(await gateway.ask(tenant, conversazione="cnv_mai"), 404, "conversazione_sconosciuta")
    first = told.answer(await gateway.ask(tenant, key="k"))
    assert told.answer(await gateway.ask(tenant, key="k"))["risposta"] == first["risposta"]


async def test_trigger_words_mean_nothing_outside(gateway: Gateway, tenant: Tenant) -> None:
    real = await gateway.desk.project()
    told.answer(await gateway.ask(real, "[[prova:budget_esaurito]]"))
    assert len(gateway.fakes.claude.seen) == 1
    gateway.fakes.claude.reset()
    for word in ("[[prova:mai_visto]]", "[[prova:]]", "[[prova:lento:x]]", "[[prova", "[[prova:pezzi:0]]"):
        told.answer(await gateway.ask(tenant, word))
