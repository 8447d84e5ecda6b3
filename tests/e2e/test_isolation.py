"""Two projects try everything on each other: what is foreign answers like what never was, byte for byte."""

from __future__ import annotations

import asyncio
import re

import httpx

from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.fakes import say

RANDOM_ID = "cnv_" + "q7" * 8


def comparable(response: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """A reply without what differs from one reply to the next."""
    headers = [
        (name, value) for name, value in response.headers.items() if name not in {"x-request-id", "date"}
    ]
    return response.status_code, headers, re.sub(rb"req_[0-9a-f]+", b"", response.content)


async def open_conversation(gateway: Gateway, tenant: Tenant, content: str = "Mi chiamo Rossi.") -> str:
    found = told.answer(await gateway.ask(tenant, content, conversazione="nuova"))["conversazione"]
    assert isinstance(found, str)
    return found


async def test_a_foreign_conversation_answers_like_none(gateway: Gateway) -> None:
    anna, bruno = await gateway.desk.project(), await gateway.desk.project()
    conversation = await open_conversation(gateway, anna)
    for fields in ({}, {"encode": "riassumi"}, {"extra": {"x": 1}}, {"stream": True}):
        foreign = await gateway.ask(bruno, conversazione=conversation, **fields)
        random = await gateway.ask(bruno, conversazione=RANDOM_ID, **fields)
        told.error(foreign, 404, "conversazione_sconosciuta")
        assert comparable(foreign) == comparable(random)
    assert await gateway.desk.rows(bruno) == []
    assert await gateway.desk.pairs(bruno, conversation) is None
    pairs = await gateway.desk.pairs(anna, conversation)
    assert pairs is not None
    assert len(pairs) == 1


async def test_ids_are_taken_to_the_letter(gateway: Gateway) -> None:
    """Also where a database would compare without case or trailing blanks."""
    anna = await gateway.desk.project()
    conversation = await open_conversation(gateway, anna)
    variants = [
        conversation.upper(),
        conversation + " ",
        " " + conversation,
        conversation[:-1],
        conversation + "0",
        conversation.replace("cnv_", ""),
        "%",
        "cnv_" + "_" * 16,
        "cnv_%",
        "",
        "Nuova",
        "nuova ",
        conversation[:-1] + "\u00e8",
        "cnv_" + "a" * 5_000,
    ]
    replies = {
        comparable(await gateway.ask(anna, conversazione=one))[2] for one in variants if one != conversation
    }
    assert len(replies) == 1
    told.answer(await gateway.ask(anna, conversazione=conversation))


async def test_a_key_speaks_for_its_project_alone(gateway: Gateway) -> None:
    anna, bruno = await gateway.desk.project(), await gateway.desk.project()
    crossed = Tenant(bruno.name, anna.key)
    foreign = await gateway.ask(crossed)
    random = await gateway.ask(Tenant("mai-esistito", anna.key))
    told.error(foreign, 401, "non_autorizzato")
    assert comparable(foreign) == comparable(random)
    body = {"progetto": bruno.name}
    one = await gateway.client.post("/capacita.php", json=body, headers=gateway.headers(anna))
    other = await gateway.client.post(
        "/capacita.php", json={"progetto": "mai"}, headers=gateway.headers(anna)
    )
    told.error(one, 401, "non_autorizzato")
    assert comparable(one) == comparable(other)


async def test_the_same_idempotency_key_of_two_projects_is_two_keys(gateway: Gateway) -> None:
    anna, bruno = await gateway.desk.project(), await gateway.desk.project()
    gateway.fakes.claude.script(say("Per Anna."), say("Per Bruno."))
    first = told.answer(await gateway.ask(anna, key="pratica-1"))
    second = told.answer(await gateway.ask(bruno, key="pratica-1"))
    assert (first["risposta"], second["risposta"]) == ("Per Anna.", "Per Bruno.")
    told.answer(await gateway.ask(bruno, key="pratica-1"))
    told.error(await gateway.ask(bruno, "Altro.", key="pratica-1"), 400, "richiesta_non_valida")
    assert len(gateway.fakes.claude.seen) == 2


async def test_the_cache_is_each_ones_own(gateway: Gateway) -> None:
    anna, bruno = await gateway.desk.project(), await gateway.desk.project()
    gateway.fakes.claude.script(say("Per Anna."), say("Per Bruno."))
    first = told.answer(await gateway.ask(anna, encode="riassumi"))
    second = told.answer(await gateway.ask(bruno, encode="riassumi"))
    assert (first["risposta"], second["risposta"]) == ("Per Anna.", "Per Bruno.")
    assert "cache" not in second["meta"]


async def test_one_ones_limits_and_spending_are_nobody_elses(gateway: Gateway) -> None:
    anna, bruno = await gateway.desk.project(per_hour=1), await gateway.desk.project(per_hour=1, cap=1.0)
    told.answer(await gateway.ask(anna))
    told.error(await gateway.ask(anna), 429, "troppe_richieste")
    told.answer(await gateway.ask(bruno))
    assert (await gateway.capabilities(anna))["spesa"]["tetto_usd"] is None
    assert (await gateway.capabilities(bruno))["spesa"]["tetto_usd"] == 1


async def test_under_load_nobody_gets_anothers_answer(gateway: Gateway) -> None:
    gateway.fakes.claude.default = lambda seen: say(
        f"Eco: {seen.body['messages'][-1]['content']}", pieces=4, delay=0.01
    )
    tenants = [await gateway.desk.project() for _ in range(4)]

    async def talk(tenant: Tenant, number: int) -> None:
        word = f"parola-{tenant.name}-{number}"
        if number % 2:
            async with gateway.stream(tenant, word) as stream:
                body = await stream.told()
        else:
            body = told.answer(await gateway.ask(tenant, word, key=f"chiave-{number}"))
        assert word in body["risposta"]
        assert body["meta"]["progetto"] == tenant.name

    await asyncio.gather(*(talk(tenant, number) for tenant in tenants for number in range(16)))
