"""The errors of each address as OpenAPI's responses: which of the table's faults may come, by their status."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gateway.domain import errors
from gateway.domain.errors import CONTRACT_FAULTS, Fault
from gateway.wire.openapi import examples

REQUEST_ID: dict[str, Any] = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
RETRY_AFTER: dict[str, Any] = {"Retry-After": {"$ref": "#/components/headers/Retry-After"}}
WAITING = frozenset({429, 503})
"""Statuses that say how long to wait."""

_ALWAYS = (
    errors.INVALID_REQUEST,
    errors.UNAUTHORIZED,
    errors.BODY_TOO_SLOW,
    errors.CONTENT_TOO_LARGE,
    errors.TOO_MANY_REQUESTS,
    errors.INTERNAL_ERROR,
    errors.STORE_UNAVAILABLE,
)
_ELSEWHERE = frozenset(
    {
        errors.UNKNOWN_BATCH,
        errors.KNOWLEDGE_NOT_ENABLED,
        errors.UNKNOWN_DOCUMENT,
        errors.TOO_MANY_DOCUMENTS,
        errors.KNOWLEDGE_WITHOUT_KEY,
    }
)
"""Of the contract's, what `/api.php` says only where the sandbox is asked for it."""

BY_ADDRESS: dict[str, tuple[Fault, ...]] = {
    "/api.php": tuple(dict.fromkeys((*_ALWAYS, *CONTRACT_FAULTS))),
    "/pratica.php": (*_ALWAYS, errors.UNKNOWN_BATCH, errors.PROVIDER_UNAVAILABLE),
    "/capacita.php": _ALWAYS,
    "/conoscenza.php": (
        *_ALWAYS,
        errors.KNOWLEDGE_NOT_ENABLED,
        errors.UNKNOWN_DOCUMENT,
        errors.TOO_MANY_DOCUMENTS,
        errors.BUDGET_EXHAUSTED,
        errors.PROVIDER_ERROR,
        errors.PROVIDER_UNAVAILABLE,
        errors.KNOWLEDGE_WITHOUT_KEY,
    ),
    "/metrics": (errors.UNAUTHORIZED, errors.INTERNAL_ERROR),
}


def responses(address: str) -> dict[str, Any]:
    """Give the error responses of an address, by their status."""
    found: defaultdict[int, list[Fault]] = defaultdict(list)
    for fault in BY_ADDRESS[address]:
        found[fault.status].append(fault)
    return {str(status): _response(status, found[status], address) for status in sorted(found)}


def _response(status: int, faults: list[Fault], address: str) -> dict[str, Any]:
    codes = list(dict.fromkeys(fault.code for fault in faults))
    return {
        "description": "\n".join(_line(fault, address) for fault in faults),
        "headers": REQUEST_ID | (RETRY_AFTER if status in WAITING else {}),
        "content": {
            "application/json": {
                "schema": {
                    "allOf": [
                        {"$ref": "#/components/schemas/Errore"},
                        {"properties": {"errore": {"properties": {"codice": {"enum": codes}}}}},
                    ]
                },
                "examples": {code: {"value": told} for code, told in examples.failures(faults).items()},
            }
        },
    }


def _line(fault: Fault, address: str) -> str:
    only = " Qui soltanto in un progetto di prova." if address == "/api.php" and fault in _ELSEWHERE else ""
    return f"- `{fault.code}`: {fault.message}{only}"
