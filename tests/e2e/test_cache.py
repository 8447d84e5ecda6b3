"""Answers that were given before: who gets them again, what they cost, and what makes them void."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.catalog import ModelFallback
from gateway.storage.changes import BrainChanges, ProjectChanges
from tests.e2e import told
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.waiting import eventually
from tests.fakes import refuse, say, status, truncate


async def cached(gateway: Gateway, tenant: Tenant, content: str = "Un testo.", **fields: Any) -> bool:
    body = told.answer(await gateway.ask(tenant, content, **({"encode": "riassumi"} | fields)))
    assert body["meta"].get("cache") in {True, None}
    return "cache" in body["meta"]


async def test_the_same_again_is_not_paid_again(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(cap=1_000.0, per_hour=3)
    gateway.fakes.claude.script(say("Breve.", input_tokens=100_000))
    first = told.answer(await gateway.ask(tenant, encode="riassumi"))
    second = told.answer(await gateway.ask(tenant, encode="riassumi"))
    assert second["risposta"] == first["risposta"] == "Breve."
    assert second["meta"]["cache"] is True
    assert "cache" not in first["meta"]
    assert second["meta"]["richiesta"] != first["meta"]["richiesta"]
    assert {n: second["meta"][n] for n in ("provider", "modello", "versione", "encode")} == {
        n: first["meta"][n] for n in ("provider", "modello", "versione", "encode")
    }
    paid, free = await gateway.desk.rows(tenant)
    assert (free.outcome, free.cost) == (Outcome.CACHE, 0)
    assert await gateway.desk.spent(tenant) == paid.cost
    assert len(gateway.fakes.claude.seen) == 1
    # A hit counts for the hour.
    assert await cached(gateway, tenant, "Ciao, come va?")
    told.error(await gateway.ask(tenant, encode="riassumi"), 429, "troppe_richieste")


async def test_a_hit_works_when_the_budget_is_gone(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(cap=0.01, usd=(0.0, 100.0))
    gateway.fakes.claude.script(say("Caro.", output_tokens=1_000))
    assert not await cached(gateway, tenant)
    told.error(await gateway.ask(tenant, "Altro.", encode="riassumi"), 429, "budget_esaurito")
    assert await cached(gateway, tenant)


@pytest.mark.parametrize(
    "fields",
    [
        {"encode": "libero"},
        {"extra": {"senza_cache": True}},
        {"conversazione": "nuova"},
        {"encode": "correggi", "extra": {"senza_cache": True}},
    ],
    ids=str,
)
async def test_what_is_never_cached(gateway: Gateway, fields: dict[str, Any]) -> None:
    tenant = await gateway.desk.project()
    assert not await cached(gateway, tenant, **fields)
    assert not await cached(gateway, tenant, **fields)


async def test_everything_that_decides_the_answer_belongs_to_the_key(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    different: list[dict[str, Any]] = [
        {},
        {"encode": "correggi"},
        {"extra": {"lingua": "en"}},
        {"extra": {"lingua": "fr"}},
        {"encode": "estrai"},
        {"encode": "estrai", "extra": {"campi": ["a", "b"]}},
        {"encode": "estrai", "extra": {"campi": ["b", "a"]}},
        {"encode": "classifica", "extra": {"categorie": ["a", "b"]}},
    ]
    for fields in different:
        assert not await cached(gateway, tenant, **fields), fields
    assert not await cached(gateway, tenant, "Un testo. ")
    for fields in different:
        assert await cached(gateway, tenant, **fields), fields
    # An extra that the recipe does not know changes nothing.
    assert await cached(gateway, tenant, extra={"mai_visto": 1})


async def test_bad_answers_are_not_kept(gateway: Gateway) -> None:
    gateway.teach("claude", "claude-cache-reserve")
    await gateway.desk.price("claude-cache-reserve", 1.0, 1.0)
    tenant, _ = await gateway.tenant_of_its_own(fallback=ModelFallback("claude-cache-reserve"))
    gateway.fakes.claude.script(truncate("Troncata"), status(404), say("Ripiego"), refuse())
    body = told.answer(await gateway.ask(tenant, encode="riassumi"))
    assert body["meta"]["troncata"] is True
    body = told.answer(await gateway.ask(tenant, encode="riassumi"))
    assert body["meta"]["ripiego"] == "modello:claude-cache-reserve"
    told.error(await gateway.ask(tenant, encode="riassumi"), 422, "richiesta_rifiutata")
    async with gateway.stream(tenant, encode="riassumi") as stream:
        assert "cache" not in (await stream.told())["meta"]


async def test_a_stream_and_a_whole_answer_share_the_cache(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.script(say("Uno due tre quattro.", pieces=4))
    async with gateway.stream(tenant, encode="riassumi") as stream:
        first = await stream.told()
    assert await cached(gateway, tenant, "Ciao, come va?")
    async with gateway.stream(tenant, encode="riassumi") as stream:
        events = await stream.all()
    assert [event.name for event in events] == ["delta", "done"]
    assert events[0].data["text"] == first["risposta"]
    assert events[1].data["meta"]["cache"] is True


async def test_a_variant_of_the_recipe_voids_what_was_cached(gateway: Gateway) -> None:
    tenant, other = await gateway.desk.project(), await gateway.desk.project()
    assert not await cached(gateway, tenant)
    assert not await cached(gateway, other)
    await gateway.desk.catalog.add_recipe_version(
        "riassumi", "Riassumi in una riga.", TESTER, datetime.now(UTC), project=tenant.name
    )

    async def fresh() -> bool:
        return not await cached(gateway, tenant)

    await eventually(fresh, CHANGE_SECONDS)
    assert "Riassumi in una riga." in str(gateway.fakes.claude.seen[-1].body["system"])
    assert await cached(gateway, tenant)
    assert await cached(gateway, other)
    await gateway.desk.catalog.withdraw_recipe("riassumi", TESTER, datetime.now(UTC), project=tenant.name)

    async def file_again() -> bool:
        await cached(gateway, tenant, "Altro testo.", extra={"senza_cache": True})
        return "Riassumi in una riga." not in str(gateway.fakes.claude.seen[-1].body["system"])

    await eventually(file_again, CHANGE_SECONDS)


async def test_another_brain_or_model_voids_what_was_cached(gateway: Gateway) -> None:
    tenant, brain = await gateway.tenant_of_its_own()
    assert not await cached(gateway, tenant)
    assert await cached(gateway, tenant)
    await gateway.desk.price("claude-next", 1.0, 1.0)
    gateway.teach("claude", "claude-next")
    now = datetime.now(UTC)
    await gateway.desk.catalog.set_brain(brain.name, BrainChanges(principal="claude-next"), TESTER, now)

    async def fresh() -> bool:
        return not await cached(gateway, tenant)

    await eventually(fresh, CHANGE_SECONDS)
    await gateway.desk.tenants.set_project(tenant.name, ProjectChanges(brain="Pepper 6"), TESTER, now)
    await eventually(fresh, CHANGE_SECONDS)


async def test_an_hour_later_it_is_forgotten(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    now = datetime.now(UTC)
    try:
        gateway.set_clock(now)
        assert not await cached(gateway, tenant)
        gateway.set_clock(now + timedelta(minutes=59, seconds=59))
        assert await cached(gateway, tenant)
        gateway.set_clock(now + timedelta(hours=1, seconds=1))
        assert not await cached(gateway, tenant)
    finally:
        gateway.free_clock()
