"""Files and batches of the OpenAI API; what it would find out only while validating a file is refused at once."""

import re
from collections.abc import Callable, Container
from typing import Any, Literal

import msgspec
from typing_extensions import override

from tests.fakes.batching import Batch, Counter, Fate, Item, Shelf, json_reply, no_query, page_of, query_of
from tests.fakes.behaviours import Answer, Behaviour, Json, Reply, Scripted
from tests.fakes.endpoint import Route
from tests.fakes.json_body import decode_json
from tests.fakes.multipart import parts_of
from tests.fakes.openai_events import completion_of
from tests.fakes.openai_rules import check_chat
from tests.fakes.openai_words import request_field
from tests.fakes.seen import RefusalError, Seen

OPENAI_FILES = "/v1/files"
OPENAI_BATCHES = "/v1/batches"
CHAT = "/v1/chat/completions"
_FILE = rf"{OPENAI_FILES}/(?P<id>[^/]+)"
_ONE = rf"{OPENAI_BATCHES}/(?P<id>[^/]+)"
_ENDPOINTS = (CHAT, "/v1/responses", "/v1/embeddings", "/v1/completions", "/v1/moderations")
_MOST_REQUESTS = 50_000
_MOST_BYTES = 64 * 1024 * 1024
"""The real limit is 200 MB; more than this the fake does not keep."""
_DEFAULT_PAGE, _MOST_PAGE = 20, 100
_DAY = 86_400

Running = Literal["validating", "in_progress", "finalizing", "cancelling"]


class OpenAIBatches(Shelf):
    """The addresses of a server's files and batches.

    `running` is the status until a batch ends; `failed` makes its validation fail; with `silent` nothing is told of
    the texts that were not done.
    """

    def __init__(self, models: Container[str], dress: Callable[[Answer, Seen], Answer]) -> None:
        super().__init__()
        self._models = models
        self._dress = dress
        self._create = Counter(self._check_create, self._created)

    @override
    def reset(self) -> None:
        super().reset()
        self.running: Running = "in_progress"
        self.failed = self.silent = False
        self.files: dict[str, Json] = {}
        """The files uploaded, with their `content`."""

    @property
    def routes(self) -> list[Route]:
        return [
            ("POST", OPENAI_FILES, Counter(_check_upload, self._uploaded)),
            ("GET", f"{_FILE}/content", Counter(no_query, self._content)),
            ("POST", OPENAI_BATCHES, self._create),
            ("GET", OPENAI_BATCHES, Counter(_check_list, self._listed)),
            ("GET", _ONE, Counter(no_query, self._told)),
        ]

    def lost(self, behaviour: Behaviour) -> Scripted:
        """For a script on the creation: accepted, and then this."""
        return self.accepted_but(self._create, behaviour)

    def plant(self, name: str, *, metadata: dict[str, str] | None = None, age: float = 0.0) -> None:
        """Somebody else's batch, ended when the delay has passed."""
        body = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Ciao"}]}
        self.add(name, [Item("altro", body)], age=age, metadata=metadata, input_file_id="file-altro")

    # Files

    def _uploaded(self, seen: Seen) -> Reply:
        name = f"file-{len(self.files) + 1:022d}"
        file: Json = {
            "id": name,
            "object": "file",
            "bytes": len(seen.body["content"]),
            "created_at": 1_796_000_000,
            "expires_at": 1_796_000_000 + 30 * _DAY,
            "filename": seen.body["filename"],
            "purpose": "batch",
            "status": "processed",
            "status_details": None,
        }
        self.files[name] = {**file, "content": seen.body["content"]}
        return json_reply(file)

    def _content(self, seen: Seen) -> Reply:
        found = re.match(_FILE, seen.path)
        assert found is not None
        name = found["id"]
        if name in self.files:
            return _octets(self.files[name]["content"])
        for batch in self.held.values():
            for kind in ("output", "error"):
                lines = self._file(batch, kind)
                if lines and name == _file_name(batch, kind):
                    return _octets(lines)
        if name.startswith("file-batch_"):
            return Reply(status=404, message="No such File object")
        raise RefusalError(404, f"No such File object: {name}")

    # Batches

    def _check_create(self, seen: Seen) -> None:
        no_query(seen)
        decode_json(
            seen, "We could not parse the JSON body of your request", "expected content-type application/json"
        )
        parts = request_field(seen.body).object(
            "input_file_id endpoint completion_window", "output_expires_after", "metadata"
        )
        parts["completion_window"].choice(("24h",))
        endpoint = parts["endpoint"].choice(_ENDPOINTS)
        if "metadata" in parts:
            if len(parts["metadata"].mapping()) > 16:
                raise parts["metadata"].bad("at most 16 pairs", "object_above_max_properties")
            for key, value in parts["metadata"].mapping().items():
                parts["metadata"].at(key, key).text(1, 64)
                parts["metadata"].at(key, value).text(most=512)
        name = parts["input_file_id"].text(1)
        if name not in self.files:
            raise parts["input_file_id"].bad(f"No such File object: {name}", "invalid_value")
        self._check_lines(_decoded_lines(self.files[name]["content"]), endpoint)

    def _check_lines(self, lines: list[Any], endpoint: str) -> None:
        if not 1 <= len(lines) <= _MOST_REQUESTS:
            raise RefusalError(400, f"a batch has 1 to {_MOST_REQUESTS} requests", code="invalid_value")
        names: set[str] = set()
        models: set[str] = set()
        for number, line in enumerate(lines, start=1):
            parts = request_field(line).object("custom_id method url body")
            parts["method"].choice(("POST",))
            parts["url"].choice((endpoint,))
            name = parts["custom_id"].text(1, 512)
            if name in names:
                raise RefusalError(400, f"line {number}: duplicate custom_id", code="duplicate_custom_id")
            names.add(name)
            if endpoint == CHAT:
                check_chat(line["body"], self._models)
                if line["body"].get("stream"):
                    raise RefusalError(400, f"line {number}: streaming is not supported")
            models.add(line["body"]["model"])
        if len(models) > 1:
            raise RefusalError(400, "all requests of a batch have one model", code="mismatched_model")

    def _created(self, seen: Seen) -> Reply:
        self.created += 1
        content = self.files[seen.body["input_file_id"]]["content"]
        items = [Item(line["custom_id"], line["body"]) for line in _decoded_lines(content)]
        batch = self.add(
            f"batch_{next(self.serial):024x}",
            items,
            metadata=seen.body.get("metadata"),
            input_file_id=seen.body["input_file_id"],
        )
        return json_reply(self._json(batch))

    def _told(self, seen: Seen) -> Reply:
        found = re.match(_ONE, seen.path)
        assert found is not None
        batch = self.get(found["id"])
        return batch if isinstance(batch, Reply) else json_reply(self._json(batch))

    def _listed(self, seen: Seen) -> Reply:
        query = query_of(seen, _LIST_QUERY)
        found, more = page_of(self.newest_first(), query.get("after"), query.get("limit", _DEFAULT_PAGE))
        ends = {"first_id": found[0].id, "last_id": found[-1].id} if found else {}
        data = [self._json(batch) for batch in found]
        return json_reply({"object": "list", "data": data, "has_more": more, **ends})

    def _status(self, batch: Batch) -> str:
        if not batch.ended:
            return self.running
        counts = self.counts(batch)
        if self.failed:
            return "failed"
        if counts["canceled"]:
            return "cancelled"
        return "expired" if counts["expired"] else "completed"

    def _json(self, batch: Batch) -> Json:
        status, counts = self._status(batch), self.counts(batch)
        created = int(batch.created_at)
        error = {"code": "invalid_json_line", "message": "not JSON", "param": None, "line": 1}
        files = {
            f"{kind}_file_id": _file_name(batch, kind) if self._file(batch, kind) else None
            for kind in ("output", "error")
        }
        done = batch.ended and not self.failed
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": CHAT,
            "errors": {"object": "list", "data": [error]} if status == "failed" else None,
            "input_file_id": batch.facts["input_file_id"],
            "completion_window": "24h",
            "status": status,
            **files,
            "created_at": created,
            "expires_at": created + _DAY,
            "request_counts": {
                "total": len(batch.items),
                "completed": counts["succeeded"] if done else 0,
                "failed": counts["errored"] if done else 0,
            },
            "metadata": batch.facts["metadata"],
        }

    # Results

    def _file(self, batch: Batch, kind: str) -> bytes:
        if not batch.ended or self.failed:
            return b""
        return self.lines(batch, self._output_line if kind == "output" else self._error_line)

    def _output_line(self, item: Item, position: int, fate: Fate) -> Json | None:
        if fate != "succeeded":
            return None
        asked = Seen(number=position, method="POST", path=CHAT, query="", headers={}, body=item.body)
        body = completion_of(self._dress(self.answer(position), asked), asked)
        return _line(item, position, msgspec.json.decode(body), 200)

    def _error_line(self, item: Item, position: int, fate: Fate) -> Json | None:
        if fate == "succeeded" or (self.silent and fate != "errored"):
            return None
        if fate == "errored":
            error = {"message": "Internal error", "type": "server_error", "param": None, "code": None}
            return _line(item, position, {"error": error}, 500)
        code = "batch_expired" if fate == "expired" else "batch_cancelled"
        error = {"code": code, "message": "This request could not be executed in time."}
        return {"id": f"batch_req_{position}", "custom_id": item.custom_id, "response": None, "error": error}


