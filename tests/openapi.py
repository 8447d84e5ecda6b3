"""The contract's OpenAPI document as a judge: what is sent and told must be what it says, and nothing more."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import httpx
import jsonschema

from gateway import __version__
from gateway.wire.openapi.document import document


@cache
def contract() -> dict[str, Any]:
    return document(__version__)


@cache
def closed() -> dict[str, Any]:
    """The same with no room for fields that it doesn't know."""
    told = copy.deepcopy(contract())
    for schema in told["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return told


def check(value: Any, schema: dict[str, Any], told: dict[str, Any] | None = None) -> None:
    """Fails unless the value is of the schema, whose references lead into the document."""
    whole = {**schema, "components": (told or closed())["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


def fits(value: Any, schema: dict[str, Any], told: dict[str, Any] | None = None) -> bool:
    try:
        check(value, schema, told)
    except jsonschema.ValidationError:
        return False
    return True


def operation(address: str) -> dict[str, Any]:
    [found] = closed()["paths"][address].values()
    return found  # type: ignore[no-any-return]


def request_schema(address: str) -> dict[str, Any]:
    return operation(address)["requestBody"]["content"]["application/json"]["schema"]  # type: ignore[no-any-return]


def check_reply(address: str, response: httpx.Response) -> Any:
    """Fails unless the reply is one that the document has for the address; its JSON, or its events."""
    told = operation(address)["responses"]
    assert str(response.status_code) in told, (address, response.status_code, response.text)
    reply = told[str(response.status_code)]
    for name, reference in reply["headers"].items():
        header = closed()["components"]["headers"][reference["$ref"].rpartition("/")[2]]
        value: Any = response.headers[name]
        check(int(value) if header["schema"]["type"] == "integer" else value, header["schema"])
    kind = response.headers["content-type"].partition(";")[0]
    schema = reply["content"][kind]["schema"]
    if kind == "text/event-stream":
        events = events_of(response.text)
        for event in events:
            check(event, schema)
        return events
    if kind == "text/plain":
        check(response.text, schema)
        return response.text
    check(response.json(), schema)
    return response.json()


def events_of(text: str) -> list[dict[str, Any]]:
    """A stream's events as the document describes them; comments are none."""
    blocks = [block.split("\n") for block in text.removesuffix("\n\n").split("\n\n")]
    found = [dict(line.split(": ", 1) for line in lines) for lines in blocks if not lines[0].startswith(":")]
    return [{"event": block["event"], "data": json.loads(block["data"])} for block in found]
