"""The knowledge in the panel over HTTP: documents in and out, their passages, what a question would find, what it costs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from gateway.domain.calls import Outcome
from gateway.domain.tenants import Permission
from gateway.storage import schema
from gateway.storage.audit import read_audit
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.e2e.panel import Visit, logged_in, text_of, visiting
from tests.e2e.shelf import listed, opened
from tests.fakes import EMBEDDINGS, status
from tests.unit.attachments.corpus import encrypted, pdf
from tests.unit.attachments.test_pdf_text import written

WORKERS = 2
STATUTE = "\n\n".join(
    f"Art. {number}. Il socio della classe {number} paga la quota di {number} euro entro marzo. " * 12
    for number in range(1, 80)
)
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
MODEL = "text-embedding-3-small"


@pytest.fixture(scope="module")
def session(served: Gateway) -> dict[str, str]:
    """The editor's cookies at this gateway, once they have logged in."""
    return {}


@pytest.fixture
async def editor(gateway: Gateway, session: dict[str, str]) -> AsyncIterator[Visit]:
    if not session:
        await gateway.desk.price(MODEL, 0.02, 0.0)
        async with logged_in(gateway, "redattrice@example.it", "editor") as visit:
            session.update(visit.client.cookies)
    async with visiting(gateway) as visit:
        visit.client.cookies.update(session)
        yield visit


async def sandbox(gateway: Gateway) -> Tenant:
    return await gateway.desk.project(sandbox=True, allow=[Permission.KNOWLEDGE])


def shelf_of(tenant: Tenant) -> str:
    return f"/panel/knowledge/{tenant.name}"


async def upload(
    visit: Visit, tenant: Tenant, name: str = "", text: str = "", file: tuple[str, bytes, str] | None = None
) -> httpx.Response:
    """Send the form as a browser does, as multipart."""
    there = shelf_of(tenant)
    fields = {"csrf": await visit.token(there), "name": name, "text": text}
    files = {"file": file or ("", b"", "application/octet-stream")}
    return await visit.client.post(f"{there}/add", data=fields, files=files)


def added(response: httpx.Response, done: str = "added") -> str:
    """The address of the document that was made."""
    assert response.status_code == 303, text_of(response.text)
    location: str = response.headers["location"]
    assert location.endswith(f"?done={done}")
    return location.removesuffix(f"?done={done}")


async def test_a_text_goes_in_is_seen_as_it_was_cut_and_goes_out(gateway: Gateway, editor: Visit) -> None:
    tenant = await sandbox(gateway)
    there = added(await upload(editor, tenant, " Statuto ", STATUTE.replace("\n", "\r\n")))
    [document] = await listed_of(gateway, tenant)
    assert (document["nome"], document["caratteri"]) == ("Statuto", len(STATUTE))
    page = await editor.get(there)
    assert page.status_code == 200
    assert f"1\u201350 di {document['pezzi']}" in text_of(page.text)
    last = await editor.get(f"{there}?from={document['pezzi']}")
    assert "Art. 79." in last.text
    for odd in ("0", "-3", "999999", "x", "9" * 40):
        assert (await editor.get(f"{there}?from={odd}")).status_code == 200

    assert added(await upload(editor, tenant, "Statuto", "La quota si paga a giugno."), "replaced") == there
    assert "a giugno" in (await editor.get(there)).text
    entries = await read_audit(gateway.desk.database, 20)
    mine = [one for one in entries if one.subject == f"{tenant.name}: Statuto"]
    assert [(one.action, one.operator) for one in mine] == [("document.add", "redattrice@example.it")] * 2
    assert "giugno" not in "".join(f"{one.after!r}" for one in mine)

    gone = await editor.post(f"{there}/remove", page=shelf_of(tenant))
    assert gone.status_code == 303
    assert (await editor.get(there)).status_code == 404
    assert await listed_of(gateway, tenant) == []
    assert (await editor.post(f"{there}/remove", page=shelf_of(tenant))).status_code == 404


async def listed_of(gateway: Gateway, tenant: Tenant) -> list[dict[str, Any]]:
    await opened(gateway, tenant)
    return await listed(gateway, tenant)


