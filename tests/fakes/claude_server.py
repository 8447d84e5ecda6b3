"""A fake of the Anthropic API: `POST /v1/messages` and its batches, checked as strictly as the real one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import override

from tests.fakes.behaviours import Answer, Json
from tests.fakes.claude_batches import ClaudeBatches
from tests.fakes.claude_events import events_of, message_of
from tests.fakes.claude_models import ClaudeModel, known_models
from tests.fakes.claude_rules import check_message
from tests.fakes.endpoint import Frame
from tests.fakes.json_body import decode_json
from tests.fakes.script import say
from tests.fakes.seen import RefusalError, Seen
from tests.fakes.server import FakeServer
from tests.fakes.shapes import dressed

if TYPE_CHECKING:
    from tests.fakes.behaviours import Scripted

VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
_MOST_BYTES = 32 * 1024 * 1024
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUSES = {kind: status for status, kind in reversed(_KINDS.items())}


class ClaudeDialect:
    """Keys, protocol version and error bodies of the Anthropic API."""

    request_id_header = "request-id"

    def authorise(self, seen: Seen, key: str) -> None:
        bearer, plain = seen.headers.get("authorization"), seen.headers.get("x-api-key")
        if bearer is None and plain is None:
            raise RefusalError(401, "x-api-key header is required")
        if bearer is not None and bearer != f"Bearer {key}":
            raise RefusalError(401, "Invalid bearer token")
        if plain is not None and plain != key:
            raise RefusalError(401, "invalid x-api-key")
        version = seen.headers.get("anthropic-version")
        if version is None:
            raise RefusalError(400, "anthropic-version: header is required")
        if version not in VERSIONS:
            raise RefusalError(400, f'anthropic-version: "{version}" is not a valid version')

    def error(self, refusal: RefusalError, request_id: str) -> bytes:
        kind = refusal.kind or _KINDS.get(refusal.status, "api_error")
        return self._body(kind, refusal.message or kind.replace("_", " ").capitalize(), request_id)

    def error_event(self, kind: str, message: str, request_id: str) -> bytes:
        return b"event: error\ndata: " + self._body(kind, message, request_id) + b"\n\n"

    def status_of(self, kind: str) -> int:
        return _STATUSES.get(kind, 500)

    def _body(self, kind: str, message: str, request_id: str) -> bytes:
        error = {"type": kind, "message": message}
        return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})


class Messages:
    """`POST /v1/messages`."""

    def __init__(self, models: dict[str, ClaudeModel]) -> None:
        self.default: Scripted = say("Va bene, è fatto.")
        self._models = models

    def accept(self, seen: Seen) -> None:
        if seen.size > _MOST_BYTES:
            raise RefusalError(413, "Request exceeds the maximum size")
        decode_json(
            seen, "The request body is not valid JSON", "The request content-type must be application/json"
        )
        check_message(seen.body, self._models)

    def streams(self, seen: Seen) -> bool:
        return bool(seen.body.get("stream"))

    def dress(self, scripted: Answer, seen: Seen) -> Answer:
        body = seen.body
        form = (body.get("output_config") or {}).get("format") or {}
        thinking = (body.get("thinking") or {}).get("type") == "enabled"
        return dressed(scripted, schema=form.get("schema"), tool=_forced_tool(body), thinking=thinking)

    def whole(self, scripted: Answer, seen: Seen) -> bytes:
        return message_of(scripted, seen)

    def frames(self, scripted: Answer, seen: Seen) -> Iterator[Frame]:
        return events_of(scripted, seen)


class ClaudeServer(FakeServer):
    """`with ClaudeServer() as claude: AsyncAnthropic(base_url=claude.url, api_key=claude.key)`."""

    def __init__(self, *, key: str = "test-claude-key", port: int = 0) -> None:
        self.models = known_models()
        """The models that exist; a test may add names."""
        messages = Messages(self.models)
        self.batches = ClaudeBatches(self.models, lambda: self.root, messages.dress)
        routes: list[Any] = [("POST", "/v1/messages", messages), *self.batches.routes]
        super().__init__(ClaudeDialect(), routes, key=key, port=port)

    @override
    def reset(self) -> None:
        super().reset()
        self.batches.reset()


def _forced_tool(body: Any) -> tuple[str, Json] | None:
    """The tool a request forces, with its schema: the first one where any will do."""
    choice = body.get("tool_choice") or {}
    if choice.get("type") not in ("tool", "any"):
        return None
    for tool in body["tools"]:
        if "input_schema" in tool and choice.get("name") in (None, tool["name"]):
            return tool["name"], tool["input_schema"]
    return None
