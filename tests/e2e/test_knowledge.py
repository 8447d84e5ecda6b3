"""A project's own documents over the wire: taken in, looked into, replaced, taken out, and nobody else's business."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.knowledge import MAX_DOCUMENT_CHARACTERS, MAX_DOCUMENT_NAME, MAX_DOCUMENTS
from gateway.domain.tenants import Permission
from gateway.storage.changes import ProjectChanges
from tests.e2e import told
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.shelf import act, listed, names, opened, sources, switch_on, take_out, upload, uploaded
from tests.e2e.waiting import eventually
from tests.fakes import say
from tests.fakes.openai_server import EMBEDDINGS

WORKERS = 2
VECTORS = True
KNOWLEDGE = Permission.KNOWLEDGE
RULES = "Le ferie si chiedono al responsabile entro il 31 marzo di ogni anno."
BADGE = "Il badge smarrito si denuncia alla portineria, che ne stampa un altro per 12 euro."
QUESTION = "Entro quando si chiedono le ferie?"
UNSEEN = ("\u200b", "\u200d \ufeff\n", "\x00\x07", "\u202e\u2066\u00ad")
UNFIT = ("\x00", "\n", "\x7f", "\x85", "\u202a", "\u202e", "\u2066", "\u2069")


@pytest.fixture(autouse=True)
async def _switched(gateway: Gateway) -> None:
    """The recipes that look into documents, known to every worker."""
    await switch_on(gateway, ("libero", "riassumi", "classifica"))


@pytest.fixture
async def tenant(gateway: Gateway) -> Tenant:
    return await reader(gateway)


async def reader(gateway: Gateway, **settings: Any) -> Tenant:
    """A project whose knowledge is on, and its recipes with it."""
    tenant, _ = await gateway.tenant_of_its_own(allow=[KNOWLEDGE, Permission.DEFERRED], **settings)
    await opened(gateway, tenant)
    return tenant


def embedded(gateway: Gateway) -> list[str]:
    """Every text that OpenAI was given to read."""
    seen = [one.body["input"] for one in gateway.fakes.openai.seen if one.path == EMBEDDINGS]
    return [text for texts in seen for text in ([texts] if isinstance(texts, str) else texts)]


def asked(gateway: Gateway) -> str:
    """The caller's turn as the model got it last."""
    content = gateway.fakes.claude.seen[-1].body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


# --- the three actions ----------------------------------------------------------------------------------------------


async def test_a_document_answers_questions(gateway: Gateway, tenant: Tenant) -> None:
    before = told.answer(await gateway.ask(tenant, QUESTION))
    assert "fonti" not in before["meta"]
    assert "conoscenza" not in before["meta"]
    assert embedded(gateway) == [], "nothing is read and nothing paid while there are no documents"

    first = await upload(gateway, tenant, "  Regolamento 2026 ", RULES)
    second = await upload(gateway, tenant, "Badge", BADGE)
    assert (first["nome"], first["pezzi"], first["sostituito"]) == ("Regolamento 2026", 1, False)
    assert first["id"] != second["id"]
    one, two = await listed(gateway, tenant)
    assert (one["id"], one["nome"], one["caratteri"]) == (first["id"], "Regolamento 2026", len(RULES))
    assert (two["id"], two["pezzi"]) == (second["id"], second["pezzi"])

    body = told.answer(await gateway.ask(tenant, QUESTION))
    assert sources(body) == ["Regolamento 2026"]
    assert body["meta"]["fonti"][0]["pezzo"] == 1
    turn = asked(gateway)
    assert RULES in turn
    assert BADGE not in turn
    assert turn.endswith(QUESTION)
    assert RULES not in json.dumps(body), "the passages are not told again"

    off_topic = told.answer(await gateway.ask(tenant, "Quanto pesa la luna?"))
    assert "fonti" not in off_topic["meta"]
    assert "conoscenza" not in off_topic["meta"]
    assert asked(gateway) == "Quanto pesa la luna?"


async def test_a_stream_tells_its_sources_at_the_end(gateway: Gateway, tenant: Tenant) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    async with gateway.stream(tenant, QUESTION) as stream:
        body = await stream.told()
    assert sources(body) == ["Regolamento"]
    assert RULES in asked(gateway)


