"""Examples of what is sent and told. Replies come from what encodes the real ones, so they can't grow old."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from gateway.domain.batches import Batch, BatchState, ItemAnswer, ItemFailure, ItemTrouble
from gateway.domain.capabilities import Capabilities
from gateway.domain.catalog import Brain, Level, Reasoning, Recipe, Target
from gateway.domain.completion import Answer, Meta, PageCitation, WebCitation
from gateway.domain.errors import PROVIDER_UNAVAILABLE, Failure, Fault
from gateway.domain.events import Event, Piece, Searched, Searching, Stop, Told
from gateway.domain.knowledge import Document, KnowledgeState, Shelf, Source, Uploaded
from gateway.domain.notices import Notice
from gateway.domain.tenants import Permission, Project
from gateway.domain.usage import Usage
from gateway.wire.batches import encode_receipt, encode_state
from gateway.wire.capabilities import encode_capabilities
from gateway.wire.knowledge import encode_removed, encode_shelf, encode_uploaded
from gateway.wire.notices import encode_notice
from gateway.wire.replies import encode_answer, encode_failure
from gateway.wire.sse import error_frame, frame_of

Examples: TypeAlias = dict[str, Any]
"""Values by a name of their own."""

REQUESTS: Examples = {
    "riassunto": {
        "progetto": "demo",
        "encode": "riassumi",
        "contenuto": "La riunione del 3 marzo ha deciso di rifare il tetto.",
    },
    "campi obbligati": {
        "progetto": "demo",
        "encode": "estrai",
        "contenuto": "cliente: Rossi\nimporto: 12,50",
        "extra": {"campi": ["cliente", "importo", "scadenza"]},
    },
    "categorie obbligate": {
        "progetto": "demo",
        "encode": "classifica",
        "contenuto": "In allegato la fattura del gas.",
        "extra": {"categorie": ["fattura", "preventivo", "altro"]},
    },
    "a pezzi": {"progetto": "demo", "encode": "libero", "contenuto": "Raccontami un tetto.", "stream": True},
    "documenti": {
        "progetto": "negozio",
        "encode": "libero",
        "contenuto": "Di cosa parla questo verbale? Quanto costa il tetto secondo la foto?",
        "documenti": [
            {"nome": "verbale.pdf", "dati": "JVBERi0xLjcK…"},
            {"nome": "preventivo.jpg", "tipo": "image/jpeg", "dati": "/9j/4AAQ…"},
            {"nome": "regolamento.pdf", "url": "https://www.esempio.it/regolamento.pdf"},
        ],
    },
    "differito": {
        "progetto": "negozio",
        "encode": "riassumi",
        "modo": "differito",
        "contenuti": ["Primo verbale…", "Secondo verbale…", "Terzo verbale…"],
    },
}
COLLECTION: Examples = {"ritiro": {"progetto": "negozio", "pratica": "prt_a1b2c3d4e5f6"}}
QUESTION: Examples = {"domanda": {"progetto": "demo"}}
ACTIONS: Examples = {
    "carica": {"progetto": "negozio", "azione": "carica", "nome": "Listino 2026", "testo": "..."},
    "elenco": {"progetto": "negozio", "azione": "elenco"},
    "togli": {"progetto": "negozio", "azione": "togli", "documento": 12},
}

_ROME = ZoneInfo("Europe/Rome")
_AT = datetime(2026, 3, 3, 21, 10, 3, tzinfo=UTC)
_REQUEST_ID = "req_1a22d7c6df35dcde80dd28bbbe2"
_META = Meta(
    project="negozio",
    recipe="riassumi",
    provider="claude",
    model="claude-opus-5",
    duration_ms=2315,
    brain="Pepper 6",
    request_id=_REQUEST_ID,
)
_ANSWER = Answer("Il tetto sarà rifatto: lo ha deciso la riunione del 3 marzo.", None, _META)
_BATCH = Batch(
    number="prt_a1b2c3d4e5f6",
    project="negozio",
    request_id=_REQUEST_ID,
    key_id=1,
    day=date(2026, 3, 3),
    created_at=_AT,
    recipe="riassumi",
    recipe_version=1,
    target=Target("claude", "claude-opus-5", "Pepper 6", Reasoning.OFF),
    total=3,
    single=False,
    reserved=0,
)
_ENDED = msgspec.structs.replace(
    _BATCH,
    state=BatchState.READY,
    outcomes=(
        ItemAnswer("Il primo verbale…", Stop.END, Usage()),
        ItemAnswer("Il secondo…", Stop.END, Usage()),
        ItemFailure(ItemTrouble.EXPIRED),
    ),
)
_DOCUMENT = Document(
    id=12,
    name="Listino 2026",
    version=1,
    passages=31,
    characters=24_310,
    embedder="openai",
    uploaded_at=_AT,
)
_EVENTS: tuple[Event, ...] = (
    Piece("Il tetto sarà "),
    Searching("srvtoolu_01", "rifacimento tetto detrazioni"),
    Searched("srvtoolu_01"),
    Told(_ANSWER),
)


def answers() -> Examples:
    """Answers of `/api.php`."""
    free = msgspec.structs.replace(_META, recipe="libero")
    cited = PageCitation("verbale.pdf", 3, "il consiglio ha approvato all'unanimità")
    page = WebCitation("https://www.normattiva.it/…", "Decreto legislativo …", "l'articolo 3 prevede che…")
    told = {
        "risposta": _ANSWER,
        "conversazione": Answer("Va bene: ti ascolto.", "cnv_5f0c9a7be2d14e38", free),
        "documenti": Answer(
            "Il consiglio ha approvato i lavori.",
            None,
            msgspec.structs.replace(free, citations=(cited,), pages=12),
        ),
        "ricerca": Answer(
            "Le detrazioni spettano a chi…",
            None,
            msgspec.structs.replace(free, citations=(page,), searches=2),
        ),
        "conoscenza": Answer(
            "Il tetto costa 12.000 euro.",
            None,
            msgspec.structs.replace(free, sources=(Source("Listino 2026", 4, 0.62),)),
        ),
        "ripetuta": Answer(_ANSWER.text, None, msgspec.structs.replace(_META, replayed=True)),
    }
    return {name: msgspec.json.decode(encode_answer(answer)) for name, answer in told.items()}


def events() -> Examples:
    """One of each event, as a name and its data."""
    frames = [frame_of(event) for event in _EVENTS]
    return {
        name: {"event": name, "data": msgspec.json.decode(data)}
        for name, data in map(_parts, [*frames, error_frame(Failure(PROVIDER_UNAVAILABLE))])
    }


def stream() -> str:
    """A short stream, to the letter."""
    pieces: tuple[Event, ...] = (
        Piece("Il tetto sarà rifatto: "),
        Piece("lo ha deciso la riunione del 3 marzo."),
        Told(_ANSWER),
    )
    return b"".join(map(frame_of, pieces)).decode().strip()


def receipt() -> Examples:
    """The receipt of deferred work."""
    return {"ricevuta": msgspec.json.decode(encode_receipt(_BATCH))}


def states() -> Examples:
    """Deferred work that goes on, and that has ended."""
    single = msgspec.structs.replace(
        _ENDED, total=1, single=True, outcomes=(ItemAnswer("Il verbale…", Stop.END, Usage()),)
    )
    told = {"in corso": _BATCH, "pronta": _ENDED, "un testo solo": single}
    return {name: msgspec.json.decode(encode_state(batch, _ROME)) for name, batch in told.items()}


def knowledge() -> Examples:
    """Replies of the three actions."""
    told = {
        "carica": encode_uploaded(Uploaded(_DOCUMENT, replaced=False)),
        "elenco": encode_shelf(Shelf(1, (_DOCUMENT,)), _ROME),
        "togli": encode_removed(),
    }
    return {name: msgspec.json.decode(reply) for name, reply in told.items()}


def capabilities() -> Examples:
    """What a project can do."""
    project = Project(
        name="negozio",
        permissions=frozenset({Permission.DOCUMENTS, Permission.DEFERRED, Permission.KNOWLEDGE}),
        daily_budget=5_000_000,
        created_at=_AT,
    )
    brain = Brain(
        name="Pepper 7",
        provider="claude",
        principal="claude-opus-5-5",
        economy="claude-haiku-4-5",
        reasoning=Reasoning.MEDIUM,
        description="Il modello che ragiona.",
        news="Adesso ragiona prima di rispondere: più attento sulle domande difficili.",
    )
    recipe = Recipe(
        name="riassumi",
        description="Riassume un testo.",
        level=Level.PRINCIPAL,
        instructions="",
        max_tokens=8_000,
        base_tokens=3_000,
        tokens_per_input=0.5,
    )
    found = Capabilities(
        project=project,
        brain=brain,
        recipes=(recipe,),
        documents=True,
        images=False,
        deferred=True,
        internet=False,
        agent=False,
        knowledge=KnowledgeState(documents=1, passages=31, reader="openai", ready=True, outdated=0),
        spent=420_000,
    )
    return {"capacita": msgspec.json.decode(encode_capabilities(found))}


def notice() -> Examples:
    """What a project's own address is told."""
    told = Notice(
        project="negozio",
        id="avv_000000000000000000000000",
        batch=_BATCH.number,
        state=BatchState.READY,
        total=3,
        created_at=_AT,
        due_at=None,
    )
    return {"avviso": msgspec.json.decode(encode_notice(told))}


def failures(faults: Iterable[Fault]) -> Examples:
    """Errors, by their codes."""
    return {fault.code: msgspec.json.decode(encode_failure(Failure(fault))) for fault in faults}


def _parts(frame: bytes) -> tuple[str, bytes]:
    name, data = frame.decode().strip().split("\n")
    return name.removeprefix("event: "), data.removeprefix("data: ").encode()
