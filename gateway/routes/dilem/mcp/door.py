"""The MCP door: what every request must be before the protocol's own server sees it, and how its answer goes out.

Strict JSON, limits and refusals are those of REST; the protocol itself (versions, headers, methods, results) is the
official package's, in `protocol.py`. The answer is always one JSON body; no session is ever made or asked for.
"""

from __future__ import annotations

from typing import Any

from gateway.dilem import errors, operations
from gateway.dilem.errors import DilemFailure
from gateway.dilem.reading import read_value, require_speakable
from gateway.dilem.service import Dilem
from gateway.routes.dilem.api import Door
from gateway.routes.dilem.body import bounded_body
from gateway.routes.dilem.checks import is_encoded, is_json
from gateway.routes.dilem.mcp.calls import Call, Calls
from gateway.routes.dilem.mcp.host import require_known_host
from gateway.routes.dilem.mcp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Rejection,
    id_of,
    refusal,
)
from gateway.routes.dilem.mcp.running import Running
from gateway.routes.dilem.responses import HEADERS, refused
from gateway.routes.exchange import Exchange

ROUTING_HEADERS = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
"""All that the protocol's server is told of a request's headers: no address, no Authorization, no session."""


class McpDoor:
    """The door, and the server behind it."""

    def __init__(self, dilem: Dilem) -> None:
        self._policy = dilem.policy
        self._running = Running(Calls(dilem))
        self.life = self._running.life

    def door(self) -> Door:
        """Give what `Api` needs to know of it."""
        return Door(operations.MCP, {"POST": self.handle}, refuse)

    async def handle(self, exchange: Exchange, address: str) -> None:
        """Answer one message."""
        require_known_host(exchange, self._policy)
        if not is_json(exchange) or is_encoded(exchange):
            raise DilemFailure(errors.UNSUPPORTED_MEDIA_TYPE)
        body = await bounded_body(exchange)
        try:
            message, arguments = _taken_apart(body)
            protocol = await self._running.protocol()
            headers = [(name, value) for name in ROUTING_HEADERS for value in _values(exchange, name)]
            status, told = await protocol.answer(message, headers, Call(exchange, address, arguments))
        except Rejection as rejection:
            status, told = 400, rejection.body()
        await exchange.reply(status, told, *HEADERS)


async def refuse(exchange: Exchange, failure: DilemFailure) -> None:
    """Answer with an error: as JSON-RPC, unless what was sent can't have been a message."""
    if exchange.method != "POST" or failure.code is errors.NOT_FOUND:
        await refused(exchange, failure)
    else:
        await refused(exchange, failure, refusal)


def _values(exchange: Exchange, name: bytes) -> list[bytes]:
    return [value.encode("latin-1") for value in exchange.header_values(name)]


def _taken_apart(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a message, and the arguments of a tool's call apart from it: what is wrong with them is the tool's to say.

    Raises:
        Rejection: The body is no JSON, no object, or its strings can't be told.

    """
    try:
        message = read_value(body)
    except DilemFailure as failure:
        raise Rejection(PARSE_ERROR, failure.note or failure.code.message) from None
    if not isinstance(message, dict):
        raise Rejection(INVALID_REQUEST, "The body must be one JSON-RPC message: batches are not accepted.")
    arguments: dict[str, Any] = {}
    params = message.get("params")
    if message.get("method") == "tools/call" and isinstance(params, dict):
        found = params.get("arguments")
        if isinstance(found, dict):
            arguments = found
            message["params"] = {name: value for name, value in params.items() if name != "arguments"}
    try:
        require_speakable(message)
    except DilemFailure as failure:
        number = id_of(message) if "id" in message else None
        raise Rejection(
            INVALID_PARAMS, failure.note or failure.code.message, number=_speakable(number)
        ) from None
    return message, arguments


def _speakable(number: str | int | None) -> str | int | None:
    """An id that can be told again, or none."""
    try:
        require_speakable(number)
    except DilemFailure:
        return None
    return number
