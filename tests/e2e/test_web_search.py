"""Searching the web over the wire: two permissions, one tool, its sources letter by letter, and what it costs."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from gateway.domain.calls import Outcome
from gateway.domain.catalog import BrainFallback
from gateway.domain.tenants import Permission
from gateway.storage.changes import SwitchChanges
from tests.e2e import told
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.enclosed import pdf
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.waiting import eventually
from tests.fakes import Answer, answer, cite, pause, say, search, status, text

INTERNET = Permission.INTERNET
SWITCHED_ON = ("libero", "riassumi", "estrai", "classifica")
"""Of the recipes; `correggi` may not search."""
OPENAI_BRAIN = "Pepper 6 · OpenAI"
LAW = ("https://www.normattiva.it/atto/3?a=1&b=«x»", "Decreto «3» 🌶️")
CITED = (
    '{"fonte":"web","url":"https://www.normattiva.it/atto/3?a=1&b=«x»",'
    '"titolo":"Decreto «3» 🌶️","testo":"l\'articolo 3 prevede che"}'
)


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
async def _switched(gateway: Gateway) -> None:
    """The recipes that may search, once for the module."""
    tenant = await gateway.desk.project()

    async def recipes() -> dict[str, bool]:
        return {one["nome"]: one["internet"] for one in (await gateway.capabilities(tenant))["ricette"]}

    missing = [name for name in SWITCHED_ON if not (await recipes())[name]]
    for name in missing:
        changes = SwitchChanges(internet=True)
        await gateway.desk.catalog.set_switches(name, changes, TESTER, datetime.now(UTC))

    async def known() -> bool:
        return {name for name, on in (await recipes()).items() if on} == set(SWITCHED_ON)

    await eventually(known, CHANGE_SECONDS)


def found_law(**fields: Any) -> Answer:
    cited = [cite("l'articolo 3 prevede che", url=LAW[0], title=LAW[1])]
    return answer(
        "Cerco. ",
        search("articolo «3»", [LAW]),
        search("altro", [LAW]),
        text("Ecco.", citations=cited),
        **fields,
    )


async def asked(
    gateway: Gateway, tenant: Tenant, *, stream: bool, **fields: Any
) -> tuple[dict[str, Any], str]:
    """An answer's body, and its bytes as text."""
    response = await gateway.ask(tenant, stream=stream, **fields)
    if not stream:
        return told.answer(response), response.text
    body = response.text.removesuffix("\n\n").rpartition("event: done\ndata: ")[2]
    told.check_answer(json.loads(body))
    return json.loads(body), body


def tools_of(gateway: Gateway) -> list[Any]:
    return [seen.body.get("tools") for seen in gateway.fakes.claude.seen]


async def test_both_permissions_are_needed(gateway: Gateway, *, stream: bool) -> None:
    may, may_not = [await gateway.desk.project(allow=allow) for allow in ((INTERNET,), ())]
    for tenant, recipe in ((may_not, "libero"), (may, "correggi"), (may_not, "correggi")):
        gateway.fakes.claude.reset()
        gateway.fakes.claude.script(found_law())  # the search is left out by whoever has no tool
        body, _ = await asked(gateway, tenant, stream=stream, encode=recipe)
        assert tools_of(gateway) == [None]
        assert not {"ricerche", "citazioni"} & set(body["meta"])
    gateway.fakes.claude.reset()
    gateway.fakes.claude.script(found_law())
    body, _ = await asked(gateway, may, stream=stream)
    assert body["meta"]["ricerche"] == 2
    [[tool]] = tools_of(gateway)
    assert tool["type"].startswith("web_search_")
    assert (tool["name"], tool["max_uses"]) == ("web_search", 3)
    assert "allowed_domains" not in tool
    assert tool["allowed_callers"] == ["direct"]


async def test_capabilities_tell_what_a_call_would_do(gateway: Gateway) -> None:
    domains = ("normattiva.it", "gazzettaufficiale.it")
    for brain, able in ((None, True), ("Pepper 7", True), (OPENAI_BRAIN, False)):
        for allow in ((), (INTERNET,)):
            tenant = await gateway.desk.project(allow=allow, brain=brain, domains=domains)
            told_ = await gateway.capabilities(tenant)
            assert told_["puo"]["internet"] is (able and bool(allow))
            assert told_["limiti"]["domini_internet"] == list(domains)
            gateway.fakes.claude.reset()
            told.answer(await gateway.ask(tenant))
            expected = [list(domains)] if told_["puo"]["internet"] else [None] * able
            assert [tools and tools[0]["allowed_domains"] for tools in tools_of(gateway)] == expected