async def test_a_forced_shape_and_a_conversation_look_too_and_keep_only_the_question(
    gateway: Gateway, tenant: Tenant
) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    body = told.answer(
        await gateway.ask(tenant, QUESTION, encode="classifica", extra={"categorie": ["ferie", "altro"]})
    )
    assert sources(body) == ["Regolamento"]
    assert body["risposta"] in {"ferie", "altro"}

    gateway.fakes.claude.script(say("Entro il 31 marzo."))
    first = told.answer(await gateway.ask(tenant, QUESTION, conversazione="nuova"))
    assert sources(first) == ["Regolamento"]
    again = told.answer(
        await gateway.ask(tenant, "Quanto pesa la luna?", conversazione=first["conversazione"])
    )
    assert "fonti" not in again["meta"]
    messages = gateway.fakes.claude.seen[-1].body["messages"]
    assert RULES not in json.dumps(messages, ensure_ascii=False)
    pairs = await gateway.desk.pairs(tenant, first["conversazione"])
    assert pairs is not None
    assert pairs[0] == (QUESTION, "Entro il 31 marzo.")


async def test_at_most_five_passages_the_most_similar_first(gateway: Gateway, tenant: Tenant) -> None:
    for number in range(8):
        await upload(gateway, tenant, f"Sede {number}", f"{QUESTION} Nella sede {number}: in aprile.")
    body = told.answer(await gateway.ask(tenant, QUESTION))
    assert len(sources(body)) == 5
    assert asked(gateway).count("in aprile") == 5


async def test_a_document_of_the_same_name_takes_the_place_of_the_other(
    gateway: Gateway, tenant: Tenant
) -> None:
    first = await upload(gateway, tenant, "Listino", "La mela costa 2 euro.")
    question = "Quanto costa la mela?"
    assert not await cached(gateway, tenant, question)
    assert await cached(gateway, tenant, question)
    second = await upload(
        gateway, tenant, "Listino", "La mela costa 3 euro.\n\n# Pere\n\nLa pera costa 5 euro."
    )
    assert (second["id"], second["sostituito"]) == (first["id"], True)
    assert await names(gateway, tenant) == ["Listino"]
    assert not await cached(gateway, tenant, question)
    assert "3 euro" in asked(gateway)
    assert "2 euro" not in asked(gateway)


async def cached(gateway: Gateway, tenant: Tenant, content: str) -> bool:
    body = told.answer(await gateway.ask(tenant, content, encode="riassumi"))
    assert sources(body), "told again with a cached answer too"
    return "cache" in body["meta"]


async def test_taken_out_is_gone_at_once_everywhere(gateway: Gateway, tenant: Tenant) -> None:
    first = await upload(gateway, tenant, "Regolamento", RULES)
    await upload(gateway, tenant, "Badge", BADGE)
    assert not await cached(gateway, tenant, QUESTION)
    assert await cached(gateway, tenant, QUESTION)
    await take_out(gateway, tenant, first["id"])
    for _ in range(4):  # whichever worker
        assert await names(gateway, tenant) == ["Badge"]
        body = told.answer(await gateway.ask(tenant, QUESTION, encode="riassumi"))
        assert "cache" not in body["meta"] or "fonti" not in body["meta"]
        assert "fonti" not in body["meta"]
    assert RULES not in asked(gateway)
    told.error(await act(gateway, tenant, "togli", documento=first["id"]), 404, "documento_sconosciuto")
    third = await upload(gateway, tenant, "Regolamento", RULES)
    assert third["id"] > first["id"]
    assert not third["sostituito"]


async def test_a_new_document_makes_cached_answers_void(gateway: Gateway, tenant: Tenant) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    assert not await cached(gateway, tenant, QUESTION)
    await upload(gateway, tenant, "Aggiunta", "Le ferie si chiedono anche per telefono.")
    assert not await cached(gateway, tenant, QUESTION)
    assert await cached(gateway, tenant, QUESTION)


async def test_an_answer_begun_with_older_documents_is_not_kept(gateway: Gateway, tenant: Tenant) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    gateway.fakes.claude.script(say("Vecchia.", first_delay=1.0))
    late = asyncio.create_task(gateway.ask(tenant, QUESTION, encode="riassumi"))
    await eventually(lambda: _one_asked(gateway))
    await upload(gateway, tenant, "Regolamento", RULES.replace("marzo", "maggio"))
    assert told.answer(await late)["risposta"] == "Vecchia."
    gateway.fakes.claude.script(say("Nuova."))
    body = told.answer(await gateway.ask(tenant, QUESTION, encode="riassumi"))
    assert (body["risposta"], "cache" in body["meta"]) == ("Nuova.", False)
    assert "maggio" in asked(gateway)


async def _one_asked(gateway: Gateway) -> bool:
    return bool(gateway.fakes.claude.seen)


