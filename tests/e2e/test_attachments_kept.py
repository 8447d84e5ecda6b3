"""What calls with attachments leave behind: conversations, repeats, the ledger, the budget; and no cached answer."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.desk import held_in_gate
from tests.e2e.enclosed import linked, pdf, photo
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually
from tests.fakes import answer, cite, say, text, until

BOTH = (Permission.DOCUMENTS, Permission.IMAGES)
NAMES = "\n\n[Allegati: verbale.pdf, foto.png]"


def messages_of(gateway: Gateway) -> list[tuple[str, list[dict[str, Any]]]]:
    """Roles and blocks that were sent last."""
    found = []
    for message in gateway.fakes.claude.seen[-1].body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.append((message["role"], [{n: b[n] for n in b if n != "cache_control"} for b in blocks]))
    return found


async def test_a_conversation_keeps_texts_and_names_alone(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    files = [pdf(), photo()]
    gateway.fakes.claude.script(answer(text("Del tetto.", citations=[cite("tetto", pages=(1, 2))])))
    first = told.answer(await gateway.ask(tenant, "Di che parla?", conversazione="nuova", documenti=files))
    conversation = first["conversazione"]
    assert len(first["meta"]["citazioni"]) == 1
    assert await gateway.desk.pairs(tenant, conversation) == [(f"Di che parla?{NAMES}", "Del tetto.")]

    gateway.fakes.claude.script(say("Altro no."))
    second = told.answer(await gateway.ask(tenant, "E poi?", conversazione=conversation))
    assert messages_of(gateway) == [
        ("user", [{"type": "text", "text": f"Di che parla?{NAMES}"}]),
        ("assistant", [{"type": "text", "text": "Del tetto."}]),
        ("user", [{"type": "text", "text": "E poi?"}]),
    ]
    assert not {"citazioni", "documenti_pagine"} & set(second["meta"])

    # Files of a later turn go with that turn, and the question is sent as it was asked.
    async with gateway.stream(tenant, "E qui?", conversazione=conversation, documenti=files) as stream:
        third = await stream.told()
    assert third["meta"]["documenti_pagine"] == 1
    *_, (role, blocks) = messages_of(gateway)
    assert (role, [block["type"] for block in blocks]) == ("user", ["document", "image", "text"])
    assert blocks[-1]["text"] == "E qui?"
    pairs = await gateway.desk.pairs(tenant, conversation)
    assert pairs is not None
    assert [question for question, _ in pairs] == [f"Di che parla?{NAMES}", "E poi?", f"E qui?{NAMES}"]


async def test_a_repeat_reads_nothing_again(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH, per_hour=2)
    gateway.fakes.claude.default = answer(
        text("Ecco.", citations=[cite("«perché» 12 €", pages=(2, 3))]), first_delay=0.3
    )
    fields: dict[str, Any] = {"documenti": [pdf(pages=2), photo()], "conversazione": "nuova"}
    replies = await asyncio.gather(*(gateway.ask(tenant, key="k", **fields) for _ in range(4)))
    bodies = [told.answer(reply) for reply in replies]
    assert sum("idempotente" not in body["meta"] for body in bodies) == 1
    for body in bodies:
        body["meta"].pop("idempotente", None)
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["meta"]["documenti_pagine"] == 2
    assert bodies[0]["meta"]["citazioni"] == [
        {"fonte": "documento", "documento": "verbale.pdf", "pagina": 2, "testo": "«perché» 12 €"}
    ]
    async with gateway.stream(tenant, key="k", **fields) as stream:
        streamed = await stream.told()
    assert streamed["meta"].pop("idempotente") is True
    assert streamed == bodies[0]
    assert len(gateway.fakes.claude.seen) == 1
    # Another file, another name, the same files in another order: another request.
    for files in ([pdf(pages=3), photo()], [pdf("altro.pdf", pages=2), photo()], [photo(), pdf(pages=2)], []):
        response = await gateway.ask(tenant, key="k", conversazione="nuova", documenti=files)
        assert "Idempotency-Key" in told.error(response, 400, "richiesta_non_valida")
    [row] = await gateway.desk.rows(tenant)
    assert row.request_id == bodies[0]["meta"]["richiesta"]


@pytest.mark.parametrize(
    "file", [pdf(), photo(), linked("https://example.com/a.pdf")], ids=["pdf", "photo", "url"]
)
async def test_nothing_with_attachments_is_cached(gateway: Gateway, file: dict[str, Any]) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    for _ in range(2):
        body = told.answer(await gateway.ask(tenant, encode="riassumi", documenti=[file]))
        assert "cache" not in body["meta"]
    # Nor is the answer to the text alone given for a text with a file, or the other way round.
    for expected in (None, True):
        body = told.answer(await gateway.ask(tenant, encode="riassumi"))
        assert body["meta"].get("cache") is expected
    body = told.answer(await gateway.ask(tenant, encode="riassumi", documenti=[file]))
    assert "cache" not in body["meta"]
    assert len(gateway.fakes.claude.seen) == 4


async def test_pages_are_paid_as_the_provider_counts_them(gateway: Gateway) -> None:
    tenant, brain = await gateway.tenant_of_its_own(usd=(5.0, 25.0), allow=BOTH, cap=100.0)
    gateway.fakes.claude.script(say("Ecco.", input_tokens=24_000, output_tokens=100))
    body = told.answer(await gateway.ask(tenant, documenti=[pdf(pages=12)]))
    row = await gateway.desk.row(tenant, body["meta"]["richiesta"])
    assert row is not None
    assert (row.outcome, row.model, row.cost) == (Outcome.OK, brain.principal, 24_000 * 5 + 100 * 25)
    assert (row.usage.input_tokens, row.usage.output_tokens) == (24_000, 100)
    found = (await gateway.capabilities(tenant))["spesa"]
    assert found == {"oggi_usd": 0.1225, "tetto_usd": 100, "residuo_usd": 99.8775}
    written = json.dumps(gateway.log())
    assert "verbale.pdf" not in written
    assert "JVBERi" not in written


async def test_a_refused_file_leaves_nothing(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=BOTH, per_hour=1, cap=1.0)
    conversations = await gateway.desk.conversation_count(tenant)
    for files in ([pdf()] * 6, [pdf(pages=601)], [photo(data=b"x")]):
        response = await gateway.ask(tenant, documenti=files, conversazione="nuova", key="k")
        assert response.status_code in {400, 413}
    assert await gateway.desk.rows(tenant) == []
    assert await gateway.desk.conversation_count(tenant) == conversations
    assert held_in_gate(tenant, gateway.data, gateway.stores.environment.get("PEPPER_REDIS_URL")) == 0
    # Neither the hour nor the key is used up.
    told.answer(await gateway.ask(tenant, key="k"))


@pytest.mark.parametrize(
    "files", [[pdf(pages=60), pdf(pages=60)], [linked("https://example.com/a.pdf")]], ids=["pages", "unknown"]
)
async def test_pages_are_reserved_before_they_are_paid(gateway: Gateway, files: list[dict[str, Any]]) -> None:
    """120 pages may cost 1.80 USD: more than the cap, so the call comes in alone and another waits for its end."""
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 1.0), allow=BOTH, cap=1.50)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=1_000, output_tokens=10, first_delay=0.5)
    replies = await asyncio.gather(*(gateway.ask(tenant, f"Domanda {n}") for n in range(2)))
    assert [reply.status_code for reply in replies] == [200, 200]
    assert gateway.fakes.claude.peak == 2, "texts alone have room beside each other"

    gateway.fakes.claude.reset()
    gateway.fakes.claude.default = say("Ecco.", input_tokens=320_000, output_tokens=10, first_delay=1.0)
    reading = asyncio.ensure_future(gateway.ask(tenant, documenti=files))
    await until(lambda: gateway.fakes.claude.seen, 5)
    waiting = asyncio.ensure_future(gateway.ask(tenant, "Domanda"))
    told.answer(await reading)
    # What it really cost is more than the cap: nobody else comes in, and the day ends one call's cost beyond it.
    told.error(await waiting, 429, "budget_esaurito")
    told.error(await gateway.ask(tenant, documenti=files), 429, "budget_esaurito")
    told.error(await gateway.ask(tenant, "Domanda"), 429, "budget_esaurito")
    assert len(gateway.fakes.claude.seen) == 1
    assert await gateway.desk.spent(tenant) == 2 * (1_000 * 5 + 10) + 320_000 * 5 + 10


async def test_who_reads_waits_for_room_like_everybody(gateway: Gateway) -> None:
    """A text is in flight: a file too dear to stand beside it comes in when it is over."""
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 1.0), allow=BOTH, cap=1.50)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=1_000, output_tokens=10, first_delay=1.0)
    first = asyncio.ensure_future(gateway.ask(tenant, "Domanda"))
    await until(lambda: gateway.fakes.claude.seen, 5)
    began = time.monotonic()
    told.answer(await gateway.ask(tenant, documenti=[pdf(pages=120)]))
    assert time.monotonic() - began > 1.5
    told.answer(await first)
    assert gateway.fakes.claude.peak == 1


async def test_a_reader_who_leaves_pays_what_was_read(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 1.0), allow=BOTH)
    gateway.fakes.claude.script(say("parola " * 100, pieces=100, delay=0.2, input_tokens=30_000))
    async with gateway.stream(tenant, conversazione="nuova", documenti=[pdf(pages=12), photo()]) as stream:
        async for _ in stream.events():
            break

    async def interrupted() -> Any:
        return [row for row in await gateway.desk.rows(tenant) if row.outcome is Outcome.INTERRUPTED]

    [row] = await eventually(interrupted, 5)
    assert 150_000 <= row.cost < 150_000 + 300
