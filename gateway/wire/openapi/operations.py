"""The operations of the contract as OpenAPI has them: what each address takes, and what it tells when all is well."""

from __future__ import annotations

from gateway.domain.limits import MAX_IDEMPOTENCY_KEY_CHARACTERS
from gateway.wire.batches import NumberBody, ReceiptReply, StateReply
from gateway.wire.capabilities import CapabilitiesReply
from gateway.wire.knowledge import ACTIONS, RemovedReply, ShelfReply, UploadedReply
from gateway.wire.notices import NoticeBody
from gateway.wire.openapi import examples, faults
from gateway.wire.openapi.described import SCHEMAS
from gateway.wire.openapi.schemas import Schema
from gateway.wire.replies import AnswerReply
from gateway.wire.requests import CompletionBody, ProjectBody

_JSON = "application/json"
_EVENTS_ABOUT = """\
**A pezzi** (`"stream": true`): `text/event-stream`, un evento dopo l'altro, separati da una riga vuota. Lo schema è \
quello di un evento, con i suoi `data` già letti come JSON.

- `delta`: un pezzo di testo. Tutti insieme danno `risposta`.
- `done`: la fine, con la risposta intera nella forma di sempre.
- `error`: la fine, quando qualcosa è andato storto dopo l'apertura: il codice HTTP era già partito.
- `tool_call`, `tool_done`: comincia e finisce una ricerca sul web.
- Dopo 15 secondi di silenzio arriva il commento `: ping`: si ignora, come gli eventi che non si conoscono.

```
{stream}
```"""


def answer() -> Schema:
    replies = {
        "200": {
            "description": "La risposta.\n\n" + _EVENTS_ABOUT.format(stream=examples.stream()),
            "headers": faults.REQUEST_ID,
            "content": {
                _JSON: _content(SCHEMAS.reference(AnswerReply), examples.answers()),
                "text/event-stream": _content({"$ref": "#/components/schemas/Evento"}, examples.events()),
            },
        },
        "202": _reply(
            'Preso in carico (`"modo": "differito"`), e non ancora fatto.',
            SCHEMAS.reference(ReceiptReply),
            examples.receipt(),
        ),
    }
    return {
        "operationId": "ask",
        "tags": ["lavori"],
        "summary": "Manda un lavoro e riceve la risposta",
        "description": "Intera, a pezzi, o più tardi. Può durare 300 secondi: chi chiama ne aspetti qualcuno di più.",
        "parameters": [_idempotency_key()],
        "requestBody": _body(SCHEMAS.reference(CompletionBody), examples.REQUESTS),
        "security": [{"chiave": []}],
        "responses": replies | faults.responses("/api.php"),
    }


def collect() -> Schema:
    return {
        "operationId": "collect",
        "tags": ["lavori"],
        "summary": "Ritira un lavoro differito",
        "description": "Si può ritirare quante volte si vuole, per 30 giorni. Il provider viene interrogato al "
        "massimo una volta ogni 20 secondi.",
        "requestBody": _body(SCHEMAS.reference(NumberBody), examples.COLLECTION),
        "security": [{"chiave": []}],
        "responses": {
            "200": _reply("A che punto è.", SCHEMAS.reference(StateReply), examples.states()),
            **faults.responses("/pratica.php"),
        },
    }


def capabilities() -> Schema:
    return {
        "operationId": "getCapabilities",
        "tags": ["progetto"],
        "summary": "Dice che cosa può fare il progetto",
        "description": "Per accendere le funzioni solo quando esistono. Non conta per il limite orario.",
        "requestBody": _body(SCHEMAS.reference(ProjectBody), examples.QUESTION),
        "security": [{"chiave": []}],
        "responses": {
            "200": _reply(
                "Tutto quello che può.", SCHEMAS.reference(CapabilitiesReply), examples.capabilities()
            ),
            **faults.responses("/capacita.php"),
        },
    }