async def test_the_same_question_is_read_once(gateway: Gateway, tenant: Tenant) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    for _ in range(6):
        assert sources(told.answer(await gateway.ask(tenant, QUESTION)))
    assert embedded(gateway).count(QUESTION) <= WORKERS


# --- where it is off ------------------------------------------------------------------------------------------------


async def test_it_takes_two_switches(gateway: Gateway, tenant: Tenant) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    read = len(embedded(gateway))
    body = told.answer(await gateway.ask(tenant, QUESTION, encode="correggi"))
    assert "fonti" not in body["meta"]
    assert len(embedded(gateway)) == read
    found = await gateway.capabilities(tenant)
    assert found["puo"]["conoscenza"] is True
    assert list(found["conoscenza"]) == ["documenti", "pezzi", "nota"]
    assert (found["conoscenza"]["documenti"], found["conoscenza"]["pezzi"]) == (1, 1)
    assert "OpenAI" in found["conoscenza"]["nota"]

    await gateway.desk.tenants.set_project(
        tenant.name, ProjectChanges(permissions=frozenset()), TESTER, datetime.now(UTC)
    )

    async def off() -> bool:
        found = await gateway.capabilities(tenant)
        return found["puo"]["conoscenza"] is False and found["conoscenza"] is None

    await eventually(off, CHANGE_SECONDS)
    await asyncio.sleep(1)  # the other worker
    for action, fields in (
        ("carica", {"nome": "a", "testo": "b"}),
        ("elenco", {}),
        ("togli", {"documento": 1}),
    ):
        told.error(await act(gateway, tenant, action, **fields), 403, "conoscenza_non_abilitata")
    body = told.answer(await gateway.ask(tenant, QUESTION))
    assert "fonti" not in body["meta"]
    assert "conoscenza" not in body["meta"]


async def test_deferred_work_gets_no_passages(gateway: Gateway, tenant: Tenant) -> None:
    await upload(gateway, tenant, "Regolamento", RULES)
    read = len(embedded(gateway))
    response = await gateway.ask(tenant, QUESTION, modo="differito")
    assert response.status_code == 202, response.text
    assert len(embedded(gateway)) == read
    sent = json.dumps(gateway.fakes.claude.seen[-1].body, ensure_ascii=False)
    assert QUESTION in sent
    assert RULES not in sent


# --- isolation ------------------------------------------------------------------------------------------------------


async def test_another_project_finds_nothing_with_the_same_words(gateway: Gateway, tenant: Tenant) -> None:
    other = await reader(gateway)
    mine = await upload(gateway, tenant, "Regolamento", RULES)
    await upload(gateway, other, "Badge", BADGE)
    for question in (QUESTION, RULES):
        body = told.answer(await gateway.ask(other, question))
        assert "fonti" not in body["meta"]
        assert RULES not in asked(gateway).removesuffix(question)
        assert sources(told.answer(await gateway.ask(tenant, question))) == ["Regolamento"]
    assert await names(gateway, other) == ["Badge"]

    replies = [
        await act(gateway, other, "togli", documento=number)
        for number in (mine["id"], 987_654_321, -1, 0, 2**63, 10**40)
    ]
    assert len({reply.content for reply in replies}) == 1
    assert {tuple(sorted(set(reply.headers) - {"date"})) for reply in replies} == {
        tuple(sorted(set(replies[0].headers) - {"date"}))
    }
    told.error(replies[0], 404, "documento_sconosciuto")
    assert await names(gateway, tenant) == ["Regolamento"]
    again = await upload(gateway, other, "Regolamento", "Tutt'altro.")
    assert not again["sostituito"]
    assert again["id"] != mine["id"]
    assert sources(told.answer(await gateway.ask(tenant, QUESTION))) == ["Regolamento"]
    told.error(
        await gateway.client.post(
            "/conoscenza.php",
            json={"progetto": tenant.name, "azione": "elenco"},
            headers=gateway.headers(other),
        ),
        401,
        "non_autorizzato",
    )


# --- money ----------------------------------------------------------------------------------------------------------


