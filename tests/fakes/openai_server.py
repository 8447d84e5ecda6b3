"""A fake of the OpenAI API: chat completions, embeddings and batches, checked as strictly as the real one."""

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import override

from tests.fakes.behaviours import Answer, Json
from tests.fakes.endpoint import Frame
from tests.fakes.json_body import decode_json
from tests.fakes.openai_batches import OpenAIBatches
from tests.fakes.openai_embeddings import Embeddings
from tests.fakes.openai_events import chunks_of, completion_of
from tests.fakes.openai_models import known_models
from tests.fakes.openai_rules import check_chat
from tests.fakes.script import say
from tests.fakes.seen import RefusalError, Seen
from tests.fakes.server import FakeServer
from tests.fakes.shapes import dressed

if TYPE_CHECKING:
    from tests.fakes.behaviours import Scripted

EMBEDDINGS = "/v1/embeddings"
_STATUSES = {"rate_limit_error": 429, "overloaded_error": 503, "service_unavailable": 503}
_STATUSES |= {"invalid_request_error": 400}


class OpenAIDialect:
    """Keys and error bodies of the OpenAI API."""

    request_id_header = "x-request-id"

    def authorise(self, seen: Seen, key: str) -> None:
        given = seen.headers.get("authorization")
        if given is None:
            raise RefusalError(401, "You didn't provide an API key.", kind="invalid_request_error")
        if given != f"Bearer {key}":
            raise RefusalError(
                401, "Incorrect API key provided.", kind="invalid_request_error", code="invalid_api_key"
            )

    def error(self, refusal: RefusalError, request_id: str) -> bytes:
        kind, code = _kind(refusal.status)
        return _error(refusal.kind or kind, refusal.message, refusal.code or code, refusal.param)

    def error_event(self, kind: str, message: str, request_id: str) -> bytes:
        return b"data: " + _error(kind, message, None, None) + b"\n\n"

    def status_of(self, kind: str) -> int:
        return _STATUSES.get(kind, 500)


class ChatCompletions:
    """`POST /v1/chat/completions`."""

    def __init__(self, models: Container[str]) -> None:
        self.default: Scripted = say("Va bene, è fatto.")
        self._models = models

    def accept(self, seen: Seen) -> None:
        decode_json(
            seen, "We could not parse the JSON body of your request", "expected content-type application/json"
        )
        check_chat(seen.body, self._models)

    def streams(self, seen: Seen) -> bool:
        return bool(seen.body.get("stream"))

    def dress(self, scripted: Answer, seen: Seen) -> Answer:
        form = seen.body.get("response_format") or {}
        schema = (form.get("json_schema") or {}).get("schema")
        if form.get("type") == "json_object":
            schema = {"type": "object"}
        return dressed(scripted, schema=schema, tool=_forced_tool(seen.body), thinking=False)

    def whole(self, scripted: Answer, seen: Seen) -> bytes:
        return completion_of(scripted, seen)

    def frames(self, scripted: Answer, seen: Seen) -> Iterator[Frame]:
        return chunks_of(scripted, seen)


class OpenAIServer(FakeServer):
    """`with OpenAIServer() as openai: AsyncOpenAI(base_url=openai.url, api_key=openai.key)`.

    Embeddings have a script of their own, `openai.script(status(500), on=EMBEDDINGS)`, so that a question's
    embedding never takes what was meant for its answer.
    """

    def __init__(self, *, key: str = "test-openai-key", port: int = 0) -> None:
        self.models = known_models()
        """The models that exist; a test may add names."""
        self._embeddings = Embeddings(self.models)
        chat = ChatCompletions(self.models)
        self.batches = OpenAIBatches(self.models, chat.dress)
        routes: list[Any] = [
            ("POST", "/v1/chat/completions", chat),
            ("POST", EMBEDDINGS, self._embeddings),
            *self.batches.routes,
        ]
        super().__init__(OpenAIDialect(), routes, key=key, port=port)

    @override
    def reset(self) -> None:
        super().reset()
        self.batches.reset()

    @property
    @override
    def url(self) -> str:
        return f"{self.root}/v1"

    @property
    def vector(self) -> Callable[[str, int], list[float]]:
        """How a text becomes a vector of so many dimensions; settable."""
        return self._embeddings.vector

    @vector.setter
    def vector(self, function: Callable[[str, int], list[float]]) -> None:
        self._embeddings.vector = function


def _kind(status: int) -> tuple[str, str | None]:
    if status == 429:
        return "requests", "rate_limit_exceeded"
    return ("server_error", None) if status >= 500 else ("invalid_request_error", None)


def _error(kind: str, message: str, code: str | None, param: str | None) -> bytes:
    error = {"message": message or "Error", "type": kind, "param": param, "code": code}
    return msgspec.json.encode({"error": error})


def _forced_tool(body: Any) -> tuple[str, Json] | None:
    """The tool a request forces, with its schema: the first one where any will do."""
    choice = body.get("tool_choice")
    if choice == "required":
        wanted = None
    elif isinstance(choice, dict):
        wanted = choice["function"]["name"]
    else:
        return None
    for tool in body["tools"]:
        function = tool["function"]
        if wanted in (None, function["name"]):
            return function["name"], function.get("parameters") or {"type": "object"}
    return None
