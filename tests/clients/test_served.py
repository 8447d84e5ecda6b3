"""The clients against a served Pepper: every function, every code of the contract, every way an answer is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.errors import CONTRACT_FAULTS, DEFERRED_NOT_ENABLED, PROVIDER_UNAVAILABLE
from gateway.domain.tenants import Permission
from tests.clients.drivers import Call, Driver, ask
from tests.e2e.desk import Tenant
from tests.e2e.enclosed import written_pdf
from tests.e2e.harness import Gateway

MakeClient = Callable[..., Driver]

# One code may belong to two faults: which one answers, a trigger word can't say.
STATUSES: dict[str, set[int]] = {}
for fault in CONTRACT_FAULTS:
    STATUSES.setdefault(fault.code, set()).add(fault.status)
IN_THE_STREAM = {"richiesta_rifiutata", "errore_ai", "ai_non_disponibile"}


@pytest.fixture(scope="module")
def backend() -> str:
    """What a client meets is the same over all stores."""
    return "embedded"


async def sandbox(gateway: Gateway, **settings: Any) -> Tenant:
    return await gateway.desk.project(sandbox=True, **({"allow": list(Permission)} | settings))


@pytest.fixture
async def client(make_client: MakeClient, gateway: Gateway) -> Driver:
    """A client with a sandbox project of its own."""
    tenant = await sandbox(gateway)
    return make_client(gateway.address, project=tenant.name, key=tenant.key)


def test_an_answer_whole_and_in_pieces(client: Driver) -> None:
    whole, told, many = client.run(
        ask("Perché? 🌶"),
        ask("Perché? 🌶", pieces=True),
        ask("[[prova:pezzi:2000]] Perché? 🌶", pieces=True),
    )
    assert whole.value["ok"] is True
    assert "«Perché? 🌶»" in whole.value["risposta"]
    assert whole.value["conversazione"] is None
    assert whole.value["meta"]["provider"] == "prova"
    assert whole.pieces == []
    assert told.value["risposta"] == whole.value["risposta"] == "".join(told.pieces)
    assert len(many.pieces) == 2000
    assert "".join(many.pieces) == many.value["risposta"]


def test_a_conversation(client: Driver) -> None:
    first = client.value(ask("Ti spiego la situazione...", conversazione="nuova"))
    number = first["conversazione"]
    second = client.one(ask("E quindi?", conversazione=number, pieces=True))
    assert second.value["conversazione"] == number
    assert second.value["risposta"] != first["risposta"]
    assert client.error(ask("E?", conversazione="cnv_0000000000000000")).code == "conversazione_sconosciuta"


def test_forced_shapes(client: Driver) -> None:
    fields = Call(
        "pepper", {"encode": "estrai", "contenuto": "cliente: Rossi", "extra": {"campi": ["cliente", "data"]}}
    )
    assert json.loads(client.value(fields)["risposta"]) == {"cliente": "Rossi", "data": None}
    kinds = {
        "encode": "classifica",
        "contenuto": "Ecco la fattura.",
        "extra": {"categorie": ["bolla", "fattura"]},
    }
    outcome = client.one(Call("pepper", kinds, pieces=True))
    assert outcome.pieces == [outcome.value["risposta"]] == ["fattura"]


def test_documents(client: Driver, tmp_path: Path) -> None:
    pdf, photo = tmp_path / "verbale.pdf", tmp_path / "phpX"
    pdf.write_bytes(written_pdf("Si rifà il tetto.", "Fine."))
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    answer = client.value(ask("Di cosa parla?", documenti={"atto.pdf": str(pdf), "foto.png": str(photo)}))
    assert answer["meta"]["documenti_pagine"] == 2
    assert [each["documento"] for each in answer["meta"]["citazioni"]] == ["atto.pdf", "atto.pdf"]
    assert "foto.png" in answer["risposta"]
    assert (
        client.one(ask("Di cosa?", documenti=[str(pdf)], pieces=True)).value["meta"]["documenti_pagine"] == 2
    )
    pdf.write_bytes(b"%PDF-1.7 broken")
    assert client.error(ask("Di cosa?", documenti=[str(pdf)])).code == "documento_non_valido"
    pdf.write_bytes(b"no pdf at all")
    assert client.error(ask("Di cosa?", documenti=[str(pdf)])).code == "documento_non_valido"
    assert client.error(ask("Di cosa?", documenti=[str(photo)] * 6)).code == "troppi_documenti"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5_500_000))
    assert client.error(ask("Di cosa?", documenti=[str(photo)])).code == "documento_troppo_grande"


async def test_permissions(make_client: MakeClient, gateway: Gateway, tmp_path: Path) -> None:
    tenant = await sandbox(gateway, allow=[])
    client = make_client(gateway.address, project=tenant.name, key=tenant.key)
    pdf, photo = tmp_path / "a.pdf", tmp_path / "a.png"
    pdf.write_bytes(written_pdf("Uno."))
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    refused = client.run(
        ask(documenti=[str(pdf)]),
        ask(documenti=[str(photo)]),
        Call("pepper_differito", {"encode": "riassumi", "contenuti": ["uno"]}),
    )
    assert [(each.code, each.status, each.retryable) for each in refused] == [
        ("documenti_non_abilitati", 403, False),
        ("immagini_non_abilitate", 403, False),
        (DEFERRED_NOT_ENABLED.code, 403, False),
    ]


@pytest.mark.parametrize("pieces", [False, True], ids=["whole", "pieces"])
def test_every_error_of_the_contract(client: Driver, pieces: bool) -> None:
    client.settings.pauses = ()
    outcomes = client.run(*(ask(f"[[prova:{code}]] x", pieces=pieces) for code in STATUSES))
    for (code, statuses), outcome in zip(STATUSES.items(), outcomes, strict=True):
        assert outcome.code == code
        told_inside = pieces and code in IN_THE_STREAM
        assert outcome.status in ({200} if told_inside else statuses), outcome
        assert outcome.retryable is bool({429, 502, 503} & (statuses if told_inside else {outcome.status}))
        assert outcome.pieces == []
        assert outcome.request_id is not None
        assert outcome.request_id.startswith("req_")
        if outcome.status in {429, 503}:
            assert outcome.retry_after is not None


def test_errors_that_nobody_asked_for(client: Driver, make_client: MakeClient) -> None:
    long = client.error(ask("x" * 100_001))
    assert (long.code, long.status) == ("contenuto_troppo_grande", 413)
    unknown = client.error(Call("pepper", {"encode": "riasumi", "contenuto": "x"}))
    assert unknown.code == "encode_sconosciuto"
    assert "riassumi" in unknown.text
    assert client.error(ask(" ")).code == "richiesta_non_valida"
    number = client.error(Call("pepper_pratica", {"pratica": "prt_000000000000"}))
    assert (number.code, number.status) == ("pratica_sconosciuta", 404)
    stranger = make_client(client.url, project=client.project, key="pk_" + "x" * 43)
    calls = (ask(), ask(pieces=True), Call("pepper_capacita", {"aggiorna": True}))
    assert {outcome.code for outcome in stranger.run(*calls)} == {"non_autorizzato"}
    elsewhere = make_client(client.url + "/altrove", project=client.project, key=client.key)
    assert elsewhere.error(ask()).code == "indirizzo_sconosciuto"


def test_a_stream_that_breaks_after_some_pieces(client: Driver) -> None:
    error = client.error(ask("[[prova:taglio:2]] x", pieces=True))
    assert (error.code, error.retryable, error.status) == (PROVIDER_UNAVAILABLE.code, True, 200)
    assert len(error.pieces) == 2


def test_a_repeat_gets_the_first_answer(client: Driver) -> None:
    first, whole, told, other = client.run(
        ask("Uno", idempotenza="pratica-1"),
        ask("Uno", idempotenza="pratica-1"),
        ask("Uno", idempotenza="pratica-1", pieces=True),
        ask("Due", idempotenza="pratica-1"),
    )
    assert "idempotente" not in first.value["meta"]
    for repeat in (whole, told):
        assert repeat.value["meta"]["idempotente"] is True
        assert repeat.value["meta"]["richiesta"] == first.value["meta"]["richiesta"]
    assert told.pieces == [first.value["risposta"]]
    assert other.code == "richiesta_non_valida"


def test_each_call_has_a_key_of_its_own(client: Driver) -> None:
    for outcome in client.run(ask("Uno"), ask("Uno")):
        assert "idempotente" not in outcome.value["meta"]


def test_what_failed_is_asked_again(client: Driver) -> None:
    """Four calls under one key, of which each counts; the provider `prova` fails them all."""
    error = client.error(ask("[[prova:errore_ai]]", idempotenza="quattro"))
    assert error.code == "errore_ai"


def test_deferred_work(client: Driver) -> None:
    number = client.value(
        Call(
            "pepper_differito", {"encode": "riassumi", "contenuti": ["Uno", "[[prova:fallisce]] Due", "Tre"]}
        )
    )
    assert number.startswith("prt_")
    state = client.value(Call("pepper_pratica", {"pratica": number}))
    assert (state["stato"], state["quanti"]) == ("pronta", 3)
    assert [each["ok"] for each in state["risposte"]] == [True, False, True]
    assert "«Tre»" in state["risposte"][2]["risposta"]

    slow = client.value(
        Call("pepper_differito", {"encode": "libero", "contenuti": "[[prova:differito:3600]] Uno"})
    )
    waiting = client.value(Call("pepper_pratica", {"pratica": slow}))
    assert waiting["stato"] == "in_corso"
    assert "risposte" not in waiting
    refused = client.error(
        Call("pepper_differito", {"encode": "libero", "contenuti": ["[[prova:troppe_pratiche]]"]})
    )
    assert (refused.code, refused.status, refused.retryable) == ("troppe_pratiche", 429, True)


async def test_capabilities(client: Driver, gateway: Gateway) -> None:
    found = client.value(Call("pepper_capacita", {}))
    assert found["progetto"] == client.project
    assert found["puo"]["documenti"] is True
    assert found == await gateway.capabilities(Tenant(client.project, client.key))
    assert client.value(Call("pepper_capacita", {"aggiorna": True}))["ok"] is True


async def test_a_stream_heard_to_its_end_is_whole(client: Driver, gateway: Gateway) -> None:
    """Though the client leaves at `done`, before the connection's end."""
    client.run(*(ask("[[prova:pezzi:50]] Tutto", pieces=True) for _ in range(5)))
    rows = await gateway.desk.rows(Tenant(client.project, client.key))
    assert [str(row.outcome) for row in rows] == ["ok"] * 5


