"""A call and its answer, whole, on both stores and from both providers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.catalog import Reasoning
from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.harness import Gateway
from tests.fakes import SAMPLE, answer, say, text, think, truncate


async def test_an_answer_is_the_contracts_to_the_letter(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.script(say(SAMPLE, input_tokens=1_000, output_tokens=200))
    body = told.answer(await gateway.ask(tenant, "Perché?"))
    assert body["risposta"] == SAMPLE
    assert body["conversazione"] is None
    assert {name: body["meta"][name] for name in told.META if name != "durata_ms"} == {
        "progetto": tenant.name,
        "encode": "libero",
        "provider": "claude",
        "modello": "claude-opus-5",
        "versione": "Pepper 6",
    }
    assert set(body["meta"]) == {*told.META, "richiesta"}
    [seen] = gateway.fakes.claude.seen
    assert seen.body["messages"] == [{"role": "user", "content": "Perché?"}] or "Perché?" in json.dumps(
        seen.body["messages"], ensure_ascii=False
    )


async def test_the_ledger_has_the_row_before_the_answer_is_out(gateway: Gateway) -> None:
    tenant, brain = await gateway.tenant_of_its_own(usd=(5.0, 25.0))
    gateway.fakes.claude.script(say("Sì.", input_tokens=1_000, output_tokens=200))
    body = told.answer(await gateway.ask(tenant))
    [row] = await gateway.desk.rows(tenant)
    assert row.request_id == body["meta"]["richiesta"]
    assert (row.outcome, row.recipe, row.model) == (Outcome.OK, "libero", brain.principal)
    assert row.key_id == tenant.key_id
    assert row.cost == 1_000 * 5 + 200 * 25  # micro-dollars
    assert await gateway.desk.spent(tenant) == row.cost
    assert (await gateway.capabilities(tenant))["spesa"]["oggi_usd"] == 0.01


async def test_the_economic_level_asks_the_economic_model(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    body = told.answer(await gateway.ask(tenant, encode="correggi"))
    assert body["meta"]["modello"] == "claude-haiku-4-5"
    assert gateway.fakes.claude.seen[0].body["model"] == "claude-haiku-4-5"


async def test_openai_answers_in_the_same_form(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(brain="Pepper 6 · OpenAI")
    gateway.fakes.openai.script(say(SAMPLE))
    body = told.answer(await gateway.ask(tenant))
    assert body["risposta"] == SAMPLE
    assert body["meta"]["provider"] == "openai"
    assert body["meta"]["modello"] == "gpt-5.5"
    assert body["meta"]["versione"] == "Pepper 6 · OpenAI"
    assert gateway.fakes.claude.seen == []


async def test_a_brain_that_reasons_keeps_its_thoughts(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(reasoning=Reasoning.MEDIUM)
    gateway.fakes.claude.script(answer(think("Nessuno deve leggerlo."), text("Ecco.")))
    body = told.answer(await gateway.ask(tenant))
    assert body["risposta"] == "Ecco."
    assert "Nessuno" not in json.dumps(body)


@pytest.mark.parametrize("provider", ["claude", "openai"])
async def test_an_answer_at_its_limit_is_marked(gateway: Gateway, provider: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake = gateway.fakes.claude if provider == "claude" else gateway.fakes.openai
    fake.script(truncate("Troppo lungo per"))
    body = told.answer(await gateway.ask(tenant))
    assert (body["risposta"], body["meta"]["troncata"]) == ("Troppo lungo per", True)
    [row] = await gateway.desk.rows(tenant)
    assert row.truncated


async def test_fields_that_nobody_knows_are_ignored_and_null_is_absent(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    absent: dict[str, Any] = dict.fromkeys(
        ("conversazione", "extra", "documenti", "modo", "contenuti", "stream")
    )
    told.answer(await gateway.ask(tenant, altro={"x": [1]}, extra_futuro=True, **absent))
    told.answer(await gateway.ask(tenant, modo="subito", stream=False, extra={"mai_visto": 1}, documenti=[]))


async def test_one_hundred_thousand_characters_pass_and_one_more_does_not(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    told.answer(await gateway.ask(tenant, "🌶" * 100_000))
    message = told.error(await gateway.ask(tenant, "è" * 100_001), 413, "contenuto_troppo_grande")
    assert "contenuto" in message
    assert len(gateway.fakes.claude.seen) == 1


async def test_the_content_type_is_not_enforced_and_bodies_may_come_in_chunks(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    body = json.dumps({"progetto": tenant.name, "encode": "libero", "contenuto": "Sì?"}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for byte in body:
            yield bytes([byte])

    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = gateway.headers(tenant) | {"content-type": kind}
        told.answer(await gateway.client.post("/api.php", content=body, headers=headers))
    told.answer(await gateway.client.post("/api.php", content=chunks(), headers=gateway.headers(tenant)))


async def test_a_recipe_takes_its_extras(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    told.answer(await gateway.ask(tenant, encode="riassumi", extra={"lingua": "en"}))
    assert '"en"' in json.dumps(gateway.fakes.claude.seen[0].body["system"], ensure_ascii=False).replace(
        "\\", ""
    )
    message = told.error(
        await gateway.ask(tenant, encode="riassumi", extra={"lingua": 7}), 400, "richiesta_non_valida"
    )
    assert "lingua" in message


async def test_what_pepper_can_do(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=77, cap=5.0, allow=[Permission.DOCUMENTS])
    found = await gateway.capabilities(tenant)
    names = "ok progetto versione novita pepper ricette puo conoscenza limiti spesa modelli"
    assert list(found) == names.split()
    assert [recipe["nome"] for recipe in found["ricette"]] != []
    assert {"riassumi", "correggi", "estrai", "classifica", "libero"} <= {
        recipe["nome"] for recipe in found["ricette"]
    }
    assert found["puo"]["conversazioni"] is found["puo"]["streaming"] is True
    assert found["conoscenza"] is None
    assert found["limiti"]["chiamate_ora"] == 77
    assert found["limiti"]["contenuto_caratteri"] == 100_000
    assert found["spesa"] == {"oggi_usd": 0, "tetto_usd": 5, "residuo_usd": 5}
    assert found["modelli"] == {
        "provider": "claude",
        "principale": "claude-opus-5",
        "economico": "claude-haiku-4-5",
    }
    free = await gateway.desk.project()
    spending = (await gateway.capabilities(free))["spesa"]
    assert spending == {"oggi_usd": 0, "tetto_usd": None, "residuo_usd": None}


async def test_asking_for_capabilities_does_not_count_as_a_call(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=1)
    for _ in range(5):
        await gateway.capabilities(tenant)
    told.answer(await gateway.ask(tenant))
    await gateway.capabilities(tenant)
