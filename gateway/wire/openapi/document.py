"""The OpenAPI document of the contract: every address, what it takes, and every reply it may give."""

from __future__ import annotations

from typing import Any

from gateway.domain.errors import METHOD_NOT_ALLOWED, UNKNOWN_ADDRESS
from gateway.wire.openapi import operations
from gateway.wire.openapi.described import SCHEMAS
from gateway.wire.openapi.schemas import Schema
from gateway.wire.sse import EVENTS

_ABOUT = """\
Il contratto di Pepper: JSON in italiano, sempre con lo stesso aspetto, chiunque risponda.

- **La chiave** del progetto va in `X-Pepper-Key`. Una chiave apre il suo progetto e nient'altro.
- **Gli errori** hanno tutti la stessa forma: si decide dal codice HTTP e da `codice`. Con `429`, `502` e `503` si può \
ripetere, dopo i secondi di `Retry-After`; gli altri vanno corretti.
- **Campi nuovi** possono aggiungersi alle risposte: quelli che non si conoscono si ignorano.
- Un altro metodo a questi indirizzi riceve `{method}` con `Allow`, un altro indirizzo \
`{address.status} {address.code}`, nella stessa forma.

Tutto il resto è nella [documentazione](/docs/it/contratto/)."""


def document(version: str) -> dict[str, Any]:
    """Give the whole document; `version` is the gateway's."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pepper",
            "version": version,
            "summary": "Un solo indirizzo per più provider di AI",
            "description": _ABOUT.format(method=METHOD_NOT_ALLOWED.status, address=UNKNOWN_ADDRESS),
            "license": {"name": "MIT"},
        },
        "servers": [{"url": "/", "description": "Questo gateway"}],
        "tags": [
            {"name": "lavori", "description": "Un lavoro, subito o più tardi"},
            {"name": "progetto", "description": "Che cosa può fare il progetto, e i suoi documenti"},
            {"name": "gestione", "description": "Per chi gestisce il gateway"},
        ],
        "paths": {
            "/api.php": {"post": operations.answer()},
            "/pratica.php": {"post": operations.collect()},
            "/capacita.php": {"post": operations.capabilities()},
            "/conoscenza.php": {"post": operations.knowledge()},
            "/stato.php": {"get": operations.state()},
            "/metrics": {"get": operations.metrics()},
        },
        "webhooks": {"praticaFinita": {"post": operations.notice()}},
        "components": {
            "schemas": SCHEMAS.components() | {"Evento": _event(), **_frames()},
            "securitySchemes": {
                "chiave": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Pepper-Key",
                    "description": "La chiave del progetto: `pk_` e 43 caratteri, una sola per richiesta.",
                },
                "misure": {"type": "http", "scheme": "bearer", "description": "`PEPPER_METRICS_TOKEN`"},
            },
            "headers": _headers(),
        },
    }


def _headers() -> Schema:
    return {
        "X-Request-Id": {
            "required": True,
            "description": "L'id della richiesta: da citare quando si segnala un problema.",
            "schema": {"type": "string", "pattern": "^req_[0-9a-f]{27}$"},
        },
        "Retry-After": {
            "required": True,
            "description": "Secondi dopo i quali ha senso ripetere.",
            "schema": {"type": "integer", "minimum": 0},
        },
    }


def _event() -> Schema:
    references = {name: f"#/components/schemas/{_frame_name(name)}" for name in EVENTS}
    return {
        "description": "Un evento della risposta a pezzi.",
        "oneOf": [{"$ref": reference} for reference in references.values()],
        "discriminator": {"propertyName": "event", "mapping": references},
    }


def _frames() -> dict[str, Schema]:
    return {
        _frame_name(name): {
            "type": "object",
            "required": ["event", "data"],
            "properties": {"event": {"const": name}, "data": SCHEMAS.reference(kind)},
        }
        for name, kind in EVENTS.items()
    }


def _frame_name(event: str) -> str:
    return "Evento_" + event
