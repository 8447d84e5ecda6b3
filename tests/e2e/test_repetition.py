"""Repeating a request without paying twice: one key, one upstream call, one answer."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.domain.calls import Outcome
from tests.e2e import told
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually
from tests.fakes import refuse, say, status, until

WORKERS = 2


def without_mark(body: dict[str, Any]) -> dict[str, Any]:
    """An answer without what tells a repeat."""
    meta = {name: value for name, value in body["meta"].items() if name != "idempotente"}
    return {**body, "meta": meta}


async def test_twenty_callers_with_one_key_make_one_call(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(per_hour=1)
    gateway.fakes.claude.default = say("Una volta.", first_delay=0.5, input_tokens=10, output_tokens=10)
    replies = await asyncio.gather(
        *(gateway.ask(tenant, "Uguale.", key="pratica-7", conversazione="nuova") for _ in range(20))
    )
    bodies = [told.answer(reply) for reply in replies]
    assert len(gateway.fakes.claude.seen) == 1
    assert sorted("idempotente" in body["meta"] for body in bodies) == [False] + [True] * 19
    assert all(without_mark(body) == without_mark(bodies[0]) for body in bodies)
    assert len({reply.headers["x-request-id"] for reply in replies}) == 20
    [row] = await gateway.desk.rows(tenant)
    assert row.request_id == bodies[0]["meta"]["richiesta"]
    pairs = await gateway.desk.pairs(tenant, bodies[0]["conversazione"])
    assert pairs == [("Uguale.", "Una volta.")]


async def test_a_repeat_is_identical_but_for_the_mark(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=1)
    first = told.answer(await gateway.ask(tenant, key="a"))
    second = told.answer(await gateway.ask(tenant, key="a"))
    third = told.answer(await gateway.ask(tenant, key="a"))
    assert second["meta"]["idempotente"] is True
    assert without_mark(second) == first
    assert third == second
    # Without the key there is nothing left of the hour.
    told.error(await gateway.ask(tenant), 429, "troppe_richieste")


async def test_a_repeat_may_change_its_manner_of_delivery(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.script(say("uno due tre", pieces=3))
    async with gateway.stream(tenant, key="s", conversazione="nuova") as stream:
        first = await stream.told()
    whole = told.answer(await gateway.ask(tenant, key="s", conversazione="nuova"))
    assert without_mark(whole) == first
    async with gateway.stream(tenant, key="s", conversazione="nuova") as stream:
        again = await stream.told()
    assert again["meta"]["idempotente"] is True
    assert again["conversazione"] == first["conversazione"]
    assert len(gateway.fakes.claude.seen) == 1


async def test_a_key_belongs_to_one_request(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    first = told.answer(await gateway.ask(tenant, key="k"))
    for changed in (
        {"content": "Altro."},
        {"encode": "riassumi"},
        {"extra": {"a": 1}},
        {"conversazione": "nuova"},
    ):
        message = told.error(await gateway.ask(tenant, key="k", **changed), 400, "richiesta_non_valida")
        assert "Idempotency-Key" in message
    # null is absent, and what is not known is not looked at
    same = told.answer(await gateway.ask(tenant, key="k", extra=None, stream=False, altro=1))
    assert without_mark(same) == first


async def test_a_key_of_a_running_request_belongs_to_it_too(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.default = say("Ecco.", first_delay=1)
    running = asyncio.ensure_future(gateway.ask(tenant, key="k"))
    await until(lambda: gateway.fakes.claude.seen, 3)
    told.error(await gateway.ask(tenant, "Altro.", key="k"), 400, "richiesta_non_valida")
    told.answer(await running)


async def test_only_a_success_is_kept(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(status(400), refuse(), status(529, retry_after=30), say("Infine."))
    for code, word in (
        (502, "errore_ai"),
        (422, "richiesta_rifiutata"),
        (503, "ai_non_disponibile"),
    ):
        told.error(await gateway.ask(tenant, key="k"), code, word)
    body = told.answer(await gateway.ask(tenant, key="k"))
    assert "idempotente" not in body["meta"]
    assert told.answer(await gateway.ask(tenant, key="k"))["meta"]["idempotente"] is True


async def test_who_waits_for_a_failure_runs_by_himself_or_gets_it(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(status(400, first_delay=0.5))
    replies = await asyncio.gather(*(gateway.ask(tenant, key="k") for _ in range(5)))
    statuses = {reply.status_code for reply in replies}
    assert statuses <= {200, 502}
    succeeded = [reply for reply in replies if reply.status_code == 200]
    assert len({told.answer(reply)["meta"]["richiesta"] for reply in succeeded}) <= 1


async def test_a_caller_who_hung_up_finds_the_answer(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(say("Finita.", first_delay=1.5))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.7):
            await gateway.ask(tenant, key="k", conversazione="nuova")
    body = told.answer(await gateway.ask(tenant, key="k", conversazione="nuova"))  # waits for the first
    assert (body["risposta"], body["meta"]["idempotente"]) == ("Finita.", True)
    assert len(gateway.fakes.claude.seen) == 1
    [row] = await gateway.desk.rows(tenant)
    assert row.outcome is Outcome.OK


async def test_the_repeat_of_a_cut_stream_takes_the_place_of_its_pair(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    gateway.fakes.claude.script(say("parola " * 50, pieces=50, delay=0.2))
    async with gateway.stream(tenant, key="k", conversazione="nuova") as stream:
        async for _ in stream.events():
            break

    async def interrupted() -> bool:
        return any(row.outcome is Outcome.INTERRUPTED for row in await gateway.desk.rows(tenant))

    await eventually(interrupted, 3)
    gateway.fakes.claude.script(say("Intera."))
    body = told.answer(await gateway.ask(tenant, key="k", conversazione="nuova"))
    assert body["risposta"] == "Intera."
    assert "idempotente" not in body["meta"]
    pairs = await gateway.desk.pairs(tenant, body["conversazione"])
    assert pairs == [("Ciao, come va?", "Intera.")]
    conversations = await gateway.desk.conversation_count(tenant)
    assert conversations == 1, "the repeat opened another conversation"


async def test_an_hour_later_the_key_is_free(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    now = datetime.now(UTC)
    try:
        gateway.set_clock(now)
        first = told.answer(await gateway.ask(tenant, key="k"))
        gateway.set_clock(now + timedelta(minutes=59, seconds=58))
        assert without_mark(told.answer(await gateway.ask(tenant, key="k"))) == first
        gateway.set_clock(now + timedelta(hours=1, seconds=2))
        later = told.answer(await gateway.ask(tenant, "Altro.", key="k"))
        assert "idempotente" not in later["meta"]
    finally:
        gateway.free_clock()


async def test_a_key_is_ignored_where_it_means_nothing(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    told.error(await gateway.ask(tenant, key="k" * 256, modo="differito"), 403, "differito_non_abilitato")
    for key in ("k" * 255, "a key with blanks", "!~", "550e8400-e29b-41d4-a716-446655440000"):
        told.answer(await gateway.ask(tenant, key=key))


async def test_a_cached_answer_is_kept_under_the_key(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=2)
    told.answer(await gateway.ask(tenant, encode="riassumi"))
    first = told.answer(await gateway.ask(tenant, encode="riassumi", key="k"))
    assert first["meta"]["cache"] is True
    second = told.answer(await gateway.ask(tenant, encode="riassumi", key="k"))
    assert second["meta"]["idempotente"] is True
    assert without_mark(second) == first


async def test_a_repeat_is_quick(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.script(say("Lenta.", first_delay=2))
    told.answer(await gateway.ask(tenant, key="k"))
    began = time.monotonic()
    told.answer(await gateway.ask(tenant, key="k"))
    assert time.monotonic() - began < 1