async def test_sources_are_told_in_the_contracts_words(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET,))
    gateway.fakes.claude.script(found_law())
    body, written = await asked(gateway, tenant, stream=stream)
    assert body["risposta"] == "Cerco. Ecco."
    assert f'"citazioni":[{CITED}],"ricerche":2,"richiesta"' in written
    gateway.fakes.claude.script(say("Non serve."))
    body, _ = await asked(gateway, tenant, stream=stream)
    assert not {"ricerche", "citazioni"} & set(body["meta"])


async def test_pages_of_files_and_of_the_web_stand_side_by_side(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET, Permission.DOCUMENTS))
    cited = [cite("a pagina 2", pages=(2, 3)), cite("l'articolo 3 prevede che", url=LAW[0], title=LAW[1])]
    gateway.fakes.claude.script(answer(search("x", [LAW]), text("Ecco.", citations=cited)))
    _, written = await asked(gateway, tenant, stream=stream, documenti=[pdf(pages=2)])
    page = '{"fonte":"documento","documento":"verbale.pdf","pagina":2,"testo":"a pagina 2"}'
    assert f'"citazioni":[{page},{CITED}],"ricerche":1,"documenti_pagine":2' in written


async def test_each_search_costs_a_cent(gateway: Gateway, *, stream: bool) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 25.0), allow=(INTERNET,), cap=10.0)
    gateway.fakes.claude.script(found_law(input_tokens=30_000, output_tokens=100))
    await asked(gateway, tenant, stream=stream)
    [row] = await gateway.desk.rows(tenant)
    cost = 30_000 * 5 + 100 * 25 + 2 * 10_000
    assert (row.cost, row.usage.searches) == (cost, 2)
    spending = (await gateway.capabilities(tenant))["spesa"]
    assert spending == {"oggi_usd": 0.1725, "tetto_usd": 10, "residuo_usd": 9.8275}


async def test_the_lamp_goes_on_and_off(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET,))
    gateway.fakes.claude.script(found_law(delay=0.02))
    response = await gateway.ask(tenant, stream=True)
    events = [
        tuple(line.partition(": ")[2] for line in frame.split("\n"))
        for frame in response.text.removesuffix("\n\n").split("\n\n")
    ]
    lamp = [(name, json.loads(data)) for name, data in events if name not in {"delta", "done"}]
    first, second = lamp[0][1]["id"], lamp[2][1]["id"]
    assert first != second
    assert lamp == [
        ("tool_call", {"id": first, "nome": "ricerca_internet", "argomenti": {"query": "articolo «3»"}}),
        ("tool_done", {"id": first, "nome": "ricerca_internet"}),
        ("tool_call", {"id": second, "nome": "ricerca_internet", "argomenti": {"query": "altro"}}),
        ("tool_done", {"id": second, "nome": "ricerca_internet"}),
    ]
    assert [name for name, _ in events][-1] == "done"
    assert "".join(json.loads(data)["text"] for name, data in events if name == "delta") == "Cerco. Ecco."


async def test_a_pause_is_continued_and_all_of_it_is_paid(gateway: Gateway, *, stream: bool) -> None:
    tenant, _ = await gateway.tenant_of_its_own(usd=(5.0, 25.0), allow=(INTERNET,))
    gateway.fakes.claude.script(pause("Cerco. ", 2), pause("Ancora. ", 1), say("Infine."))
    body, _ = await asked(gateway, tenant, stream=stream)
    # The third search was the last one: what there is, is the answer.
    assert body["risposta"] == "Cerco. Ancora. "
    assert (body["meta"]["troncata"], body["meta"]["ricerche"]) == (True, 3)
    assert [tools[0]["max_uses"] for tools in tools_of(gateway)] == [3, 1]
    gateway.fakes.claude.reset()
    gateway.fakes.claude.script(pause("Cerco. ", 1), say("Infine.", input_tokens=1_000, output_tokens=10))
    body, _ = await asked(gateway, tenant, stream=stream, conversazione="nuova")
    assert body["risposta"] == "Cerco. Infine."
    assert body["meta"]["ricerche"] == 1
    assert not {"troncata", "tentativi"} & set(body["meta"])
    assert [tools[0]["max_uses"] for tools in tools_of(gateway)] == [3, 2]
    assert len((await gateway.desk.rows(tenant))[-1].attempts) == 1
    assert (await gateway.desk.rows(tenant))[-1].cost > 10_000 + 1_000 * 5 + 10 * 25
    # The sources stay behind: the next turn sends texts alone.
    told.answer(await gateway.ask(tenant, "E poi?", conversazione=body["conversazione"]))
    sent = gateway.fakes.claude.seen[-1].body["messages"]
    assert "web_search" not in json.dumps(sent)
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]


