"""Dilem through the official MCP client, in both eras, on both places where things are kept and with two workers."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent, TextContent

from gateway.dilem.contract import CardFile, DecisionResponse, Error, Feedback, FeedbackAck, Session, Usage
from gateway.dilem.operations import MCP, OPERATIONS
from gateway.dilem.schemas import schema_of
from tests.e2e.agents import QUESTION, RESULT, fresh_case
from tests.e2e.harness import Gateway

WORKERS = 2
LIMIT = 6
ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_DAILY_LIMIT": str(LIMIT),
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "100000",
    "PEPPER_DILEM_IP_PER_MINUTE": "1000000",
    "PEPPER_TRUSTED_PROXIES": "127.0.0.1",
}
_addresses = itertools.count(1)
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
_SCHEMAS = {
    kind: Draft202012Validator(schema_of(kind))
    for kind in (Session, Usage, DecisionResponse, Feedback, FeedbackAck, Error, CardFile)
}
ANSWERS: dict[str, Any] = {operation.name: operation.response for operation in OPERATIONS}

LANGUAGE = {"enum": ["fr", "en", "it", "de", "es", "pt"], "default": "fr"}
SESSION = {"type": "string"}
RESULT_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
CASE_ID = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,80}$"}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    told = {"type": "object", "additionalProperties": False, "properties": properties}
    return told | ({"required": list(required)} if required else {})


def _nullable(kind: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}], "default": None}


CARD_OPTION = {
    "type": "object",
    "required": ["id", "label", "probability"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"},
        "label": {"type": "string", "minLength": 1, "maxLength": 120},
        "description": {"type": "string", "maxLength": 240, "default": ""},
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
CARD_RESULT = {
    "type": "object",
    "required": ["summary", "selected", "options"],
    "properties": {
        "summary": {"type": "string", "minLength": 1, "maxLength": 6000},
        "selected": {"type": "string", "maxLength": 32},
        "options": {"type": "array", "minItems": 2, "maxItems": 8, "items": CARD_OPTION},
    },
}
REPORTED = _closed(
    {
        "kind": {"enum": ["clarification", "recommendation"]},
        "text": {"type": "string", "minLength": 1, "maxLength": 12000},
        "reference": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,80}$"},
    },
    "kind",
    "text",
    "reference",
)
REASON = {"enum": ["misunderstood", "missing_constraint", "too_many_questions", "too_vague"]}
INPUTS = {
    "start_session": _closed({"session": _nullable(SESSION)}),
    "get_usage": _closed({"session": SESSION, "case_id": _nullable(CASE_ID)}, "session"),
    "decide": _closed(
        {
            "session": SESSION,
            "case_id": CASE_ID,
            "text": {"type": "string", "minLength": 1, "maxLength": 6000},
            "language": LANGUAGE,
            "refinements": _nullable(
                {"type": "array", "maxItems": 40, "items": {"type": "string", "maxLength": 6000}}
            ),
            "force_decision": {"type": "boolean", "default": False},
            "clarification_count": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
            "clarification_version": {"const": 2, "default": 2},
        },
        "session",
        "case_id",
        "text",
    ),
    "export_result_card": _closed(
        {
            "session": SESSION,
            "result": CARD_RESULT,
            "language": LANGUAGE,
            "theme": {"enum": ["light", "dark"], "default": "light"},
        },
        "session",
        "result",
    ),
    "get_result_feedback": _closed({"session": SESSION, "result_id": RESULT_ID}, "session", "result_id"),
    "set_result_feedback": _closed(
        {
            "session": SESSION,
            "result_id": RESULT_ID,
            "helpful": {"type": "boolean"},
            "reason": _nullable(REASON),
        },
        "session",
        "result_id",
        "helpful",
    ),
    "send_user_feedback": _closed(
        {
            "session": SESSION,
            "request_id": RESULT_ID,
            "message": {"type": "string", "minLength": 5, "maxLength": 4000},
            "language": LANGUAGE,
            "kind": {"enum": ["general", "response"], "default": "general"},
            "email": {"type": "string", "maxLength": 254, "default": ""},
            "response": _nullable(REPORTED),
        },
        "session",
        "request_id",
        "message",
    ),
}
HINTS = {  # read-only, destructive, idempotent, open world
    "start_session": (False, False, False, False),
    "get_usage": (True, False, True, False),
    "decide": (False, False, False, True),
    "export_result_card": (True, False, True, False),
    "get_result_feedback": (True, False, True, False),
    "set_result_feedback": (False, False, True, False),
    "send_user_feedback": (False, False, True, False),
}


@pytest.fixture(scope="module")
def served(served: Gateway) -> Gateway:
    assert served.command("project", "set", "dilem", "--sandbox").returncode == 0
    return served


class Agent:
    """An identity behind the official client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.token = ""

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        """Call a tool; whatever it says is of the contract."""
        token = {} if name == "start_session" or "session" in arguments else {"session": self.token}
        result = await self.client.call_tool(name, token | arguments)
        assert isinstance(result, CallToolResult)
        text = result.content[-1]
        assert isinstance(text, TextContent)
        assert json.loads(text.text) == result.structured_content
        kind = Error if result.is_error else ANSWERS[name] or CardFile
        _SCHEMAS[kind].validate(result.structured_content)
        return result

    async def done(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = await self.call(name, **arguments)
        assert not result.is_error, result.structured_content
        value: dict[str, Any] = result.structured_content
        return value

    async def refused(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert result.is_error
        return str(result.structured_content["code"])


@asynccontextmanager
async def opened(gateway: Gateway, mode: str) -> AsyncIterator[Agent]:
    """At an address of its own, so that no test counts for another."""
    number = next(_addresses)
    headers = {"x-forwarded-for": f"198.51.{number // 200}.{number % 200 + 1}"}
    async with create_mcp_http_client(headers) as http:
        transport = streamable_http_client(f"{gateway.address}{MCP}", http_client=http)
        async with Client(transport, mode=mode) as client:
            agent = Agent(client)
            agent.token = (await agent.done("start_session"))["session"]
            yield agent


@pytest.fixture(params=list(ERAS))
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_who_answers(gateway: Gateway, mode: str) -> None:
    async with Client(f"{gateway.address}{MCP}", mode=mode) as client:
        assert client.protocol_version == ERAS[mode]
        info = client.server_info
        assert info is not None
        assert (info.name, info.version) == ("dilem", "1.1.0")
        assert client.server_capabilities.model_dump(exclude_none=True) == {"tools": {}}
        assert "never show it" in (client.instructions or "")
        tools = (await client.list_tools()).tools
    assert {tool.name: tool.input_schema for tool in tools} == INPUTS
    assert [tool.name for tool in tools] == list(INPUTS)
    for tool in tools:
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.title
        assert tool.description
        assert "never show it" in tool.description
        hints = tool.annotations
        assert hints is not None
        told = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert told == HINTS[tool.name]
        assert tool.output_schema is None


async def test_the_life_of_a_dilemma(gateway: Gateway, mode: str) -> None:
    async with opened(gateway, mode) as agent:
        case = fresh_case()
        before = await agent.done("get_usage", case_id=case)
        assert before["case"] == {"id": case, "admitted": False, "completed": False}
        question = await agent.done("decide", case_id=case, text=QUESTION, language="it", refinements=None)
        assert question["type"] == "clarification"
        during = await agent.done("get_usage", case_id=case)
        assert during["dilemmas"] == {"used": 1, "limit": LIMIT, "remaining": LIMIT - 1}
        answers = [question["question"], "Il tempo."]
        result = await agent.done(
            "decide", case_id=case, text="Treno o auto?", refinements=answers, clarification_count=1.0
        )
        assert (result["type"], result["sources"]) == ("result", [])
        after = await agent.done("get_usage", case_id=case)
        assert after["case"] == {"id": case, "admitted": True, "completed": True}
        assert await agent.refused("decide", case_id=case, text=RESULT) == "case_completed"
        assert (await agent.done("get_usage"))["case"]["id"] is None
        renewed = await agent.done("start_session", session=agent.token)
        assert renewed == {"session": agent.token, "expires_in": 7_776_000}


async def test_a_card_is_an_image_and_its_facts(gateway: Gateway, mode: str) -> None:
    async with opened(gateway, mode) as agent:
        result = await agent.done("decide", case_id=fresh_case(), text=RESULT)
        told = await agent.call("export_result_card", result=result, language="pt", theme="dark")
        image, _ = told.content
        assert isinstance(image, ImageContent)
        assert image.mime_type == "image/png"
        png = base64.b64decode(image.data)
        assert png.startswith(b"\x89PNG")
        assert told.structured_content == {
            "filename": "dilem-dark-pt.png",
            "mime_type": "image/png",
            "size_bytes": len(png),
            "width": 1080,
            "height": 1350,
            "theme": "dark",
            "language": "pt",
        }
        assert struct.unpack(">II", png[16:24]) == (1080, 1350)
        plain = await agent.done("export_result_card", result=result)
        assert plain["filename"] == "dilem-light-fr.png"
        notice = await agent.done("decide", case_id=fresh_case(), text=QUESTION)
        assert await agent.refused("export_result_card", result=notice) == "invalid_input"


async def test_votes_and_reports(gateway: Gateway, mode: str) -> None:
    async with opened(gateway, mode) as agent, opened(gateway, mode) as stranger:
        result_id = (await agent.done("decide", case_id=fresh_case(), text=RESULT))["result_id"]
        vote = {"result_id": result_id}
        nothing = {"helpful": None, "reason": None}
        assert await agent.done("get_result_feedback", **vote) == vote | nothing
        told = await agent.done("set_result_feedback", **vote, helpful=False, reason="too_vague")
        assert told == await agent.done("get_result_feedback", **vote)
        assert (await agent.done("set_result_feedback", **vote, helpful=True))["reason"] is None
        for name, more in (("get_result_feedback", {}), ("set_result_feedback", {"helpful": True})):
            foreign = await stranger.call(name, **vote, **more)
            absent = await stranger.call(name, result_id="f" * 32, **more)
            assert foreign.structured_content == absent.structured_content
            assert foreign.structured_content["code"] == "result_not_found"
        report = {"request_id": os.urandom(16).hex(), "message": "Va bene così."}
        sent = await asyncio.gather(*(agent.done("send_user_feedback", **report) for _ in range(4)))
        assert sent == [{"ok": True}] * 4
        other = report | {"message": "Un altro testo."}
        assert await agent.refused("send_user_feedback", **other) == "request_id_conflict"
        response = {"kind": "recommendation", "text": "Il treno.", "reference": result_id}
        fresh = {"request_id": os.urandom(16).hex(), "message": "Non va.", "kind": "response"}
        assert await agent.done("send_user_feedback", **fresh, response=response, language="it") == {
            "ok": True
        }


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("errore_ai", "provider_error"),
        ("json_invalido", "model_output_invalid"),
        ("budget_esaurito", "budget_exhausted"),
    ],
)
async def test_what_goes_wrong_is_an_error(gateway: Gateway, mode: str, word: str, code: str) -> None:
    async with opened(gateway, mode) as agent:
        case = fresh_case()
        assert await agent.refused("decide", case_id=case, text=f"Treno o auto? [[prova:{word}]]") == code
        assert (await agent.done("decide", case_id=case, text=RESULT))["type"] == "result"