def knowledge() -> Schema:
    actions = {
        "oneOf": [SCHEMAS.reference(kind) for kind in ACTIONS.values()],
        "discriminator": {
            "propertyName": "azione",
            "mapping": {word: SCHEMAS.reference(kind)["$ref"] for word, kind in ACTIONS.items()},
        },
    }
    told = {"anyOf": [SCHEMAS.reference(kind) for kind in (UploadedReply, ShelfReply, RemovedReply)]}
    return {
        "operationId": "manageKnowledge",
        "tags": ["progetto"],
        "summary": "Carica, elenca e toglie i documenti del progetto",
        "description": "I documenti che si caricano una volta e in cui Pepper pesca a ogni domanda.",
        "requestBody": _body(actions, examples.ACTIONS),
        "security": [{"chiave": []}],
        "responses": {
            "200": _reply("Fatto: la risposta è quella dell'azione chiesta.", told, examples.knowledge()),
            **faults.responses("/conoscenza.php"),
        },
    }


def state() -> Schema:
    def said(*, fine: bool) -> Schema:
        return _content({"type": "object", "required": ["ok"], "properties": {"ok": {"const": fine}}})

    return {
        "operationId": "getState",
        "tags": ["gestione"],
        "summary": "Dice se Pepper è vivo",
        "description": "Anche con `HEAD`. Senza chiave.",
        "parameters": [
            {
                "name": "pronto",
                "in": "query",
                "description": "Con `1` dice anche se tutto quello che gli serve risponde.",
                "schema": {"enum": ["1"]},
            }
        ],
        "security": [],
        "responses": {
            "200": {
                "description": "Vivo.",
                "headers": faults.REQUEST_ID,
                "content": {_JSON: said(fine=True)},
            },
            "503": {
                "description": "Vivo, ma qualcosa che gli serve non risponde (solo con `pronto=1`).",
                "headers": faults.REQUEST_ID | faults.RETRY_AFTER,
                "content": {_JSON: said(fine=False)},
            },
        },
    }


def metrics() -> Schema:
    return {
        "operationId": "getMetrics",
        "tags": ["gestione"],
        "summary": "Le misure, nel formato di Prometheus",
        "description": "A chi mostra il token; senza, alla macchina stessa.",
        "security": [{"misure": []}, {}],
        "responses": {
            "200": {
                "description": "Le misure.",
                "headers": faults.REQUEST_ID,
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            **faults.responses("/metrics"),
        },
    }


def notice() -> Schema:
    signed = (
        "`t=SECONDI,v1=FIRMA`: quando è partito, e l'HMAC-SHA-256 esadecimale di quei secondi, un punto e il corpo, "
        "con il segreto del progetto."
    )
    parameters = [
        ("X-Pepper-Firma", signed, r"^t=[0-9]{1,12},v1=[0-9a-f]{64}$"),
        ("X-Pepper-Avviso", "Il nome dell'avviso, lo stesso a ogni tentativo.", "^avv_[0-9a-f]{24}$"),
    ]
    return {
        "operationId": "noticeOfEndedWork",
        "tags": ["lavori"],
        "summary": "Avvisa il progetto che una pratica è finita",
        "description": "Solo se il gestore ha dato al progetto un indirizzo. Si controlla la firma, si risponde subito, "
        "si ritira dopo. Senza un 2xx si riprova, sette volte in circa nove ore.",
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": about,
                "schema": {"type": "string", "pattern": pattern},
            }
            for name, about, pattern in parameters
        ],
        "requestBody": _body(SCHEMAS.reference(NoticeBody), examples.notice()),
        "responses": {"2XX": {"description": "Ricevuto, entro 10 secondi."}},
    }


def _idempotency_key() -> Schema:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Per ripetere senza pagare due volte: entro un'ora la stessa chiave riceve la stessa risposta. "
        "Il differito la ignora.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_IDEMPOTENCY_KEY_CHARACTERS,
            "pattern": r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$",
        },
        "example": "pratica-4711-1",
    }


def _body(schema: Schema, told: examples.Examples) -> Schema:
    return {"required": True, "content": {_JSON: _content(schema, told)}}


def _reply(about: str, schema: Schema, told: examples.Examples) -> Schema:
    return {
        "description": about,
        "headers": faults.REQUEST_ID,
        "content": {_JSON: _content(schema, told)},
    }


def _content(schema: Schema, told: examples.Examples | None = None) -> Schema:
    if not told:
        return {"schema": schema}
    return {"schema": schema, "examples": {_key(name): _example(name, value) for name, value in told.items()}}


def _key(name: str) -> str:
    """A name as a component's key may be."""
    return name.replace(" ", "_")


def _example(name: str, value: object) -> Schema:
    return {"summary": name, "value": value}