async def test_reading_is_paid_and_written_down(gateway: Gateway, tenant: Tenant) -> None:
    text = "\n\n".join(f"Articolo {number}. {RULES}" for number in range(2_000))
    await upload(gateway, tenant, "Regolamento", text)
    [row] = await gateway.desk.rows(tenant)
    assert (row.recipe, row.outcome, row.provider) == ("conoscenza", Outcome.OK, "openai")
    assert row.model == "text-embedding-3-small"
    assert row.usage.input_tokens == sum(one.usage.input_tokens for one in row.attempts) > 10_000
    assert row.cost == sum(one.cost for one in row.attempts) > 200
    assert (await gateway.capabilities(tenant))["spesa"]["oggi_usd"] == row.cost / 1_000_000

    gateway.fakes.openai.script(say("", input_tokens=1_000), on=EMBEDDINGS)
    body = told.answer(await gateway.ask(tenant, QUESTION))
    assert "tentativi" not in body["meta"]
    paid = await gateway.desk.row(tenant, body["meta"]["richiesta"])
    assert paid is not None
    question, answer = paid.attempts
    assert (question.model, question.usage.input_tokens, question.cost) == (
        "text-embedding-3-small",
        1_000,
        20,
    )
    assert paid.cost == question.cost + answer.cost
    assert paid.model == answer.model
    assert paid.usage.input_tokens == 1_000 + answer.usage.input_tokens


async def test_a_spent_cap_refuses_documents_too(gateway: Gateway) -> None:
    tenant = await reader(gateway, cap=0.001, usd=(0.0, 100.0))
    kept = await upload(gateway, tenant, "Regolamento", RULES)
    gateway.fakes.claude.script(say("Caro.", output_tokens=1_000))
    told.answer(await gateway.ask(tenant, "Ciao"))
    read = len(embedded(gateway))
    for name in ("Nuovo", "Regolamento"):
        told.error(await act(gateway, tenant, "carica", nome=name, testo=BADGE), 429, "budget_esaurito")
    assert len(embedded(gateway)) == read
    assert [one["caratteri"] for one in await listed(gateway, tenant)] == [len(RULES)]
    await take_out(gateway, tenant, kept["id"])


async def test_documents_do_not_count_for_the_hour(gateway: Gateway) -> None:
    tenant = await reader(gateway, per_hour=1)
    for number in range(3):
        await upload(gateway, tenant, f"Documento {number}", RULES)
    told.answer(await gateway.ask(tenant, QUESTION))
    told.error(await gateway.ask(tenant, QUESTION), 429, "troppe_richieste")
    await upload(gateway, tenant, "Un altro", RULES)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "azione"),
        ({"azione": None}, "azione"),
        ({"azione": 3}, "azione"),
        ({"azione": "Carica"}, '"carica", "elenco", "togli"'),
        ({"azione": "carica", "testo": "x"}, "nome"),
        ({"azione": "carica", "nome": " \t ", "testo": "x"}, "nome"),
        ({"azione": "carica", "nome": ["a"], "testo": "x"}, "nome"),
        ({"azione": "carica", "nome": "à" * (MAX_DOCUMENT_NAME + 1), "testo": "x"}, "nome"),
        ({"azione": "carica", "nome": "a"}, "testo"),
        ({"azione": "carica", "nome": "a", "testo": None}, "testo"),
        ({"azione": "carica", "nome": "a", "testo": 12}, "testo"),
        ({"azione": "carica", "nome": "a", "testo": ""}, "testo"),
        ({"azione": "carica", "nome": "a", "testo": " \u2003\n"}, "testo"),
        ({"azione": "togli"}, "documento"),
        ({"azione": "togli", "documento": "12"}, "documento"),
        ({"azione": "togli", "documento": 12.0}, "documento"),
        ({"azione": "togli", "documento": True}, "documento"),
        ({"azione": "togli", "documento": {}}, "documento"),
        *(({"azione": "carica", "nome": "a", "testo": text}, "testo") for text in UNSEEN),
        *(({"azione": "carica", "nome": f"a{mark}b", "testo": "a"}, "nome") for mark in UNFIT),
    ],
    ids=str,
)
async def test_wrong_fields_are_named(gateway: Gateway, fields: dict[str, Any], named: str) -> None:
    """Fields are judged before permissions: the project may not even have the knowledge."""
    tenant = await gateway.desk.project()
    body = {"progetto": tenant.name, **fields}
    response = await gateway.client.post("/conoscenza.php", json=body, headers=gateway.headers(tenant))
    assert named in told.error(response, 400, "richiesta_non_valida")


