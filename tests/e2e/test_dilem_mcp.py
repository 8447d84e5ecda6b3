"""Dilem over MCP, message by message: revisions, headers, JSON-RPC, refusals, and bodies that want to do harm."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.dilem.contract import MCP_VERSIONS
from gateway.dilem.errors import code_named
from gateway.dilem.operations import MCP, OPERATIONS
from tests.e2e.agents import RESULT, Raw, connection, exchange, fresh_case
from tests.e2e.agents import refusal as plain_refusal
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually

ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_BASE_URL": "https://dilem.example",
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "100000",
    "PEPPER_DILEM_IP_PER_MINUTE": "200",
    "PEPPER_TRUSTED_PROXIES": "10.0.0.0/8,127.0.0.2",
}
MODERN = "2026-07-28"
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
JSON = {"content-type": "application/json"}
SECRET = "PAROLA-SEGRETA"
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "vary": "Origin, Authorization"}
ERAS: tuple[dict[str, str], ...] = ({}, {"mcp-protocol-version": MODERN})
_networks = itertools.count(1)
_turns = itertools.count()


@pytest.fixture(scope="module")
def backend() -> str:
    """What the stores have to do with it, test_dilem_mcp_clients.py tries on both."""
    return "embedded"


@pytest.fixture(scope="module")
def served(served: Gateway) -> Gateway:
    assert served.command("project", "set", "dilem", "--sandbox").returncode == 0
    return served


class Speaker:
    """Who writes JSON-RPC by hand."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def post(self, message: Any, headers: Any = None) -> httpx.Response:
        sent = message if isinstance(message, bytes) else json.dumps(message).encode()
        response = await self.client.post(MCP, content=sent, headers=[*JSON.items(), *_pairs(headers)])
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
        assert re.fullmatch(r"req_[0-9a-f]{27}", response.headers["x-request-id"])
        for never in ("mcp-session-id", "set-cookie", "www-authenticate", "access-control-allow-origin"):
            assert never not in response.headers
        assert response.headers["content-type"] == "application/json"
        return response

    async def modern(self, method: str, headers: Any = None, **params: Any) -> httpx.Response:
        told = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if method == "tools/call":
            told["mcp-name"] = params["name"]
        message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": {"_meta": ENVELOPE} | params}
        return await self.post(message, told | dict(headers or {}))

    async def legacy(self, method: str, version: str | None = None, **params: Any) -> httpx.Response:
        headers = {} if version is None else {"mcp-protocol-version": version}
        return await self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, headers)

    async def call(self, name: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
        """Whether it is an error, and the value."""
        response = await self.legacy("tools/call", name=name, arguments=arguments)
        return outcome(response)

    async def token(self) -> str:
        failed, value = await self.call("start_session")
        assert not failed, value
        return str(value["session"])


@pytest.fixture
async def speaker(gateway: Gateway) -> AsyncIterator[Speaker]:
    """At an address of its own, where no proxy is trusted: a new one of the loopback network."""
    transport = httpx.AsyncHTTPTransport(local_address=f"127.0.{next(_networks)}.9")
    async with httpx.AsyncClient(base_url=gateway.address, transport=transport, timeout=60) as client:
        yield Speaker(client)


def _pairs(headers: Any) -> list[tuple[str, str]]:
    return list(headers.items()) if isinstance(headers, dict) else list(headers or [])


def outcome(response: httpx.Response) -> tuple[bool, dict[str, Any]]:
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    value: dict[str, Any] = result["structuredContent"]
    assert json.loads(result["content"][-1]["text"]) == value
    if result["isError"]:
        row = code_named(value["code"])
        assert (value["type"], value["retryable"]) == ("error", row.retryable)
    return result["isError"], value


def protocol_error(response: httpx.Response, status: int = 400) -> int:
    assert response.status_code == status, response.text
    told = response.json()
    assert (told["jsonrpc"], set(told)) == ("2.0", {"jsonrpc", "id", "error"})
    assert SECRET not in response.text
    return int(told["error"]["code"])


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Of the whole door: the error of REST, wrapped."""
    told = response.json()
    assert (told["jsonrpc"], told["id"], told["error"]["code"]) == ("2.0", None, -32000)
    error = told["error"]["data"]
    assert error["message"] == told["error"]["message"]
    assert code_named(error["code"]).status == response.status_code
    return response.status_code, error["code"]


# --- the newest revision --------------------------------------------------------------------------------------------


async def test_discovery_says_who_it_is_and_every_revision(speaker: Speaker) -> None:
    response = await speaker.modern("server/discover")
    result = response.json()["result"]
    assert result["supportedVersions"] == list(MCP_VERSIONS) == [MODERN, "2025-11-25", "2025-06-18"]
    assert result["capabilities"] == {"tools": {}}
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "dilem", "version": "1.1.0"}
    assert (result["resultType"], result["cacheScope"]) == ("complete", "public")
    assert result["ttlMs"] > 0
    for word in (
        "never show it",
        "Relay it",
        "wait for the real answer",
        "Never invent",
        "notice",
        "Never repeat",
    ):
        assert word in result["instructions"]


async def test_the_tools_in_both_eras(speaker: Speaker) -> None:
    modern = (await speaker.modern("tools/list")).json()["result"]
    assert (modern["resultType"], modern["cacheScope"]) == ("complete", "public")
    assert modern["ttlMs"] > 0
    assert [tool["name"] for tool in modern["tools"]] == [operation.name for operation in OPERATIONS]
    for version in (None, "2025-03-26", "2025-06-18", "2025-11-25"):
        legacy = (await speaker.legacy("tools/list", version)).json()["result"]
        assert legacy["tools"] == modern["tools"]
    assert "nextCursor" not in modern
    assert protocol_error(await speaker.modern("tools/list", cursor=SECRET)) == -32602


async def test_headers_must_say_what_the_message_says(speaker: Speaker) -> None:
    modern = speaker.modern
    for headers in (
        {"mcp-method": "tools/call"},
        {"mcp-method": ""},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-protocol-version": "1999-01-01"},
    ):
        assert protocol_error(await modern("tools/list", headers)) == -32020, headers
    called = {"name": "start_session", "arguments": {}}
    assert protocol_error(await modern("tools/call", {"mcp-name": "decide"}, **called)) == -32020
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    version, method = ("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")
    for told in ([], [version], [method], [version, version, method], [version, method, method]):
        response = await speaker.post(message, told)
        assert (protocol_error(response), response.json()["id"]) == (-32020, 1), told
    assert (await speaker.post(message, [version, method])).status_code == 200
    # A second version where there should be one, in the other era.
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    twice = [("mcp-protocol-version", "2025-11-25")] * 2
    assert protocol_error(await speaker.post(ping, twice)) == -32020


async def test_a_revision_that_is_not_served(speaker: Speaker) -> None:
    for version in ("1999-01-01", "2027-01-01", "2024-11-05"):
        envelope = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": version}
        headers = {"mcp-protocol-version": version}
        for response in (
            await speaker.modern("tools/list", headers, _meta=envelope),
            await speaker.legacy("tools/list", version),
            await speaker.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers),
        ):
            assert protocol_error(response) == -32022
            data = response.json()["error"]["data"]
            assert data == {"supported": list(MCP_VERSIONS), "requested": version}


async def test_the_envelope_must_be_whole(speaker: Speaker) -> None:
    for name in ENVELOPE:
        rest = {key: value for key, value in ENVELOPE.items() if key != name}
        assert protocol_error(await speaker.modern("tools/list", _meta=rest)) == -32602
    nothing: tuple[Any, ...] = ({}, None, [], "x")
    for wrong in nothing:
        assert protocol_error(await speaker.modern("tools/list", _meta=wrong)) == -32602
    # The header claims the era, the message does not.
    assert protocol_error(await speaker.legacy("tools/list", MODERN)) == -32602
    assert protocol_error(await speaker.legacy("initialize", MODERN)) == -32602


async def test_methods_that_are_not_there(speaker: Speaker) -> None:
    for method in ("nothing", "ping", "initialize", "resources/list", "prompts/get", "subscriptions/listen"):
        assert protocol_error(await speaker.modern(method), 404) == -32601
    # A 404 would end the session of a client of the handshake era.
    for method in ("nothing", "server/discover", "resources/list", "logging/setLevel"):
        assert protocol_error(await speaker.legacy(method), 200) == -32601


# --- the handshake era ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proposed", "given"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
async def test_a_handshake(speaker: Speaker, proposed: str, given: str) -> None:
    who = {"name": "test", "version": "1"}
    response = await speaker.legacy(
        "initialize", protocolVersion=proposed, capabilities={"roots": {}}, clientInfo=who
    )
    result = response.json()["result"]
    assert result["protocolVersion"] == given
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"] == {"name": "dilem", "version": "1.1.0"}
    assert result["instructions"]
    headers = {"mcp-protocol-version": given, "mcp-session-id": "whatever", "authorization": "Bearer x"}
    done = await speaker.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    assert (done.status_code, done.content) == (202, b"")
    pong = await speaker.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)
    assert pong.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_what_needs_no_answer_gets_none(speaker: Speaker) -> None:
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "start_session", "arguments": {}}}
    for version in ({}, {"mcp-protocol-version": "2025-06-18"}, {"mcp-protocol-version": MODERN}):
        for message in (notice, call):
            response = await speaker.post(message, version)
            assert (response.status_code, response.content) == (202, b"")
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (await speaker.post(answer)).status_code == 202
    assert protocol_error(await speaker.post(answer, {"mcp-protocol-version": MODERN})) == -32600


async def test_other_methods_are_refused_in_plain_words(speaker: Speaker) -> None:
    evil = {"origin": "https://evil.example", "cookie": "a=b"}
    for method in ("GET", "DELETE", "PUT", "PATCH", "HEAD"):
        response = await speaker.client.request(method, MCP, headers=evil | {"accept": "text/event-stream"})
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
        if method != "HEAD":
            assert plain_refusal(response) == (405, "method_not_allowed")
    assert plain_refusal(await speaker.client.options(MCP)) == (405, "method_not_allowed")
    assert plain_refusal(await speaker.client.options(MCP, headers=evil)) == (403, "origin_rejected")
    assert plain_refusal(await speaker.client.post(f"{MCP}/", json={})) == (404, "not_found")


# --- messages -------------------------------------------------------------------------------------------------------


async def test_the_answer_is_one_json_body_whatever_is_accepted(speaker: Speaker) -> None:
    for accepted in ("application/json", "text/event-stream", "*/*", "text/html", ""):
        response = await speaker.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"accept": accepted})
        assert response.json()["result"] == {}
        assert (await speaker.modern("server/discover", {"accept": accepted})).status_code == 200


NO_JSON = [
    b"",
    b"{",
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"decide","arguments":{"text":"a","text":"b"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
    b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 40 + b"1" + b"}" * 41,
    b"[" * 100_000,
]


async def test_what_is_no_json(speaker: Speaker) -> None:
    for sent, headers in itertools.product(NO_JSON, ERAS):
        response = await speaker.post(sent, headers)
        assert (protocol_error(response), response.json()["id"]) == (-32700, None), sent[:80]


NO_MESSAGE: list[tuple[Any, Any]] = [
    ([], None),
    ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], None),
    ("ping", None),
    (None, None),
    ({}, None),
    ({"id": 1, "method": "ping"}, 1),
    ({"jsonrpc": "1.0", "id": "x", "method": "ping"}, "x"),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": {"a": SECRET}, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": 1, "method": 5}, 1),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [SECRET]}, 1),
    ({"jsonrpc": "2.0", "id": 1}, 1),
    ({"jsonrpc": "2.0", "id": 10**60, "method": {"a": SECRET}}, 10**60),
    ({"jsonrpc": "2.0", "method": 5}, None),
]


async def test_what_is_no_message(speaker: Speaker) -> None:
    for (message, number), headers in itertools.product(NO_MESSAGE, ERAS):
        response = await speaker.post(message, headers)
        assert (protocol_error(response), response.json()["id"]) == (-32600, number), message


async def test_ids_come_back_as_they_were(speaker: Speaker) -> None:
    for number in (0, -1, 2**70, "", "1", "è" * 100, "\u2028"):
        response = await speaker.post({"jsonrpc": "2.0", "id": number, "method": "ping"})
        assert response.json() == {"jsonrpc": "2.0", "id": number, "result": {}}


async def test_strings_that_nobody_can_store(speaker: Speaker) -> None:
    token = await speaker.token()
    for bad in (r"\u0000", r"\ud800"):
        arguments = f'{{"session":"{token}","case_id":"a","text":"{SECRET}{bad}"}}'
        sent = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"decide","arguments":{arguments}}}}}'
        failed, error = outcome(await speaker.post(sent.encode()))
        assert (failed, error["code"]) == (True, "invalid_input")
        assert error["message"].startswith("/text: ")
        for message in (
            f'{{"jsonrpc":"2.0","id":"{bad}","method":"ping"}}',
            f'{{"jsonrpc":"2.0","id":1,"method":"pi{bad}ng"}}',
            f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"{bad}":1}}}}',
            f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"decide","arguments":["{bad}"]}}}}',
        ):
            response = await speaker.post(message.encode())
            assert protocol_error(response) == -32602
            assert response.json()["id"] in {1, None}


# --- tools ----------------------------------------------------------------------------------------------------------


async def test_calls_that_are_no_calls(speaker: Speaker) -> None:
    for name in ("nothing", "Decide", SECRET, ""):
        assert protocol_error(await speaker.modern("tools/call", name=name, arguments={})) == -32602
        assert protocol_error(await speaker.legacy("tools/call", name=name), 200) == -32602
    for arguments in ([], [SECRET], SECRET, 5, True):
        wrong: dict[str, Any] = {"name": "start_session", "arguments": arguments}
        assert protocol_error(await speaker.modern("tools/call", **wrong)) == -32602
        assert protocol_error(await speaker.legacy("tools/call", **wrong), 200) == -32602
    assert protocol_error(await speaker.legacy("tools/call", arguments={}), 200) == -32602
    # No arguments are empty arguments.
    for none in ({}, {"arguments": None}):
        failed, _ = outcome(await speaker.modern("tools/call", name="start_session", **none))
        assert not failed


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("start_session", {"session": ""}, "session_invalid", ""),
    ("start_session", {"session": 5}, "session_invalid", ""),
    ("start_session", {"session": "dls_" + "0" * 43}, "session_invalid", ""),
    ("start_session", {"token": SECRET}, "invalid_input", "/token: "),
    ("get_usage", {"session": None}, "session_required", "/session: "),
    ("get_usage", {"session": SECRET + "\n"}, "session_invalid", ""),
    ("get_usage", {"session": [SECRET]}, "session_invalid", ""),
    ("get_usage", {"case_id": f"{SECRET} x"}, "case_id_invalid", ""),
    ("get_usage", {"case_id": "abc\n"}, "case_id_invalid", ""),
    ("get_usage", {"case_id": ""}, "case_id_invalid", ""),
    ("decide", {"text": SECRET}, "case_id_required", "/case_id: "),
    ("decide", {"text": SECRET, "case_id": None}, "case_id_required", "/case_id: "),
    ("decide", {"text": SECRET, "case_id": 5}, "case_id_invalid", ""),
    ("decide", {"text": SECRET, "case_id": "a b"}, "case_id_invalid", ""),
    ("decide", {"case_id": "a"}, "invalid_input", "/text: "),
    ("decide", {"case_id": "a", "text": " \n"}, "invalid_input", "/text: "),
    ("decide", {"case_id": "a", "text": SECRET * 500}, "invalid_input", "/text: "),
    ("decide", {"case_id": "a", "text": 5}, "invalid_input", "/text: "),
    ("decide", {"case_id": "a", "text": "x", "language": SECRET}, "invalid_input", "/language: "),
    ("decide", {"case_id": "a", "text": "x", "language": None}, "invalid_input", "/language: "),
    ("decide", {"case_id": "a", "text": "x", "refinements": [5]}, "invalid_input", "/refinements/0: "),
    ("decide", {"case_id": "a", "text": "x", "refinements": SECRET}, "invalid_input", "/refinements: "),
    ("decide", {"case_id": "a", "text": "x", "force_decision": 1}, "invalid_input", "/force_decision: "),
    (
        "decide",
        {"case_id": "a", "text": "x", "clarification_count": True},
        "invalid_input",
        "/clarification_count: ",
    ),
    (
        "decide",
        {"case_id": "a", "text": "x", "clarification_count": 2.5},
        "invalid_input",
        "/clarification_count: ",
    ),
    (
        "decide",
        {"case_id": "a", "text": "x", "clarification_version": 1},
        "invalid_input",
        "/clarification_version: ",
    ),
    ("decide", {"case_id": "a", "text": "x", "forceDecision": True}, "invalid_input", "/forceDecision: "),
    ("decide", {"case_id": "a", "text": "x", f"{SECRET} è": 1}, "invalid_input", "/*: "),
    (
        "decide",
        {"case_id": "a", "text": "x" * 6000, "refinements": ["x" * 6000] * 4},
        "input_too_long",
        "",
    ),
    ("export_result_card", {}, "invalid_input", "/result: "),
    ("export_result_card", {"result": {"type": "error", "code": SECRET}}, "invalid_input", "/result"),
    ("export_result_card", {"result": {}, "theme": SECRET}, "invalid_input", "/"),
    ("get_result_feedback", {"result_id": SECRET}, "invalid_input", "/result_id: "),
    ("get_result_feedback", {"result_id": "0" * 32}, "result_not_found", ""),
    ("set_result_feedback", {"result_id": "0" * 32}, "invalid_input", "/helpful: "),
    ("set_result_feedback", {"result_id": "0" * 32, "helpful": None}, "invalid_input", "/helpful: "),
    (
        "set_result_feedback",
        {"result_id": "0" * 32, "helpful": True, "reason": "too_vague"},
        "invalid_input",
        "/reason: ",
    ),
    ("set_result_feedback", {"result_id": "0" * 32, "helpful": True}, "result_not_found", ""),
    ("send_user_feedback", {"request_id": "0" * 32, "message": "a b c d"}, "invalid_input", "/message: "),
    (
        "send_user_feedback",
        {"request_id": "0" * 32, "message": "abcde", "kind": "response"},
        "invalid_input",
        "/response: ",
    ),
    (
        "send_user_feedback",
        {"request_id": "0" * 32, "message": "abcde", "email": SECRET},
        "invalid_input",
        "/email: ",
    ),
    (
        "send_user_feedback",
        {"request_id": "A" * 32, "message": "abcde"},
        "invalid_input",
        "/request_id: ",
    ),
    (
        "send_user_feedback",
        {"request_id": "0" * 32, "message": "abcde", "source": "agent"},
        "invalid_input",
        "/source: ",
    ),
]


async def test_arguments_that_are_wrong(speaker: Speaker) -> None:
    """A tool's own error, with the place and the rule, never the value."""
    token = await speaker.token()
    for name, given, code, told in WRONG:
        arguments = given if name == "start_session" else {"session": token} | given
        speak = speaker.modern if next(_turns) % 2 else speaker.legacy
        response = await speak("tools/call", name=name, arguments=arguments)
        failed, error = outcome(response)
        assert (failed, error["code"]) == (True, code), (name, given, error)
        assert error["message"].startswith(told), (name, given, error)
        assert SECRET not in response.text
        assert "pydantic" not in response.text


async def test_who_calls_is_asked_before_what_is_wanted(speaker: Speaker) -> None:
    for name in (operation.name for operation in OPERATIONS[1:]):
        failed, error = await speaker.call(name, nonsense=1)
        assert (failed, error["code"]) == (True, "session_required")
        failed, error = await speaker.call(name, nonsense=1, session="x" * 20)
        assert (failed, error["code"]) == (True, "session_invalid")


async def test_the_headers_authorization_is_nobody(speaker: Speaker) -> None:
    token = await speaker.token()
    headers = {"authorization": f"Bearer {token}", "mcp-session-id": token}
    call = {"name": "get_usage", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    failed, error = outcome(await speaker.post(message, headers))
    assert (failed, error["code"]) == (True, "session_required")
    renewed = {"name": "start_session", "arguments": {}}
    failed, session = outcome(await speaker.post(message | {"params": renewed}, headers))
    assert not failed
    assert session["session"] != token


# --- the door -------------------------------------------------------------------------------------------------------


async def test_cookies_and_origins(speaker: Speaker) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async def refused(**headers: str) -> tuple[int, str]:
        return refusal(await speaker.post(ping, headers))

    assert await refused(cookie="a=b", origin="https://evil.example") == (403, "cookies_forbidden")
    for origin in (
        "https://evil.example",
        "null",
        "https://dilem.example.evil.tld",
        "http://dilem.example",
        "https://dilem.example:8443",
    ):
        assert await refused(origin=origin) == (403, "origin_rejected")
    twice = [("origin", "https://dilem.example")] * 2
    assert refusal(await speaker.post(ping, twice)) == (403, "origin_rejected")
    for origin in ("https://dilem.example", "https://DILEM.example:443"):
        assert (await speaker.post(ping, {"origin": origin, "cookie": ""})).status_code == 200


async def test_the_servers_names(gateway: Gateway, speaker: Speaker) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for host in (
        "dilem.example",
        "Dilem.Example:443",
        f"localhost:{gateway.port}",
        "127.0.0.1",
        "192.0.2.1:8080",
        "[::1]:8080",
    ):
        assert (await speaker.post(ping, {"host": host})).status_code == 200, host
    for host in ("evil.example", "dilem.example.evil.tld", "127.0.0.1.evil.tld", "evil.example:443", "a@b"):
        assert refusal(await speaker.post(ping, {"host": host})) == (403, "origin_rejected"), host
    # A trusted proxy knows the server by whatever name it likes.
    proxy = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(base_url=gateway.address, transport=proxy) as client:
        assert (await Speaker(client).post(ping, {"host": "pepper-gateway"})).status_code == 200


async def test_bodies_of_another_kind_or_size(speaker: Speaker) -> None:
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    for headers in ({}, {"content-type": "text/plain"}, JSON | {"content-encoding": "gzip"}):
        response = await speaker.client.post(MCP, content=ping, headers=headers)
        assert refusal(response) == (415, "unsupported_media_type")
    fine = await speaker.client.post(
        MCP, content=ping, headers={"content-type": "Application/JSON; charset=UTF-8"}
    )
    assert fine.status_code == 200
    exact = ping + b" " * (300_000 - len(ping))
    assert (await speaker.post(exact)).status_code == 200

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, 300_001, 50_000):
            yield (exact + b" ")[start : start + 50_000]

    for large in (exact + b" ", pieces()):
        response = await speaker.client.post(MCP, content=large, headers=JSON)
        assert refusal(response) == (413, "body_too_large")
        assert response.headers["connection"] == "close"


async def test_a_body_that_does_not_come(gateway: Gateway) -> None:
    head = f"POST {MCP} HTTP/1.1\nhost: localhost\ncontent-type: application/json\ncontent-length: 100"
    raw: Raw = await asyncio.to_thread(exchange, gateway.port, head, b'{"jsonrpc":')
    told = json.loads(raw.body)
    assert (raw.status, told["error"]["data"]["code"]) == (408, "body_timeout")
    assert raw.headers["connection"] == "close"


async def test_too_many_requests_of_an_address(speaker: Speaker) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    found = await asyncio.gather(*(speaker.post(ping) for _ in range(210)))
    refused = [response for response in found if response.status_code != 200]
    assert [refusal(response) for response in refused] == [(429, "rate_limited")] * 10
    assert all(int(response.headers["retry-after"]) > 0 for response in refused)


async def test_a_caller_who_leaves_has_still_decided(gateway: Gateway, speaker: Speaker) -> None:
    token, case = await speaker.token(), fresh_case()
    arguments = {"session": token, "case_id": case, "text": f"{RESULT} [[prova:lento:1]]"}
    call = {"name": "decide", "arguments": arguments}
    sent = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    head = f"POST {MCP} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    with connection(gateway.port) as opened:
        opened.sendall(head.encode() + sent)
        await asyncio.sleep(0.5)

    async def completed() -> bool:
        _, usage = await speaker.call("get_usage", session=token, case_id=case)
        return bool(usage["case"]["completed"])

    await eventually(completed, 10, pause=0.2)
    failed, error = await speaker.call("decide", **arguments)
    assert (failed, error["code"]) == (True, "case_completed")


async def test_nothing_private_is_logged(gateway: Gateway, speaker: Speaker) -> None:
    token = await speaker.token()
    await speaker.call("decide", session=token, case_id="segreto-1", text=f"{SECRET} o auto?")
    await speaker.call("decide", session=token, case_id=SECRET + " ", text=SECRET)
    await speaker.modern(SECRET)
    await speaker.modern("tools/list", {"mcp-method": SECRET})
    await speaker.post({"jsonrpc": "2.0", "id": {"a": SECRET}, "method": SECRET})
    assert SECRET not in gateway.log()
    assert token not in gateway.log()
