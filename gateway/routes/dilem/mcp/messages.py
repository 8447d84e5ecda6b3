"""JSON-RPC as the MCP door writes it itself: refusals of whole messages, before or instead of a result."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from gateway.dilem.contract import Error

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
REFUSED = -32000
"""What HTTP's status and the error in `data` say better: of the codes that are left to implementations."""

Id: TypeAlias = str | int | None

_encode = msgspec.json.Encoder().encode


class Rejection(Exception):  # noqa: N818 - an answer, not a fault
    """A message that ends with an error of the protocol; its text never holds what was sent."""

    def __init__(self, code: int, message: str, *, number: Id = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = number
        self.data = data

    def body(self) -> bytes:
        """Give it as it is told."""
        return _error(self.id, self.code, self.message, self.data)


def refusal(error: Error) -> bytes:
    """Give what the whole door refuses, whatever the message was: it answers no id."""
    return _error(None, REFUSED, error.message or error.code, error)


def id_of(message: dict[str, Any]) -> Id:
    """Give a message's id, if it is one that can be answered."""
    found = message.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _error(number: Id, code: int, message: str, data: Any) -> bytes:
    told = {"code": code, "message": message}
    if data is not None:
        told["data"] = data
    # An integer of any size may be an id, and comes back as it was.
    shown = msgspec.Raw(str(number).encode()) if isinstance(number, int) else number
    return _encode({"jsonrpc": "2.0", "id": shown, "error": told})