async def test_the_order_of_checks(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    client, headers = gateway.client, gateway.headers(tenant)
    response = await client.get("/conoscenza.php")
    told.error(response, 405, "richiesta_non_valida")
    assert response.headers["allow"] == "POST"
    told.error(await client.post("/conoscenza.php", content=b"{"), 401, "non_autorizzato")
    huge = {"content-length": "6500001", **headers}
    told.error(
        await client.post("/conoscenza.php", content=b"x" * 6_500_001, headers=huge),
        413,
        "contenuto_troppo_grande",
    )
    told.error(
        await client.post("/conoscenza.php", content=b"{", headers=headers), 400, "richiesta_non_valida"
    )
    body = {"progetto": "altro", "azione": "vola"}
    told.error(await client.post("/conoscenza.php", json=body, headers=headers), 401, "non_autorizzato")
    long = {"progetto": tenant.name, "azione": "carica", "nome": "a", "testo": "x" * 500_001}
    told.error(
        await client.post("/conoscenza.php", json=long, headers=headers), 413, "contenuto_troppo_grande"
    )
    long["testo"] = "x"
    told.error(
        await client.post("/conoscenza.php", json=long, headers=headers), 403, "conoscenza_non_abilitata"
    )


async def test_the_longest_document_and_name(gateway: Gateway, tenant: Tenant) -> None:
    """Every character of it escaped: the largest body that may come."""
    name, text = "🍋" * MAX_DOCUMENT_NAME, "🍋 " * (MAX_DOCUMENT_CHARACTERS // 2)
    body = json.dumps(
        {"progetto": tenant.name, "azione": "carica", "nome": name, "testo": text}, ensure_ascii=True
    )
    response = await gateway.client.post(
        "/conoscenza.php", content=body.encode(), headers=gateway.headers(tenant)
    )
    assert uploaded(response)["nome"] == name
    [one] = await listed(gateway, tenant)
    assert (one["nome"], one["caratteri"]) == (name, MAX_DOCUMENT_CHARACTERS)
    message = told.error(
        await act(gateway, tenant, "carica", nome="a", testo="x" * (MAX_DOCUMENT_CHARACTERS + 1)),
        413,
        "contenuto_troppo_grande",
    )
    assert str(MAX_DOCUMENT_CHARACTERS) in message


async def test_two_hundred_documents_and_no_more(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(allow=[KNOWLEDGE], sandbox=True)
    await opened(gateway, tenant)
    for start in range(0, MAX_DOCUMENTS, 20):
        await asyncio.gather(
            *(
                upload(gateway, tenant, f"Documento {number}", f"{RULES} Numero {number}.")
                for number in range(start, start + 20)
            )
        )
    told.error(await act(gateway, tenant, "carica", nome="Uno in più", testo=RULES), 429, "troppi_documenti")
    assert (await upload(gateway, tenant, "Documento 7", BADGE))["sostituito"]
    shelf = await listed(gateway, tenant)
    assert len(shelf) == MAX_DOCUMENTS
    await take_out(gateway, tenant, shelf[0]["id"])
    # Of many that would all fit alone, one does.
    replies = await asyncio.gather(
        *(act(gateway, tenant, "carica", nome=f"Nuovo {number}", testo=RULES) for number in range(4))
    )
    assert sorted(reply.status_code for reply in replies) == [200, 429, 429, 429]
    assert len(await listed(gateway, tenant)) == MAX_DOCUMENTS


async def test_uploads_of_one_name_at_once_leave_one_whole_document(gateway: Gateway, tenant: Tenant) -> None:
    texts = [
        "\n\n".join(f"Edizione {edition}, articolo {article}. {RULES}" for article in range(40))
        for edition in range(6)
    ]
    replies = await asyncio.gather(*(upload(gateway, tenant, "Regolamento", text) for text in texts))
    assert len({reply["id"] for reply in replies}) == 1
    assert sum(not reply["sostituito"] for reply in replies) == 1
    assert await names(gateway, tenant) == ["Regolamento"]
    body = told.answer(await gateway.ask(tenant, "Edizione e articolo delle ferie?"))
    turn = asked(gateway)
    assert sources(body)
    assert len({edition for edition in range(6) if f"Edizione {edition}," in turn}) == 1


async def test_uploading_and_taking_out_at_once(gateway: Gateway, tenant: Tenant) -> None:
    """Whatever comes first, both are answered, and what is listed is what is searched."""
    for _ in range(4):
        first = await upload(gateway, tenant, "Regolamento", RULES)
        uploading, removal = await asyncio.gather(
            act(gateway, tenant, "carica", nome="Regolamento", testo=RULES + " Sempre."),
            act(gateway, tenant, "togli", documento=first["id"]),
        )
        uploaded(uploading)
        assert removal.status_code == 200
        there = await names(gateway, tenant)
        body = told.answer(await gateway.ask(tenant, QUESTION))
        assert sources(body) == there
        for one in await listed(gateway, tenant):
            await take_out(gateway, tenant, one["id"])
