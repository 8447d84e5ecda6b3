"""Providers that fail: attempts, waiting, the next choice, circuits, and what the caller gets to know of it.

Every test has a brain whose models nobody else uses, so that no test sees another's circuits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.catalog import Brain, BrainFallback, ModelFallback
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.fakes import (
    Behaviour,
    FakeServer,
    Seen,
    cut_after,
    drop,
    empty,
    error_event,
    html,
    huge_error,
    quiet_end,
    redirect,
    refuse,
    say,
    status,
    wrong_shape,
)


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


def fake_of(gateway: Gateway, provider: str) -> FakeServer:
    return gateway.fakes.claude if provider == "claude" else gateway.fakes.openai


def by_model(replies: dict[str, Behaviour]) -> Callable[[Seen], Behaviour]:
    return lambda seen: replies[seen.body["model"]]


async def with_reserve(gateway: Gateway, model: str = "claude-reserve") -> tuple[Tenant, Brain]:
    gateway.teach("claude", model)
    await gateway.desk.price(model, 1.0, 5.0)
    return await gateway.tenant_of_its_own(fallback=ModelFallback(model))


@pytest.mark.parametrize("provider", ["claude", "openai"])
async def test_what_passes_is_tried_again(gateway: Gateway, provider: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake_of(gateway, provider).script(status(529 if provider == "claude" else 503), status(500), say("Ecco."))
    body = told.answer(await gateway.ask(tenant))
    assert (body["risposta"], body["meta"]["tentativi"]) == ("Ecco.", 3)
    assert "ripiego" not in body["meta"]
    [row] = await gateway.desk.rows(tenant)
    assert [attempt.outcome for attempt in row.attempts] == ["sovraccarico", "guasto", "ok"]


BAD_MANNERS: list[tuple[str, Behaviour]] = [
    ("429", status(429)),
    ("reset", drop()),
    ("html", html()),
    ("html 502", html(502)),
    ("empty", empty()),
    ("wrong shape", wrong_shape()),
    ("half a JSON", quiet_end(1)),
    ("cut", cut_after(1)),
    ("error", error_event()),
    ("huge error", huge_error(5_000_000)),
    ("no body", status(200, body=b"")),
]


@pytest.mark.parametrize("provider", ["claude", "openai"])
async def test_no_answer_is_no_answer_whatever_it_looks_like(gateway: Gateway, provider: str) -> None:
    tenant, brain = await gateway.tenant_of_its_own(provider=provider)
    for name, behaviour in BAD_MANNERS:
        fake_of(gateway, provider).script(behaviour, say("Ecco."))
        body = told.answer(await gateway.ask(tenant))
        assert (body["risposta"], body["meta"]["tentativi"]) == ("Ecco.", 2), name
        assert body["meta"]["modello"] == brain.principal


async def test_the_reserve_answers_when_the_first_choice_cannot(gateway: Gateway) -> None:
    tenant, brain = await with_reserve(gateway)
    gateway.fakes.claude.default = by_model({brain.principal: status(503), "claude-reserve": say("Riserva.")})
    body = told.answer(await gateway.ask(tenant))
    assert body["risposta"] == "Riserva."
    assert body["meta"]["ripiego"] == "modello:claude-reserve"
    assert body["meta"]["modello"] == "claude-reserve"
    assert body["meta"]["tentativi"] == 4
    [row] = await gateway.desk.rows(tenant)
    assert row.fallback == "model:claude-reserve"
    assert [attempt.model for attempt in row.attempts] == [brain.principal] * 3 + ["claude-reserve"]


async def test_another_brain_of_another_provider_answers(gateway: Gateway) -> None:
    tenant, brain = await gateway.tenant_of_its_own(fallback=BrainFallback("Pepper 6 · OpenAI"))
    gateway.fakes.claude.default = status(401)
    gateway.fakes.openai.script(say("Dall'altro."))
    body = told.answer(await gateway.ask(tenant))
    assert body["risposta"] == "Dall'altro."
    assert body["meta"]["ripiego"] == "pepper:Pepper 6 · OpenAI"
    assert (body["meta"]["provider"], body["meta"]["modello"]) == ("openai", "gpt-5.5")
    assert body["meta"]["versione"] == "Pepper 6 · OpenAI"
    assert len(gateway.fakes.claude.seen) == 1, brain


@pytest.mark.parametrize("code", [400, 401, 403, 404])
async def test_our_own_fault_is_not_repeated_but_the_reserve_is_asked(gateway: Gateway, code: int) -> None:
    tenant, brain = await with_reserve(gateway)
    secret = "sk-ant-SEGRETO richiesta dell'utente"
    gateway.fakes.claude.default = status(code, message=secret)
    response = await gateway.ask(tenant)
    told.error(response, 502, "errore_ai")
    assert "SEGRETO" not in response.text
    assert [seen.body["model"] for seen in gateway.fakes.claude.seen] == [brain.principal, "claude-reserve"]
    assert "SEGRETO" not in gateway.log()
    assert f"status {code}" in gateway.log()


async def test_nobody_there_is_503(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.default = status(529, retry_after=60)
    response = await gateway.ask(tenant)
    told.error(response, 503, "ai_non_disponibile")
    assert response.headers["retry-after"] == "60"
    assert len(gateway.fakes.claude.seen) == 1
    [row] = await gateway.desk.rows(tenant)
    assert (row.outcome, row.fault, row.cost) == (Outcome.FAILED, "ai_non_disponibile", 0)


async def test_a_provider_that_is_down_is_503_and_back_when_it_is(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.stop()
    try:
        told.error(await gateway.ask(tenant), 503, "ai_non_disponibile")
    finally:
        gateway.fakes.claude.start()
    told.answer(await gateway.ask(tenant))


async def test_a_short_retry_after_is_honoured_and_a_long_one_is_not_waited_for(gateway: Gateway) -> None:
    tenant, brain = await with_reserve(gateway)
    gateway.fakes.claude.script(status(429, retry_after=3), say("Ecco."))
    told.answer(await gateway.ask(tenant))
    first, second = gateway.fakes.claude.seen
    assert second.at - first.at > 2.9
    gateway.fakes.claude.reset()
    gateway.fakes.claude.script(status(429, retry_after=21), say("Riserva."))
    began = time.monotonic()
    body = told.answer(await gateway.ask(tenant))
    assert time.monotonic() - began < 5
    assert body["meta"]["ripiego"] == "modello:claude-reserve"
    assert gateway.fakes.claude.seen[0].body["model"] == brain.principal


@pytest.mark.parametrize("code", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(gateway: Gateway, code: int) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.default = redirect(f"{gateway.fakes.openai.root}/v1/messages", code)
    response = await gateway.ask(tenant)
    assert response.status_code in {502, 503}
    assert gateway.fakes.openai.seen == []


async def test_a_refusal_is_the_answer_and_no_reserve_is_asked(gateway: Gateway) -> None:
    tenant, brain = await with_reserve(gateway)
    for behaviour in (refuse(), refuse("In parte")):
        gateway.fakes.claude.reset()
        gateway.fakes.claude.script(behaviour)
        message = told.error(await gateway.ask(tenant), 422, "richiesta_rifiutata")
        assert "In parte" not in message
        [seen] = gateway.fakes.claude.seen
        assert seen.body["model"] == brain.principal


@pytest.mark.parametrize("how", ["refusal", "filter"])
async def test_openai_refuses_in_two_ways(gateway: Gateway, how: str) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider="openai")
    gateway.fakes.openai.script(refuse("No", how=how))  # type: ignore[arg-type]
    told.error(await gateway.ask(tenant), 422, "richiesta_rifiutata")
    [row] = await gateway.desk.rows(tenant)
    assert row.cost > 0


async def test_a_dead_first_choice_soon_costs_nothing(gateway: Gateway) -> None:
    """Five calls (not attempts) open the circuit; afterwards the reserve answers at once."""
    tenant, brain = await with_reserve(gateway)
    gateway.fakes.claude.default = by_model(
        {brain.principal: status(529, retry_after=30), "claude-reserve": say("Riserva.")}
    )
    for _ in range(4):
        told.answer(await gateway.ask(tenant))
    gateway.fakes.claude.script(say("Di nuovo in piedi."))
    assert "ripiego" not in told.answer(await gateway.ask(tenant))["meta"]  # the row is broken
    for _ in range(5):
        told.answer(await gateway.ask(tenant))
    asked = len(gateway.fakes.claude.seen)
    bodies = [told.answer(one) for one in await asyncio.gather(*(gateway.ask(tenant) for _ in range(10)))]
    models = [seen.body["model"] for seen in gateway.fakes.claude.seen[asked:]]
    assert models == ["claude-reserve"] * 10
    assert all(body["meta"]["ripiego"] == "modello:claude-reserve" for body in bodies)
    assert all("tentativi" not in body["meta"] for body in bodies)


async def test_bad_requests_open_no_circuit(gateway: Gateway) -> None:
    tenant, brain = await with_reserve(gateway)
    gateway.fakes.claude.default = by_model({brain.principal: status(400), "claude-reserve": say("Riserva.")})
    for _ in range(7):
        told.answer(await gateway.ask(tenant))
    assert [seen.body["model"] for seen in gateway.fakes.claude.seen].count(brain.principal) == 7


async def test_an_attempt_that_was_billed_is_paid_though_another_answered(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(1.0, 1.0))
    gateway.fakes.claude.script(empty(output_tokens=5_000), say("Ecco.", input_tokens=100, output_tokens=100))
    told.answer(await gateway.ask(tenant))
    [row] = await gateway.desk.rows(tenant)
    first, second = row.attempts
    assert first.cost >= 5_000
    assert second.cost == 200
    assert row.cost == first.cost + second.cost == await gateway.desk.spent(tenant)


async def test_a_model_without_a_price_is_not_used(gateway: Gateway) -> None:
    gateway.teach("claude", "claude-unpriced-xyz")
    tenant, brain = await gateway.tenant_of_its_own(fallback=ModelFallback("claude-unpriced-xyz"))
    told.error(await gateway.ask(tenant), 502, "errore_ai")
    assert gateway.fakes.claude.seen == []
    assert "pepper price set" in gateway.log(), brain