_LIST_QUERY: dict[str, type] = {"after": str, "limit": int}


def _check_list(seen: Seen) -> None:
    limit = query_of(seen, _LIST_QUERY).get("limit", _DEFAULT_PAGE)
    if not 1 <= limit <= _MOST_PAGE:
        raise RefusalError(400, f"limit: must be between 1 and {_MOST_PAGE}", param="limit")


def _check_upload(seen: Seen) -> None:
    no_query(seen)
    if seen.size > _MOST_BYTES:
        raise RefusalError(413, "The file is too large.")
    parts = parts_of(seen)
    if sorted(parts) != ["file", "purpose"]:
        raise RefusalError(400, f"a form of `file` and `purpose`, not of {sorted(parts)}", param="file")
    if parts["purpose"].content != b"batch":
        raise RefusalError(400, "this fake knows the purpose `batch` only", param="purpose")
    file = parts["file"]
    if not (file.filename or "").endswith(".jsonl"):
        raise RefusalError(400, "Invalid file format for Batch API. Must be .jsonl", param="file")
    if not file.content.strip():
        raise RefusalError(400, "The file is empty.", param="file")
    seen.body, seen.raw = {"filename": file.filename, "content": file.content}, b""


def _decoded_lines(content: bytes) -> list[Any]:
    try:
        return [msgspec.json.decode(line) for line in content.split(b"\n") if line]
    except msgspec.DecodeError as error:
        raise RefusalError(400, f"a line is not JSON: {error}", code="invalid_json_line") from error


def _line(item: Item, position: int, body: Any, status: int) -> Json:
    response = {"status_code": status, "request_id": f"req_{position}", "body": body}
    return {"id": f"batch_req_{position}", "custom_id": item.custom_id, "response": response, "error": None}


def _file_name(batch: Batch, kind: str) -> str:
    return f"file-{batch.id}-{kind}"


def _octets(content: bytes) -> Reply:
    return Reply(status=200, body=content, content_type="application/octet-stream")