@pytest.mark.parametrize("word", ["avviso_ambito", "prove_insufficienti"])
async def test_a_notice_is_no_error(gateway: Gateway, mode: str, word: str) -> None:
    async with opened(gateway, mode) as agent:
        told = await agent.done("decide", case_id=fresh_case(), text=f"Treno o auto? [[prova:{word}]]")
        assert told["purpose"] in {"scope_notice", "insufficient_evidence"}


async def test_there_is_no_other_tool(gateway: Gateway, mode: str) -> None:
    async with opened(gateway, mode) as agent:
        with pytest.raises(MCPError) as raised:
            await agent.client.call_tool("delete_everything", {})
        assert raised.value.code == -32602


async def test_many_at_once_never_take_more_credits_than_there_are(gateway: Gateway) -> None:
    async with opened(gateway, "auto") as one, opened(gateway, "legacy") as two:
        two.token = one.token
        clients = (one, two) * LIMIT * 2
        found = await asyncio.gather(
            *(agent.call("decide", case_id=fresh_case(), text=RESULT) for agent in clients)
        )
        codes = Counter(result.structured_content.get("code", "result") for result in found)
        assert codes == {"result": LIMIT, "credits_exhausted": len(clients) - LIMIT}
        usage = await one.done("get_usage")
        assert usage["dilemmas"] == {"used": LIMIT, "limit": LIMIT, "remaining": 0}
        refused = next(result for result in found if result.is_error)
        assert refused.structured_content["resets_at"] == usage["resets_at"]


async def test_one_case_takes_one_turn_at_a_time(gateway: Gateway) -> None:
    async with opened(gateway, "auto") as one, opened(gateway, "legacy") as two:
        two.token = one.token
        case = fresh_case()
        text = f"{QUESTION} [[prova:lento:1]]"
        found = await asyncio.gather(
            *(agent.call("decide", case_id=case, text=text) for agent in (one, two) * 4)
        )
        codes = Counter(result.structured_content.get("code", "turn") for result in found)
        assert codes == {"turn": 1, "case_in_progress": 7}
        assert (await one.done("get_usage", case_id=case))["dilemmas"]["used"] == 1