async def test_a_search_that_fails_is_no_error(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET,))
    for error in ("unavailable", "too_many_requests", "query_too_long"):
        gateway.fakes.claude.script(answer(search("x", error=error), "Non ho trovato niente."))
        body, _ = await asked(gateway, tenant, stream=stream)
        assert body["risposta"] == "Non ho trovato niente."
        assert body["meta"].get("citazioni") in (None, [])
    assert {row.outcome for row in await gateway.desk.rows(tenant)} == {Outcome.OK}


@pytest.mark.parametrize(
    ("recipe", "extra"),
    [("estrai", {"campi": ["Nome"]}), ("classifica", {"categorie": ["sì", "no"]})],
    ids=["fields", "categories"],
)
async def test_a_forced_shape_is_answered_without(
    gateway: Gateway, *, recipe: str, extra: dict[str, Any], stream: bool
) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET,))
    body, _ = await asked(gateway, tenant, stream=stream, encode=recipe, extra=extra)
    assert not {"ricerche", "citazioni", "citazioni_spente"} & set(body["meta"])
    await asked(gateway, tenant, stream=stream, encode=recipe)
    without, with_tool = tools_of(gateway)
    assert without is None
    assert with_tool[0]["max_uses"] == 3


async def test_openai_and_deferred_work_do_not_search(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET,), brain=OPENAI_BRAIN)
    body, _ = await asked(gateway, tenant, stream=stream)
    assert "ricerche" not in body["meta"]
    assert "tools" not in gateway.fakes.openai.seen[0].body
    deferring = await gateway.desk.project(allow=(INTERNET, Permission.DEFERRED))
    response = await gateway.ask(deferring, modo="differito")
    assert response.status_code == 202, response.text
    [request] = gateway.fakes.claude.seen[0].body["requests"]
    assert "tools" not in request["params"]


async def test_a_reserve_that_can_not_search_answers_without(gateway: Gateway, *, stream: bool) -> None:
    tenant, _ = await gateway.tenant_of_its_own(allow=(INTERNET,), fallback=BrainFallback(OPENAI_BRAIN))
    gateway.fakes.claude.script(status(529, retry_after=30))
    body, _ = await asked(gateway, tenant, stream=stream)
    assert body["meta"]["ripiego"] == f"pepper:{OPENAI_BRAIN}"
    assert not {"ricerche", "citazioni"} & set(body["meta"])


async def test_what_might_have_been_searched_is_not_cached(gateway: Gateway) -> None:
    for allow, kept in (((INTERNET,), False), ((), True)):
        tenant = await gateway.desk.project(allow=allow)
        for expected in (None, True if kept else None):
            body = told.answer(await gateway.ask(tenant, encode="riassumi"))
            assert body["meta"].get("cache") is expected
    # A forced shape searches nothing, so it may be.
    tenant = await gateway.desk.project(allow=(INTERNET,))
    for expected in (None, True):
        extra = {"categorie": ["sì", "no"]}
        body = told.answer(await gateway.ask(tenant, encode="classifica", extra=extra))
        assert body["meta"].get("cache") is expected


async def test_a_repeat_has_the_same_sources(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=(INTERNET,))
    gateway.fakes.claude.script(found_law())
    first = told.answer(await gateway.ask(tenant, key="k"))
    replies: list[httpx.Response] = [await gateway.ask(tenant, key="k", stream=one) for one in (False, True)]
    for reply in replies:
        assert f'"citazioni":[{CITED}],"ricerche":2,"idempotente":true' in reply.text
    assert "tool_call" not in replies[1].text
    assert first["meta"]["ricerche"] == 2
    assert len(await gateway.desk.rows(tenant)) == 1


async def test_searches_are_reserved_before_they_are_paid(gateway: Gateway) -> None:
    """What is found may weigh 60,000 tokens: 0.60 USD here, and a text beside it has no room under the cap."""
    tenant, _ = await gateway.tenant_of_its_own(usd=(10.0, 1.0), allow=(INTERNET,), cap=0.60)
    gateway.fakes.claude.default = found_law(input_tokens=50_000, first_delay=0.5)
    replies = await asyncio.gather(gateway.ask(tenant, "Uno"), gateway.ask(tenant, "Due"))
    assert [reply.status_code for reply in replies] == [200, 200]
    assert gateway.fakes.claude.peak == 1
    assert (await gateway.capabilities(tenant))["spesa"]["oggi_usd"] > 1.0
    told.error(await gateway.ask(tenant, encode="correggi"), 429, "budget_esaurito")


async def test_a_sandbox_pretends(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(sandbox=True, allow=(INTERNET,))
    body, written = await asked(gateway, tenant, stream=stream, content="Cerca [[prova:ricerca:5]]")
    assert body["meta"]["ricerche"] == 3
    assert written.count('{"fonte":"web","url":"https://example.com/ricerca/') == 3
    assert (await gateway.capabilities(tenant))["spesa"]["oggi_usd"] == 0
    assert gateway.fakes.claude.seen == []
