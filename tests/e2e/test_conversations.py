"""Calls with memory: opened, continued, alone and all at once, and always in whole pairs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e import told
from tests.e2e.harness import Gateway
from tests.fakes import Seen, refuse, say, status


def turns_of(seen: Seen) -> list[tuple[str, str]]:
    """The messages that were sent, as role and text."""
    found = []
    for message in seen.body["messages"]:
        content = message["content"]
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        found.append((message["role"], text))
    return found


async def test_what_was_said_is_remembered(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.script(say("Piacere, Rossi."), say("Si chiama Rossi."))
    first = told.answer(await gateway.ask(tenant, "Mi chiamo Rossi.", conversazione="nuova"))
    conversation = first["conversazione"]
    assert told.CONVERSATION.fullmatch(conversation)
    second = told.answer(await gateway.ask(tenant, "Come mi chiamo?", conversazione=conversation))
    assert second["conversazione"] == conversation
    assert turns_of(gateway.fakes.claude.seen[1]) == [
        ("user", "Mi chiamo Rossi."),
        ("assistant", "Piacere, Rossi."),
        ("user", "Come mi chiamo?"),
    ]
    assert await gateway.desk.pairs(tenant, conversation) == [
        ("Mi chiamo Rossi.", "Piacere, Rossi."),
        ("Come mi chiamo?", "Si chiama Rossi."),
    ]


async def test_other_recipes_models_and_manners_continue_it(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    gateway.fakes.claude.script(say("Uno."), say("Due."), say("Tre."))
    conversation = told.answer(await gateway.ask(tenant, "1", conversazione="nuova"))["conversazione"]
    told.answer(await gateway.ask(tenant, "2", encode="correggi", conversazione=conversation))
    async with gateway.stream(tenant, "3", conversazione=conversation) as stream:
        assert (await stream.told())["conversazione"] == conversation
    assert await gateway.desk.pairs(tenant, conversation) == [("1", "Uno."), ("2", "Due."), ("3", "Tre.")]


async def test_every_new_one_is_another(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    replies = await asyncio.gather(*(gateway.ask(tenant, conversazione="nuova") for _ in range(20)))
    assert len({told.answer(reply)["conversazione"] for reply in replies}) == 20


async def test_a_failed_turn_leaves_no_trace(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    conversation = told.answer(await gateway.ask(tenant, "1", conversazione="nuova"))["conversazione"]
    gateway.fakes.claude.script(status(400), refuse("Non"), status(401))
    told.error(await gateway.ask(tenant, "2", conversazione=conversation), 502, "errore_ai")
    told.error(await gateway.ask(tenant, "2", conversazione=conversation), 422, "richiesta_rifiutata")
    before = await gateway.desk.conversation_count(tenant)
    told.error(await gateway.ask(tenant, "2", conversazione="nuova"), 502, "errore_ai")
    assert await gateway.desk.conversation_count(tenant) == before
    assert await gateway.desk.pairs(tenant, conversation) == [("1", "Va bene, è fatto.")]


async def test_turns_at_once_interleave_as_whole_pairs(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    conversation = told.answer(await gateway.ask(tenant, "inizio", conversazione="nuova"))["conversazione"]
    gateway.fakes.claude.default = lambda seen: say(f"risposta a {turns_of(seen)[-1][1]}", first_delay=0.05)

    async def turn(number: int) -> None:
        content = f"domanda {number}"
        if number % 3:
            told.answer(await gateway.ask(tenant, content, conversazione=conversation))
            return
        async with gateway.stream(tenant, content, conversazione=conversation) as stream:
            await stream.told()

    await asyncio.gather(*(turn(number) for number in range(30)))
    pairs = await gateway.desk.pairs(tenant, conversation)
    assert pairs is not None
    assert len(pairs) == 31
    assert sorted(question for question, _ in pairs[1:]) == sorted(f"domanda {n}" for n in range(30))
    assert all(answer == f"risposta a {question}" for question, answer in pairs[1:])
    for seen in gateway.fakes.claude.seen:
        roles = [role for role, _ in turns_of(seen)]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


async def test_a_long_conversation_is_never_an_error(gateway: Gateway) -> None:
    """What is sent are the newest whole pairs that fit; the oldest fall away."""
    tenant = await gateway.desk.project()
    conversation = told.answer(await gateway.ask(tenant, "prima", conversazione="nuova"))["conversazione"]
    for number in range(5):
        text = f"{number} " + "è" * 90_000
        told.answer(await gateway.ask(tenant, text, conversazione=conversation))
    last = turns_of(gateway.fakes.claude.seen[-1])
    assert [role for role, _ in last] == ["user", "assistant"] * (len(last) // 2) + ["user"]
    assert last[-1][1].startswith("4 ")
    assert "prima" not in [text for _, text in last]
    assert len(last) > 3
    pairs = await gateway.desk.pairs(tenant, conversation)
    assert pairs is not None
    assert len(pairs) == 6


async def test_half_a_year_untouched_and_it_is_gone(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    now = datetime.now(UTC)
    try:
        gateway.set_clock(now)
        conversation = told.answer(await gateway.ask(tenant, "1", conversazione="nuova"))["conversazione"]
        gateway.set_clock(now + timedelta(days=179))
        told.answer(await gateway.ask(tenant, "2", conversazione=conversation))
        gateway.set_clock(now + timedelta(days=179 + 179))
        told.answer(await gateway.ask(tenant, "3", conversazione=conversation))
        gateway.set_clock(now + timedelta(days=179 + 179 + 181))
        response = await gateway.ask(tenant, "4", conversazione=conversation)
        told.error(response, 404, "conversazione_sconosciuta")
    finally:
        gateway.free_clock()


async def test_any_text_survives(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    texts = [
        "🌶️ perché? «così»",
        "a\u0000b",
        "\r\n\t",
        "x" * 99_999 + "é",
        "'; DROP TABLE pairs; --",
        "\U0010ffff",
    ]
    for text in texts:
        if not text.strip():
            continue
        gateway.fakes.claude.script(say(f"Eco {text[:200]}"))
        body = told.answer(await gateway.ask(tenant, text, conversazione="nuova"))
        pairs: Any = await gateway.desk.pairs(tenant, body["conversazione"])
        assert pairs == [(text, f"Eco {text[:200]}")]
