"""The REST API as OpenAPI 3.1, made from the operations, their types and the English catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gateway.dilem.content import examples
from gateway.dilem.content.fields import kind_of
from gateway.dilem.content.reference import JSON
from gateway.dilem.content.site import DEFAULT_LANGUAGE, NAME, Site, docs_path
from gateway.dilem.content.words import Words, words_in
from gateway.dilem.contract import VERSION, CaseId, DecisionResponse, Error, ResultId
from gateway.dilem.errors import CODES
from gateway.dilem.operations import API, CASE_HEADER, DECIDE, OPERATIONS, PNG, Operation
from gateway.dilem.schemas import Schema, schema_of, schemas_of

SECURITY = "session"
_WAITING = frozenset({408, 429, 503})
"""The statuses whose replies say when to come back, if it is known."""
_REFUSALS = {
    403: "Forbidden",
    404: "NotFound",
    408: "Timeout",
    409: "Conflict",
    413: "TooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooMany",
    503: "Unavailable",
}
"""The shared replies, by their status."""


def openapi(site: Site) -> dict[str, Any]:
    """Give the document."""
    words = words_in(DEFAULT_LANGUAGE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": NAME,
            "version": VERSION,
            "summary": words.page.description,
            "description": words.page.lead,
            "contact": {"name": NAME, "email": site.contact, "url": site.url(docs_path(DEFAULT_LANGUAGE))},
        },
        "servers": [{"url": site.base}],
        "externalDocs": {"url": site.url(docs_path(DEFAULT_LANGUAGE)), "description": words.page.title},
        "paths": _paths(words),
        "components": {
            "schemas": _components(words),
            "responses": {name: _refusal(status) for status, name in _REFUSALS.items()},
            "headers": {
                "RequestId": {
                    "description": "Names this exchange; tell it when asking about one.",
                    "required": True,
                    "schema": {"type": "string"},
                },
                "RetryAfter": {
                    "description": "Seconds to wait, when they are known.",
                    "schema": {"type": "integer", "minimum": 0},
                },
            },
            "securitySchemes": {
                SECURITY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": words.fields["Authorization"],
                }
            },
        },
    }


def _paths(words: Words) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(API + operation.path, {})[operation.method.lower()] = _operation(operation, words)
    return paths


def _operation(operation: Operation, words: Words) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": words.tools[operation.name],
        "security": [{}, {SECURITY: []}] if operation.anonymous else [{SECURITY: []}],
    }
    parameters = list(_parameters(operation, words))
    if parameters:
        told["parameters"] = parameters
    if operation.body is not None:
        told["requestBody"] = {
            "required": True,
            "content": {
                JSON: {
                    "schema": _ref("schemas", operation.body.__name__),
                    "example": examples.REQUESTS[operation.name],
                }
            },
        }
    refusals = {str(status): _ref("responses", _REFUSALS[status]) for status in operation.statuses}
    told["responses"] = {"200": _success(operation, words), **refusals}
    return told


def _parameters(operation: Operation, words: Words) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": words.fields[name],
            "schema": schema_of(ResultId),
        }
    if operation.takes_case is not None:
        yield {
            "name": CASE_HEADER,
            "in": "header",
            "required": operation.takes_case == "required",
            "description": words.fields[CASE_HEADER],
            "schema": schema_of(CaseId),
        }


def _success(operation: Operation, words: Words) -> dict[str, Any]:
    headers: dict[str, Any] = {"X-Request-ID": _ref("headers", "RequestId")}
    if operation.response_name == PNG:
        headers["Content-Disposition"] = {
            "description": "An attachment, with its file name.",
            "required": True,
            "schema": {"type": "string"},
        }
        return {
            "description": words.reference.image,
            "headers": headers,
            "content": {PNG: {"schema": {"type": "string", "contentMediaType": PNG}}},
        }
    media: dict[str, Any] = {"schema": _ref("schemas", operation.response_name)}
    if operation is DECIDE:
        told = (examples.CLARIFICATION, examples.RESULT, examples.ERROR)
        media["examples"] = {example["type"]: {"value": example} for example in told}
    else:
        media["example"] = examples.RESPONSES[operation.name]
    return {"description": operation.response_name, "headers": headers, "content": {JSON: media}}


# --- refusals -----------------------------------------------------------------------------------------------------


def _refusal(status: int) -> dict[str, Any]:
    codes = ", ".join(f"`{code.code}`" for code in CODES if code.status == status)
    headers = {"X-Request-ID": _ref("headers", "RequestId")}
    if status in _WAITING:
        headers["Retry-After"] = _ref("headers", "RetryAfter")
    return {
        "description": f"One of {codes}.",
        "headers": headers,
        "content": {JSON: {"schema": _ref("schemas", Error.__name__)}},
    }


# --- schemas ------------------------------------------------------------------------------------------------------


def _components(words: Words) -> dict[str, Schema]:
    kinds = [kind for each in OPERATIONS for kind in (each.body, each.response) if kind is not None]
    (decision, *_), components = schemas_of([DecisionResponse, *kinds, Error])
    told = {name: _described(name, schema, words) for name, schema in components.items()}
    return {DECIDE.response_name: decision, **told}


def _described(owner: str, schema: Schema, words: Words) -> Schema:
    members = {
        name: {"description": words.meaning(owner, name), **_typed(member)}
        for name, member in schema["properties"].items()
    }
    return {**schema, "properties": members}


def _typed(schema: Schema) -> Schema:
    """Say the type also where the values allowed have said it: readers of OpenAPI look for it."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_typed(option) for option in schema["anyOf"]]}
    if "type" in schema or not schema.keys() & {"const", "enum"}:
        return schema
    return {"type": kind_of(schema), **schema}


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
