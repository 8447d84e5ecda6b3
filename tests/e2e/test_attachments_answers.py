"""Answers about attachments: their citations letter by letter, and a provider that doesn't read or doesn't answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.domain.calls import Outcome
from gateway.domain.catalog import BrainFallback, ModelFallback
from gateway.domain.tenants import Permission
from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.enclosed import linked, pdf, photo, sent, written_pdf
from tests.e2e.harness import Gateway
from tests.fakes import SAMPLE, Answer, answer, cite, say, status, text

BOTH = (Permission.DOCUMENTS, Permission.IMAGES)
QUOTE = "il consiglio ha approvato all'unanimità"
CITED = '{"fonte":"documento","documento":"verbale.pdf","pagina":3,"testo":"' + QUOTE + '"}'
OPENAI_BRAIN = "Pepper 6 · OpenAI"


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def asked(
    gateway: Gateway, tenant: Tenant, *, stream: bool, **fields: Any
) -> tuple[dict[str, Any], str]:
    """An answer's body, and its bytes as text."""
    if not stream:
        response = await gateway.ask(tenant, **fields)
        return told.answer(response), response.text
    response = await gateway.ask(tenant, stream=True, **fields)
    *_, (name, data) = frames_of(response.text)
    assert name == "done", data
    body = json.loads(data)
    told.check_answer(body)
    return body, data


async def failed(gateway: Gateway, tenant: Tenant, *, stream: bool, **fields: Any) -> tuple[int, str]:
    response = await gateway.ask(tenant, stream=stream, **fields)
    if stream:
        [(name, data)] = frames_of(response.text)
        assert name == "error"
        return response.status_code, json.loads(data)["codice"]
    return response.status_code, response.json()["errore"]["codice"]


def frames_of(body: str) -> list[tuple[str, str]]:
    """Names and data of a stream's frames."""
    found = []
    for frame in body.removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        found.append((name.removeprefix("event: "), data.removeprefix("data: ")))
    return found


def about_the_minutes() -> Answer:
    cited = [cite(QUOTE, pages=(3, 4))]
    return answer(text("Sì: "), text("approvato all'unanimità.", citations=cited), text(" Altro non c'è."))


# --- citations --------------------------------------------------------------------------------------------------------