async def test_files_are_taken_as_text_markdown_and_pdf(gateway: Gateway, editor: Visit) -> None:
    tenant = await sandbox(gateway)
    added(
        await upload(
            editor, tenant, file=("C:\\doc\\nota.txt", "\ufeffPerché sì.\r\n".encode(), "text/plain")
        )
    )
    added(await upload(editor, tenant, "Guida", file=("guida.md", b"# Titolo\n\nTesto.", "text/markdown")))
    there = added(
        await upload(editor, tenant, file=("quote.pdf", written("La quota è dovuta."), "application/pdf"))
    )
    assert "La quota è dovuta." in (await editor.get(there)).text
    found = {one["nome"]: one["caratteri"] for one in await listed_of(gateway, tenant)}
    assert found == {"nota.txt": 11, "Guida": 16, "quote.pdf": 18}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (("a.pdf", pdf(1), "application/pdf"), "Nel PDF non c'è testo"),
        (("a.pdf", encrypted("x"), "application/pdf"), "protetto da password"),
        (("a.pdf", b"%PDF-1.7 e poi niente", "application/pdf"), "danneggiato"),
        (("a.txt", "perché".encode("latin-1"), "text/plain"), "non è testo in UTF-8"),
        (("a.txt", b" \n ", "text/plain"), "Manca il testo"),
        (("a.txt", b"x" * 500_001, "text/plain"), "più di 500.000 caratteri"),
        (("a" * 201, b"testo", "text/plain"), "Il nome va da 1 a 200"),
        (("a.pdf", b"%PDF-" + b"x" * (10 * 1024 * 1024), "application/pdf"), "pesa più di 10 MB"),
        (None, "Manca il testo"),
    ],
    ids=lambda one: None if isinstance(one, str) else "file",
)
async def test_what_can_not_be_taken_is_said_in_words(
    gateway: Gateway, editor: Visit, file: tuple[str, bytes, str] | None, said: str
) -> None:
    tenant = await sandbox(gateway)
    answer = await upload(editor, tenant, file=file)
    assert answer.status_code == 400
    assert said in text_of(answer.text)
    assert await listed_of(gateway, tenant) == []


