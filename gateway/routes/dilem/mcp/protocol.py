"""The Model Context Protocol, spoken by the official package: which revision a message is of, methods, results.

One address, two eras. A message whose `_meta` names its revision, or whose header names the newest, is one of the
stateless era, everything else one of the handshake era, served without a session all the same. This is the one module
(with `tools.py`) that knows the package, and it is loaded late: see `running.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    DEFAULT_NEGOTIATED_VERSION,
    PROTOCOL_VERSION_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    JSONRPCNotification,
    JSONRPCRequest,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    ServerCapabilities,
    ToolsCapability,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from typing_extensions import override

from gateway.dilem.contract import MCP_VERSIONS, VERSION
from gateway.dilem.operations import MCP
from gateway.routes.dilem.mcp.calls import Call, Calls
from gateway.routes.dilem.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Rejection,
    id_of,
)
from gateway.routes.dilem.mcp.texts import INSTRUCTIONS
from gateway.routes.dilem.mcp.tools import result_of, tool_list

NAME = "dilem"
LIST_TTL_MS = 3_600_000
"""How long a client may keep the list of tools: it changes with a release."""
MODERN = frozenset(MCP_VERSIONS) & frozenset(MODERN_PROTOCOL_VERSIONS)
HANDSHAKE = (frozenset(MCP_VERSIONS) & frozenset(HANDSHAKE_PROTOCOL_VERSIONS)) | {DEFAULT_NEGOTIATED_VERSION}
"""The default stands for clients older than the header; it is served and not offered."""

_CALL = "dilem.call"
_HEADERS = [
    (b"content-type", b"application/json"),
    # The answer is one JSON body whatever a client would also take.
    (b"accept", b"application/json, text/event-stream"),
]

# The package says what its clients do wrong; that is theirs to read, and holds what they sent.
logging.getLogger("mcp").setLevel(logging.ERROR)


class Protocol:
    """The server of one process."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._tools = tool_list()
        hint = CacheHint(LIST_TTL_MS, "public")
        server = _Server(
            NAME,
            version=VERSION,
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": hint, "server/discover": hint},
            get_tool_input_schema=lambda _: None,  # none of them asks for a header of its own
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        server.add_request_handler("server/discover", RequestParams, _discover)
        server.middleware = [self._looked_over]
        self._server = server
        # Hosts, origins and sizes were looked at before anything comes here.
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Live, once."""
        return self._manager.run()

    async def answer(
        self, message: dict[str, Any], headers: list[tuple[bytes, bytes]], call: Call
    ) -> tuple[int, bytes]:
        """Give the HTTP status and the body that answer a message.

        Args:
            message: Of any shape; a tool's arguments stand in `call`.
            headers: Those that route, in lower case, as often as they were sent.

        Raises:
            Rejection: 400: it is no message, or of no revision served here.

        """
        _require_envelope(message)
        _require_era(message, headers)
        reply = _Reply(json.dumps(message).encode())
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": MCP,
            "root_path": "",
            "query_string": b"",
            "headers": [*_HEADERS, *headers],
            _CALL: call,
        }
        await self._manager.handle_request(scope, reply.receive, reply.send)
        if reply.status >= 500 or not (reply.is_json or reply.status == 202):
            raise RuntimeError(f"the protocol's server answered {reply.status}")
        return reply.status, reply.body

    async def _looked_over(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Look at a message before the package does.

        It would hold the members of methods that are not here against their form, and would agree to revisions of the
        handshake that are not served here: who proposes one is offered the newest.
        """
        if ctx.method == "initialize":
            proposed = (ctx.params or {}).get("protocolVersion")
            if isinstance(proposed, str) and proposed not in HANDSHAKE:
                params = {**(ctx.params or {}), "protocolVersion": LATEST_HANDSHAKE_VERSION}
                ctx = dataclasses.replace(ctx, params=params)
        elif ctx.request_id is not None and self._server.get_request_handler(ctx.method) is None:
            raise MCPError(METHOD_NOT_FOUND, "There is no such method.")
        return await call_next(ctx)

    async def _list_tools(
        self, _: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "There is one page of tools, and no cursor.")
        return ListToolsResult(tools=self._tools)

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if all(tool.name != params.name for tool in self._tools):
            raise MCPError(INVALID_PARAMS, "There is no such tool.")
        call: Call = cast("Any", context.request).scope[_CALL]
        return result_of(await self._calls.take(params.name, call))


class _Server(Server[dict[str, Any]]):
    """Tools that never change, said shortly: the package would add that no change is ever announced."""

    @override
    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        return ServerCapabilities(tools=ToolsCapability())


async def _discover(_: ServerRequestContext[Any, Any], __: RequestParams) -> DiscoverResult:
    """Say every revision, also those that begin with a handshake."""
    return DiscoverResult(
        supported_versions=list(MCP_VERSIONS),
        capabilities=ServerCapabilities(tools=ToolsCapability()),
        instructions=INSTRUCTIONS,
    )


class _Reply:
    """The two ends of an exchange with the package's application: the message in, the answer out."""

    def __init__(self, sent: bytes) -> None:
        self.status = 0
        self.is_json = False
        self.body = b""
        self._sent: bytes | None = sent

    async def receive(self) -> dict[str, Any]:
        if self._sent is None:
            await asyncio.Event().wait()  # a caller who has left is not waited for, and not told of
        sent, self._sent = self._sent, None
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            kinds = [value for name, value in event["headers"] if name.lower() == b"content-type"]
            self.is_json = bool(kinds) and kinds[0].startswith(b"application/json")
        else:
            self.body += event.get("body", b"")


def _require_envelope(message: dict[str, Any]) -> None:
    """Hold a message to JSON-RPC's form: here, because the package repeats in its refusal what was sent."""
    try:
        if "method" not in message:
            jsonrpc_message_adapter.validate_python(message, by_name=False)
        elif "id" in message:
            JSONRPCRequest.model_validate(message, by_name=False)
        else:
            JSONRPCNotification.model_validate(message, by_name=False)
    except ValidationError:
        raise Rejection(
            INVALID_REQUEST, "The body is not a JSON-RPC request or notification.", number=id_of(message)
        ) from None


def _require_era(message: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    """Hold a message to the revision it claims, in its envelope or in its header."""
    named = [(name.decode(), value.decode("latin-1")) for name, value in headers]
    number = id_of(message)
    if (duplicated := find_duplicated_routing_header(named)) is not None:
        raise Rejection(HEADER_MISMATCH, f"The header {duplicated} stands more than once.", number=number)
    folded = dict(named)
    version = folded.get(MCP_PROTOCOL_VERSION_HEADER)
    is_request = "method" in message and "id" in message
    if is_request and (_is_enveloped(message) or version in MODERN):
        verdict = classify_inbound_request(message, headers=folded, supported_modern_versions=tuple(MODERN))
        if not isinstance(verdict, InboundLadderRejection):
            return
        if verdict.code == UNSUPPORTED_VERSION:
            raise _unsupported(verdict.data["requested"], number)
        raise Rejection(verdict.code, verdict.message, number=number, data=verdict.data)
    if version is not None and version not in MODERN | HANDSHAKE:
        raise _unsupported(version, number)


def _is_enveloped(message: dict[str, Any]) -> bool:
    """Whether a message claims to be of the stateless era: no other has these members."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and bool(
        meta.keys() & {PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY}
    )


def _unsupported(requested: str, number: str | int | None) -> Rejection:
    return Rejection(
        UNSUPPORTED_VERSION,
        "Unsupported protocol version",
        number=number,
        data={"supported": list(MCP_VERSIONS), "requested": requested},
    )