async def test_a_page_is_cited_in_the_contracts_words(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    gateway.fakes.claude.script(about_the_minutes())
    body, written = await asked(gateway, tenant, stream=stream, documenti=[photo(), pdf(pages=12)])
    assert body["risposta"] == "Sì: approvato all'unanimità. Altro non c'è."
    assert f'"citazioni":[{CITED}],"documenti_pagine":12,"richiesta"' in written


async def test_two_files_of_one_name_are_both_cited(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    cited = [cite("uno", document=0, pages=(1, 2)), cite("due", document=1, pages=(2, 4))]
    gateway.fakes.claude.script(answer(text("Entrambi.", citations=cited)))
    files = [pdf("atto.pdf"), photo("atto.pdf"), pdf("atto.pdf", pages=3)]
    body, _ = await asked(gateway, tenant, stream=stream, documenti=files)
    assert body["meta"]["citazioni"] == [
        {"fonte": "documento", "documento": "atto.pdf", "pagina": 1, "testo": "uno"},
        {"fonte": "documento", "documento": "atto.pdf", "pagina": 2, "testo": "due"},
    ]


async def test_the_name_is_the_callers_whatever_it_is(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    for name in ("città 🌶️ «1».pdf", '"><script>', "x" * 1_000):
        gateway.fakes.claude.script(answer(text("Ecco.", citations=[cite(SAMPLE, pages=(1, 2))])))
        body, _ = await asked(gateway, tenant, stream=stream, documenti=[pdf(name)])
        [found] = body["meta"]["citazioni"]
        assert (found["documento"], found["testo"]) == (name, SAMPLE)


async def test_photos_are_not_cited(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    body, _ = await asked(gateway, tenant, stream=stream, documenti=[photo()])
    assert not {"citazioni", "citazioni_spente", "documenti_pagine"} & set(body["meta"])
    [sent_body] = [seen.body for seen in gateway.fakes.claude.seen]
    assert "citations" not in json.dumps(sent_body)
    body, _ = await asked(gateway, tenant, stream=stream, documenti=[pdf()])
    assert body["meta"]["citazioni"] == []


@pytest.mark.parametrize(
    ("recipe", "extra"),
    [("estrai", {"campi": ["Nome"]}), ("classifica", {"categorie": ["sì", "no"]})],
    ids=["fields", "categories"],
)
async def test_a_forced_shape_puts_citations_out(
    gateway: Gateway, *, recipe: str, extra: dict[str, Any], stream: bool
) -> None:
    tenant = await gateway.desk.project(allow=BOTH)
    body, _ = await asked(
        gateway, tenant, stream=stream, encode=recipe, extra=extra, documenti=[pdf(pages=2)]
    )
    meta = body["meta"]
    assert (meta["citazioni_spente"], meta["documenti_pagine"]) == ("schema_json", 2)
    assert "citazioni" not in meta
    body, _ = await asked(gateway, tenant, stream=stream, encode=recipe, extra=extra, documenti=[photo()])
    assert "citazioni_spente" not in body["meta"]
    body, _ = await asked(gateway, tenant, stream=stream, encode=recipe, documenti=[pdf()])
    assert body["meta"]["citazioni"] == []
    assert "citazioni_spente" not in body["meta"]


async def test_a_sandbox_quotes_what_is_on_the_pages(gateway: Gateway, *, stream: bool) -> None:
    tenant = await gateway.desk.project(sandbox=True, allow=BOTH)
    files = [sent(written_pdf("Verbale della riunione", "Firme"), "verbale.pdf"), photo(), pdf("bianco.pdf")]
    body, written = await asked(gateway, tenant, stream=stream, documenti=files)
    cited = [
        f'{{"fonte":"documento","documento":"verbale.pdf","pagina":{page},"testo":"{quote}"}}'
        for page, quote in ((1, "Verbale della riunione"), (2, "Firme"))
    ]
    assert f'"citazioni":[{",".join(cited)}],"documenti_pagine":3' in written
    assert "foto.png" in body["risposta"]
    body, _ = await asked(
        gateway, tenant, stream=stream, encode="estrai", extra={"campi": ["a"]}, documenti=files
    )
    assert body["meta"]["citazioni_spente"] == "schema_json"
    closed = await gateway.desk.project(sandbox=True)
    told.error(await gateway.ask(closed, documenti=files, stream=stream), 403, "documenti_non_abilitati")
    assert gateway.fakes.claude.seen == []


# --- a provider that fails --------------------------------------------------------------------------------------------


async def test_a_file_the_provider_does_not_read_is_the_files_fault(
    gateway: Gateway, *, stream: bool
) -> None:
    gateway.teach("claude", "claude-second-reader")
    await gateway.desk.price("claude-second-reader", 1.0, 1.0)
    tenant, _ = await gateway.tenant_of_its_own(allow=BOTH, fallback=ModelFallback("claude-second-reader"))
    for files in ([pdf()], [photo()], [linked("https://example.com/a.pdf")]):
        gateway.fakes.claude.reset()
        gateway.fakes.claude.script(status(400, message="Could not process the PDF of segreto"))
        found = await failed(gateway, tenant, stream=stream, documenti=files)
        assert found == (200 if stream else 400, "documento_non_valido")
        assert len(gateway.fakes.claude.seen) == 1, "retried, or another model was asked"
        row = (await gateway.desk.rows(tenant))[-1]
        assert (row.outcome, row.fault, row.cost) == (Outcome.FAILED, "documento_non_valido", 0)
    assert "segreto" not in gateway.log()
    # Without attachments a 400 is ours, and the reserve is asked.
    gateway.fakes.claude.script(status(400), say("Riserva."))
    body, _ = await asked(gateway, tenant, stream=stream)
    assert body["meta"]["ripiego"] == "modello:claude-second-reader"


async def test_other_failures_are_what_they_always_are(gateway: Gateway, *, stream: bool) -> None:
    tenant, _ = await gateway.tenant_of_its_own(allow=BOTH)
    for behaviour, code in (
        (status(403), (502, "errore_ai")),
        (status(529, retry_after=30), (503, "ai_non_disponibile")),
    ):
        gateway.fakes.claude.script(behaviour)
        found = await failed(gateway, tenant, stream=stream, documenti=[pdf()])
        assert found == (200 if stream else code[0], code[1])
    gateway.fakes.claude.script(status(529), about_the_minutes())
    body, written = await asked(gateway, tenant, stream=stream, documenti=[pdf()])
    assert body["meta"]["tentativi"] == 2
    assert written.count(CITED) == 1


async def test_another_provider_is_no_reserve_for_a_reader(gateway: Gateway, *, stream: bool) -> None:
    tenant, _ = await gateway.tenant_of_its_own(allow=BOTH, fallback=BrainFallback(OPENAI_BRAIN))
    for files in ([pdf()], [photo()]):
        gateway.fakes.claude.script(status(529, retry_after=30))
        found = await failed(gateway, tenant, stream=stream, documenti=files)
        assert found == (200 if stream else 503, "ai_non_disponibile")
    assert gateway.fakes.openai.seen == []
    gateway.fakes.claude.script(status(529, retry_after=30))
    body, _ = await asked(gateway, tenant, stream=stream)
    assert body["meta"]["ripiego"] == f"pepper:{OPENAI_BRAIN}"


async def test_a_reserve_of_the_same_provider_reads_what_fits_it(gateway: Gateway, *, stream: bool) -> None:
    """Pepper 7 falls back to the principal model of Pepper 6; `Pepper 6` itself to an economy model of 100 pages."""
    six = await gateway.desk.project(allow=BOTH, brain="Pepper 6")
    seven = await gateway.desk.project(allow=BOTH, brain="Pepper 7")
    for tenant, pages, reserve in (
        (six, 100, "modello:claude-haiku-4-5"),
        (six, 101, None),
        (seven, 101, "pepper:Pepper 6"),
    ):
        gateway.fakes.claude.reset()
        gateway.fakes.claude.script(status(529, retry_after=30), about_the_minutes())
        files = [pdf("verbale.pdf", pages=pages)]
        if reserve is None:
            found = await failed(gateway, tenant, stream=stream, documenti=files)
            assert found == (200 if stream else 503, "ai_non_disponibile")
            assert len(gateway.fakes.claude.seen) == 1
            continue
        body, written = await asked(gateway, tenant, stream=stream, documenti=files)
        assert body["meta"]["ripiego"] == reserve
        assert CITED in written