async def test_a_question_shows_what_it_would_find_and_is_booked(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project(allow=[Permission.KNOWLEDGE])
    there = shelf_of(tenant)
    added(await upload(editor, tenant, "Statuto", "La quota associativa si paga entro il mese di marzo."))
    added(await upload(editor, tenant, "Ricetta", "Il ragù cuoce quattro ore a fuoco lento con il vino."))
    before = len(await gateway.desk.rows(tenant))
    question = "La quota associativa si paga entro quale mese?"
    page = await editor.post(f"{there}/search", {"question": question}, page=there)
    assert page.status_code == 200
    said = text_of(page.text)
    first = re.search(r"Somiglianza (0\.\d\d|1\.00) (\w+), pezzo 1", said)
    assert first is not None, said
    assert first[2] == "Statuto"
    assert "davanti alla domanda" in said
    assert question in said
    row = (await gateway.desk.rows(tenant))[-1]
    assert len(await gateway.desk.rows(tenant)) == before + 1
    assert (row.recipe, row.outcome, row.by) == ("conoscenza", Outcome.OK, "redattrice@example.it")
    assert row.usage.input_tokens > 0
    assert row.attempts[0].prices is not None
    assert f"{row.cost / 1_000_000:.6f} USD" in said
    nothing = await editor.post(f"{there}/search", {"question": "zzz qqq xxx"}, page=there)
    assert "Niente di abbastanza simile" in text_of(nothing.text)
    for wrong in ("", " ", "x" * 8_001):
        bad = await editor.post(f"{there}/search", {"question": wrong}, page=there)
        assert bad.status_code == 400


async def test_a_project_without_money_pays_no_question(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project(allow=[Permission.KNOWLEDGE], cap=0.0)
    there = shelf_of(tenant)
    refused = await upload(editor, tenant, "Nota", "Un testo qualunque.")
    assert refused.status_code == 429
    assert "budget_esaurito" in text_of(refused.text)
    assert "Un testo qualunque." in refused.text, "what was typed is not lost"
    found = await editor.post(f"{there}/search", {"question": "che cosa?"}, page=there)
    assert "Niente di abbastanza simile" in text_of(found.text)
    assert gateway.fakes.openai.seen == []


async def test_an_embedder_that_fails_is_told(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project(allow=[Permission.KNOWLEDGE])
    added(await upload(editor, tenant, "Nota", "La quota si paga a marzo."))
    gateway.fakes.openai.script(*[status(400)] * 3, on=EMBEDDINGS)
    failed = await editor.post(f"{shelf_of(tenant)}/search", {"question": "la quota?"}, page=shelf_of(tenant))
    assert failed.status_code == 502
    assert "errore_ai" in text_of(failed.text)


async def test_documents_of_another_index_are_made_anew(gateway: Gateway, editor: Visit) -> None:
    tenant = await sandbox(gateway)
    there = shelf_of(tenant)
    added(await upload(editor, tenant, "Nota", "La quota si paga a marzo."))
    table = schema.documents

    async def another_index(connection: Any) -> None:
        mine = table.c.project == tenant.name
        await connection.execute(update(table).where(mine).values(embedder="un altro"))
        knowledge = schema.knowledge
        await connection.execute(
            update(knowledge)
            .where(knowledge.c.project == tenant.name)
            .values(version=knowledge.c.version + 1)
        )

    await gateway.desk.database.transact(another_index)
    page = text_of((await editor.get(there)).text)
    assert "1 documenti mancano dall'indice" in page
    assert "da rifare" in page
    assert "Niente di abbastanza simile" in text_of(
        (await editor.post(f"{there}/search", {"question": "la quota?"}, page=there)).text
    )
    done = await editor.post(f"{there}/reindex", page=there)
    assert "Documenti rifatti: 1." in text_of(done.text)
    assert "da rifare" not in text_of((await editor.get(there)).text)
    again = await editor.post(f"{there}/reindex", page=there)
    assert "Documenti rifatti: 0." in text_of(again.text)


async def test_hostile_names_texts_and_questions_are_inert(gateway: Gateway, editor: Visit) -> None:
    tenant = await sandbox(gateway)
    there = shelf_of(tenant)
    document = added(await upload(editor, tenant, HOSTILE[:190], f"{HOSTILE} la quota {{{{ 7*7 }}}}"))
    pages = [
        await editor.get(there),
        await editor.get(document),
        await editor.post(f"{there}/search", {"question": f"la quota {HOSTILE}"}, page=there),
    ]
    for page in pages:
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "&lt;script&gt;" in page.text
    assert "{{ 7*7 }}" in pages[1].text


async def test_viewers_see_and_change_nothing(gateway: Gateway, editor: Visit) -> None:
    tenant, other = await sandbox(gateway), await sandbox(gateway)
    there = shelf_of(tenant)
    document = added(await upload(editor, tenant, "Nota", "La quota si paga a marzo."))
    async with logged_in(gateway, "guarda@example.it", "viewer") as viewer:
        for path in ("/panel/knowledge", there, document):
            page = await viewer.get(path)
            assert page.status_code == 200
            assert "Nota" in page.text or path == "/panel/knowledge"
            assert f"{there}/add" not in page.text
        for path in (f"{there}/add", f"{there}/search", f"{there}/reindex", f"{document}/remove"):
            refused = await viewer.post(path, {"name": "x", "text": "y"}, page="/panel/account")
            assert refused.status_code == 403, path
    assert len(await listed_of(gateway, tenant)) == 1
    # A document is its own project's alone.
    number = document.rpartition("/")[2]
    assert (await editor.get(f"{shelf_of(other)}/{number}")).status_code == 404
    stolen = await editor.post(f"{shelf_of(other)}/{number}/remove", page=shelf_of(other))
    assert stolen.status_code == 404
    assert (await editor.get("/panel/knowledge/nessuno")).status_code == 404
    unknown = await editor.post("/panel/knowledge/nessuno/add", {"name": "a", "text": "b"}, page=there)
    assert unknown.status_code == 404


async def test_a_project_of_a_moment_ago_takes_documents_at_once(gateway: Gateway, editor: Visit) -> None:
    """Before any worker has read it from the database."""
    for _ in range(3):
        added(await upload(editor, await sandbox(gateway), "Nota", "Subito."))
    disabled = await sandbox(gateway)
    await asyncio.to_thread(gateway.command, "project", "disable", disabled.name)
    refused = await upload(editor, disabled, "Nota", "Testo.")
    assert refused.status_code == 409
    assert "Il progetto è disattivato" in text_of(refused.text)
    assert "Testo." in refused.text