async def test_knowledge(client: Driver, make_client: MakeClient, gateway: Gateway) -> None:
    other = await sandbox(gateway)
    stranger = make_client(gateway.address, project=other.name, key=other.key)
    added, again, listed = client.run(
        Call("pepper_conoscenza_carica", {"nome": "Listino", "testo": "Rifare un tetto costa 9.000 €."}),
        Call("pepper_conoscenza_carica", {"nome": "Listino", "testo": "Rifare un tetto costa 10.000 €."}),
        Call("pepper_conoscenza_elenco", {}),
    )
    assert added.code is None, added
    assert (added.value["nome"], added.value["sostituito"], again.value["sostituito"]) == (
        "Listino",
        False,
        True,
    )
    assert [document["nome"] for document in listed.value["documenti"]] == ["Listino"]
    assert listed.value["pezzi"] == again.value["pezzi"] == 1
    number = listed.value["documenti"][0]["id"]

    remove = Call("pepper_conoscenza_togli", {"id": number})
    foreign = stranger.error(remove)
    assert (foreign.code, foreign.status) == ("documento_sconosciuto", 404)
    assert client.value(remove)["ok"] is True
    assert client.error(remove).code == "documento_sconosciuto"
    assert client.value(Call("pepper_conoscenza_elenco", {}))["documenti"] == []

    large = client.error(Call("pepper_conoscenza_carica", {"nome": "Tutto", "testo": "x" * 500_001}))
    assert (large.code, large.status) == ("contenuto_troppo_grande", 413)


async def test_knowledge_that_is_off(make_client: MakeClient, gateway: Gateway) -> None:
    tenant = await sandbox(gateway, allow=[])
    client = make_client(gateway.address, project=tenant.name, key=tenant.key)
    refused = client.error(Call("pepper_conoscenza_carica", {"nome": "a", "testo": "b"}))
    assert (refused.code, refused.status, refused.retryable) == ("conoscenza_non_abilitata", 403, False)
