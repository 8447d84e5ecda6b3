"""The REST API as OpenAPI tells it: valid, what the contract says, what is really answered, and one with MCP and pages."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from gateway.dilem import rehearsal
from gateway.dilem.content.fields import as_json, fields_of
from gateway.dilem.contract import LANGUAGES, Clarification, Error, Result
from gateway.dilem.operations import API, CASE_HEADER, MCP, OPERATIONS
from tests.e2e.agents import JSON, QUESTION, fresh_case
from tests.e2e.harness import Gateway
from tests.e2e.pages import member_groups, read_html

BASE = "https://dilem.example"
ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_BASE_URL": BASE,
    "PEPPER_DILEM_DAILY_LIMIT": str(len(rehearsal.WORDS) + 1),
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "1000",
    "PEPPER_DILEM_IP_PER_MINUTE": "100000",
    "PEPPER_TRUSTED_PROXIES": "127.0.0.1",
}
COMMON = {"403", "408", "409", "413", "422", "429", "503"}
SURFACE = {
    ("post", "/api/v1/session"): ("start_session", COMMON),
    ("get", "/api/v1/usage"): ("get_usage", COMMON),
    ("post", "/api/v1/decide"): ("decide", COMMON),
    ("post", "/api/v1/result-card"): ("export_result_card", COMMON | {"415"}),
    ("get", "/api/v1/feedback/{result_id}"): ("get_result_feedback", COMMON | {"404"}),
    ("post", "/api/v1/feedback"): ("set_result_feedback", COMMON | {"415", "404"}),
    ("post", "/api/v1/user-feedback"): ("send_user_feedback", COMMON | {"415"}),
}
ID = "0123456789abcdef0123456789abcdef"
REPORT: dict[str, Any] = {
    "request_id": ID,
    "kind": "response",
    "message": "Non mi convince.",
    "email": "",
    "language": "it",
    "source": "agent",
    "version": "unknown",
    "screen": "result",
    "response": {"kind": "recommendation", "text": "Treno.", "reference": "caso-1"},
}
_addresses = itertools.count(1)


@pytest.fixture(scope="module")
def backend() -> str:
    """What the stores have to do with the answers, test_dilem_rest.py tries on both."""
    return "embedded"


@pytest.fixture(scope="module")
def served(served: Gateway) -> Gateway:
    assert served.command("project", "set", "dilem", "--sandbox").returncode == 0
    return served


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    address = {"x-forwarded-for": f"198.51.100.{next(_addresses)}"}
    async with httpx.AsyncClient(base_url=gateway.address, headers=address, timeout=60) as client:
        yield client


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/openapi.json")).json()
    return found


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def _resolved(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        found: Any = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


# --- what the contract says -----------------------------------------------------------------------------------------


def test_it_is_valid(document: dict[str, Any]) -> None:
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_the_seven_operations_and_their_statuses(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1.1.0"
    assert document["servers"] == [{"url": BASE}]
    told = {
        (method, path): (operation["operationId"], set(operation["responses"]) - {"200"})
        for method, path, operation in _operations(document)
    }
    assert told == SURFACE
    assert document["components"]["securitySchemes"]["session"] | {"description": ""} == {
        "type": "http",
        "scheme": "bearer",
        "description": "",
    }
    for _, _, operation in _operations(document):
        anonymous: list[dict[str, Any]] = [{}] if operation["operationId"] == "start_session" else []
        assert operation["security"] == [*anonymous, {"session": []}]
        success = operation["responses"]["200"]["content"]
        media = "image/png" if operation["operationId"] == "export_result_card" else "application/json"
        assert list(success) == [media]
        for status, response in operation["responses"].items():
            response = _resolved(document, response)  # noqa: PLW2901
            assert "X-Request-ID" in response["headers"]
            assert ("Retry-After" in response["headers"]) == (status in {"408", "429", "503"})
            if status != "200":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Error"}


def test_what_requests_carry(document: dict[str, Any]) -> None:
    operations = {operation["operationId"]: operation for _, _, operation in _operations(document)}
    bodies = {
        name: operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for name, operation in operations.items()
        if "requestBody" in operation
    }
    assert bodies == {
        "decide": "DecideRequest",
        "export_result_card": "CardRequest",
        "set_result_feedback": "FeedbackRequest",
        "send_user_feedback": "UserFeedback",
    }
    parameters = {
        name: [(each["in"], each["name"], each["required"]) for each in operation.get("parameters", ())]
        for name, operation in operations.items()
    }
    assert parameters == {
        "start_session": [],
        "get_usage": [("header", CASE_HEADER, False)],
        "decide": [("header", CASE_HEADER, True)],
        "export_result_card": [],
        "get_result_feedback": [("path", "result_id", True)],
        "set_result_feedback": [],
        "send_user_feedback": [],
    }


def test_the_components(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    languages = list(LANGUAGES)

    def bare(name: str) -> dict[str, Any]:
        told = dict(schemas[name]["properties"])
        return {
            member: {key: value for key, value in schema.items() if key != "description"}
            for member, schema in told.items()
        }

    assert bare("Session") == {
        "session": {"type": "string"},
        "expires_in": {"type": "integer", "const": 7_776_000},
    }
    assert bare("Error") == {
        "type": {"type": "string", "const": "error"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "resets_at": {"type": "string", "format": "date-time"},
    }
    assert bare("DecideRequest") == {
        "text": {"type": "string", "minLength": 1, "maxLength": 6000},
        "language": {"type": "string", "enum": languages},
        "refinements": {
            "type": "array",
            "maxItems": 40,
            "items": {"type": "string", "maxLength": 6000},
            "default": [],
        },
        "force_decision": {"type": "boolean", "default": False},
        "clarification_count": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
        "clarification_version": {"type": "integer", "const": 2, "default": 2},
    }
    assert bare("CardOption") == {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"},
        "label": {"type": "string", "minLength": 1, "maxLength": 120},
        "description": {"type": "string", "maxLength": 240, "default": ""},
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
    }
    assert bare("CardResult") == {
        "summary": {"type": "string", "minLength": 1, "maxLength": 6000},
        "selected": {"type": "string", "maxLength": 32},
        "options": {
            "type": "array",
            "minItems": 2,
            "maxItems": 8,
            "items": {"$ref": "#/components/schemas/CardOption"},
        },
    }
    assert bare("FeedbackAck") == {"ok": {"type": "boolean", "const": True}}
    assert schemas["DecisionResponse"]["discriminator"]["propertyName"] == "type"
    assert [each["$ref"].rpartition("/")[2] for each in schemas["DecisionResponse"]["oneOf"]] == [
        "Clarification",
        "Result",
        "Error",
    ]
    required = {
        "Session": ["session", "expires_in"],
        "Usage": ["day", "resets_at", "collective", "dilemmas", "case", "voice", "budget"],
        "Error": ["type", "code"],
        "DecideRequest": ["text", "language"],
        "Clarification": ["type", "question", "choices", "format", "summary"],
        "Result": ["type", "summary", "options", "selected", "sources"],
        "CardOption": ["id", "label", "probability"],
        "CardResult": ["summary", "selected", "options"],
        "CardRequest": ["result"],
        "Feedback": ["result_id", "helpful", "reason"],
        "FeedbackRequest": ["result_id", "helpful"],
        "FeedbackAck": ["ok"],
        "ReportedResponse": ["kind", "text", "reference"],
        "UserFeedback": list(REPORT),
    }
    for name, members in required.items():
        assert schemas[name]["required"] == members, name
    strict = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    assert strict == {"DecideRequest", "CardRequest", "FeedbackRequest", "UserFeedback", "ReportedResponse"}


# --- what is really answered ----------------------------------------------------------------------------------------


class Held:
    """A client whose every answer is held to the document; `seen` says which of it was met."""

    def __init__(self, client: httpx.AsyncClient, document: dict[str, Any]) -> None:
        self._client = client
        self._document = document
        self.seen: set[tuple[str, int]] = set()

    async def call(self, name: str, headers: dict[str, str] | None = None, **how: Any) -> httpx.Response:
        method, path, operation = next(
            each for each in _operations(self._document) if each[2]["operationId"] == name
        )
        path = path.replace("{result_id}", how.pop("result_id", ID))
        response = await self._client.request(method.upper(), path, headers=headers, **how)
        told = _resolved(self._document, operation["responses"][str(response.status_code)])
        media = response.headers["content-type"]
        assert media in told["content"], (name, response.status_code)
        for header, what in told["headers"].items():
            what = _resolved(self._document, what)  # noqa: PLW2901
            value = response.headers.get(header)
            assert value is not None or not what.get("required"), (name, header)
            if value is not None and what["schema"]["type"] == "integer":
                assert value.isdecimal()
        if media == "application/json":
            schema = {**told["content"][media]["schema"], "components": self._document["components"]}
            Draft202012Validator(schema).validate(response.json())
        self.seen.add((name, response.status_code))
        return response


async def test_every_answer_is_as_described(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    held = Held(client, document)
    token = (await held.call("start_session")).json()["session"]
    known = {"authorization": f"Bearer {token}"}
    await held.call("start_session", known, json={})
    await held.call("start_session", {"authorization": "Bearer nobody-knows-this-token"})
    await held.call("start_session", known, json={"session": token})

    case = known | {CASE_HEADER: fresh_case()}
    await held.call("get_usage", known)
    await held.call("get_usage")
    await held.call("get_usage", known | {CASE_HEADER: "no case"})

    asked = {"text": QUESTION, "language": "it"}
    question = (await held.call("decide", case, json=asked)).json()
    assert question["type"] == "clarification"
    await held.call("get_usage", case)
    told = {"text": "Treno o auto? [[prova:risultato]]", "language": "it"}
    result = (await held.call("decide", case, json=told)).json()
    assert result["type"] == "result"
    await held.call("decide", case, json=told)
    await held.call("decide", known, json=told)
    await held.call("decide", known | {CASE_HEADER: fresh_case()} | JSON, content=b"x" * 300_001)

    card = {"result": result, "language": "pt", "theme": "dark"}
    image = await held.call("export_result_card", known, json=card)
    assert image.content.startswith(b"\x89PNG")
    await held.call("export_result_card", known, json=card | {"theme": "blue"})
    await held.call("export_result_card", known | {"content-type": "text/plain"}, content=b"{}")
    await held.call("export_result_card", json=card)

    await held.call("get_result_feedback", known, result_id=result["result_id"])
    await held.call("get_result_feedback", known, result_id=ID)
    await held.call("get_result_feedback", known, result_id="none")
    vote = {"result_id": result["result_id"], "helpful": False, "reason": "too_vague"}
    await held.call("set_result_feedback", known, json=vote)
    await held.call("set_result_feedback", known, json=vote | {"helpful": True})
    await held.call("set_result_feedback", known, json=vote | {"result_id": ID})
    await held.call("set_result_feedback", known | {"content-type": "text/plain"}, content=b"{}")

    await held.call("send_user_feedback", known, json=REPORT)
    await held.call("send_user_feedback", known, json=REPORT | {"message": "Altro testo."})
    await held.call("send_user_feedback", known, json=REPORT | {"kind": "general"})
    await held.call("send_user_feedback", known | {"content-type": "text/plain"}, content=b"{}")
    for _ in range(6):
        another = REPORT | {"request_id": f"{next(_addresses):032x}"}
        await held.call("send_user_feedback", known, json=another)

    assert held.seen == {
        ("start_session", 200),
        ("start_session", 403),
        ("start_session", 422),
        ("get_usage", 200),
        ("get_usage", 403),
        ("get_usage", 422),
        ("decide", 200),
        ("decide", 409),
        ("decide", 422),
        ("decide", 413),
        ("export_result_card", 200),
        ("export_result_card", 403),
        ("export_result_card", 415),
        ("export_result_card", 422),
        ("get_result_feedback", 200),
        ("get_result_feedback", 404),
        ("get_result_feedback", 422),
        ("set_result_feedback", 200),
        ("set_result_feedback", 404),
        ("set_result_feedback", 415),
        ("set_result_feedback", 422),
        ("send_user_feedback", 200),
        ("send_user_feedback", 409),
        ("send_user_feedback", 415),
        ("send_user_feedback", 422),
        ("send_user_feedback", 429),
    }


async def test_every_outcome_of_a_turn_is_as_described(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    """The sandbox's words for outcomes; they take a day's credits, until there are none."""
    held = Held(client, document)
    known = {"authorization": f"Bearer {(await held.call('start_session')).json()['session']}"}
    kinds = set()
    for word in (*rehearsal.WORDS, "richiesta_rifiutata"):
        text = f"Treno o auto? [[prova:{word}]]"
        response = await held.call(
            "decide", known | {CASE_HEADER: fresh_case()}, json={"text": text, "language": "it"}
        )
        kinds.add(response.json()["type"])
    assert kinds == {"clarification", "result", "error"}
    last = await held.call(
        "decide", known | {CASE_HEADER: fresh_case()}, json={"text": "Treno o auto?", "language": "it"}
    )
    assert (last.status_code, last.json()["code"]) == (429, "credits_exhausted")
    assert int(last.headers["retry-after"]) > 0


# --- one source -----------------------------------------------------------------------------------------------------


async def test_types_documents_and_tools_agree(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """Names, needs, defaults, values and bounds of every member: in the structs, OpenAPI, MCP and the pages."""
    transport = httpx.AsyncHTTPTransport(local_address="127.0.74.1")
    async with httpx.AsyncClient(base_url=str(client.base_url), transport=transport, timeout=30) as mcp:
        listed = await mcp.post(MCP, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    tools = {tool["name"]: tool["inputSchema"] for tool in listed.json()["result"]["tools"]}
    page = read_html((await client.get("/en/docs/")).text)
    described = {operation["operationId"]: operation for _, _, operation in _operations(document)}
    for operation in OPERATIONS:
        section = page.with_id(f"tool-{operation.name}")
        groups = member_groups(section)
        arguments = {field.name: field for field in fields_of(operation.arguments)}
        schema = tools[operation.name]
        assert list(schema["properties"]) == list(arguments)
        assert schema["additionalProperties"] is False
        assert schema.get("required", []) == [name for name, field in arguments.items() if field.required]
        for (name, kind, note, _), field in zip(groups[0], arguments.values(), strict=True):
            told = schema["properties"][name]
            assert (name, kind) == (field.name, field.literal_type)
            assert ("required" in note, "optional" in note) == (field.required, not field.required)
            assert ("default" in told) == (not field.required)
            if not field.required:
                assert told["default"] == field.default
                assert f"Default: {as_json(field.default)}" in note
            _bounds_agree(told, field.schema)
        bodies = [operation.body] if operation.body else []
        answers = (
            [Clarification, Result]
            if operation.name == "decide"
            else [operation.response]
            if operation.response
            else []
        )
        shown = groups[2:] if "{" not in operation.path else groups[3:]
        kinds = [*bodies, *answers, *([Error] if operation.name == "decide" else []), Error]
        assert len(shown) == len(kinds)
        for rows, struct in zip(shown, kinds, strict=True):
            component = document["components"]["schemas"][struct.__name__]
            fields = fields_of(struct)
            assert [row[0] for row in rows] == list(component["properties"])
            for row, field in zip(rows, fields, strict=True):
                told = component["properties"][row[0]]
                assert row[1] == field.type
                assert ("required" in row[2].split()) == field.required == (row[0] in component["required"])
                assert row[3] == [inner.name for inner in field.fields]
                assert told["description"].replace("`", "") in row[2]
                for value in field.values:
                    assert value in row[2]
                _bounds_agree(told, field.schema)
        statuses = " · ".join(map(str, operation.statuses))
        assert f"{statuses} application/json" in section.text
        assert set(described[operation.name]["responses"]) == {"200", *map(str, operation.statuses)}
        assert f"{operation.method} {API}{operation.path}" in re.sub(r"\s+", " ", section.text)


def _bounds_agree(told: dict[str, Any], schema: dict[str, Any]) -> None:
    """A published schema has what the struct is held to; a reference is followed by its own comparison."""
    options = [told, *told.get("anyOf", ())]
    for word in (
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "enum",
        "const",
    ):
        if word in schema:
            assert any(option.get(word) == schema[word] for option in options), (word, told, schema)
