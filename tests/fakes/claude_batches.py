"""The Message Batches of the Anthropic API, every part of a batch checked as strictly as a message."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.fakes.batching import (
    JSONL,
    Batch,
    Counter,
    Fate,
    Item,
    Shelf,
    json_reply,
    no_query,
    page_of,
    query_of,
)
from tests.fakes.behaviours import Answer, Behaviour, Json, Reply, Scripted
from tests.fakes.claude_events import message_of
from tests.fakes.claude_models import ClaudeModel
from tests.fakes.claude_rules import check_message
from tests.fakes.claude_words import request_field
from tests.fakes.endpoint import Route
from tests.fakes.fields import Field
from tests.fakes.json_body import decode_json
from tests.fakes.seen import RefusalError, Seen

CLAUDE_BATCHES = "/v1/messages/batches"
_ONE = rf"{CLAUDE_BATCHES}/(?P<id>[^/]+)"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_REQUESTS = 100_000
_MOST_BYTES = 64 * 1024 * 1024
"""The real limit is 256 MB; more than this the fake does not keep."""
_DEFAULT_PAGE, _MOST_PAGE = 20, 1_000


class ClaudeBatches(Shelf):
    """The addresses of a server's batches."""

    def __init__(
        self,
        models: dict[str, ClaudeModel],
        root: Callable[[], str],
        dress: Callable[[Answer, Seen], Answer],
    ) -> None:
        super().__init__()
        self._models = models
        self._root = root
        self._dress = dress
        self._create = Counter(self._check_create, self._created)

    @property
    def routes(self) -> list[Route]:
        return [
            ("POST", CLAUDE_BATCHES, self._create),
            ("GET", CLAUDE_BATCHES, Counter(_check_list, self._listed)),
            ("GET", _ONE, Counter(no_query, self._told)),
            ("GET", f"{_ONE}/results", Counter(no_query, self._results)),
            ("POST", f"{_ONE}/cancel", Counter(no_query, self._cancelled)),
        ]

    def lost(self, behaviour: Behaviour) -> Scripted:
        """For a script on the creation: accepted, and then this."""
        return self.accepted_but(self._create, behaviour)

    def plant(self, name: str, custom_ids: list[str], *, age: float = 0.0) -> None:
        """Somebody else's batch, ended when the delay has passed."""
        body = {"model": "claude-opus-5", "max_tokens": 1, "messages": [{"role": "user", "content": "Ciao"}]}
        self.add(name, [Item(custom_id, body) for custom_id in custom_ids], age=age)

    # Creating

    def _check_create(self, seen: Seen) -> None:
        no_query(seen)
        if seen.size > _MOST_BYTES:
            raise RefusalError(413, "Request exceeds the maximum size")
        decode_json(
            seen, "The request body is not valid JSON", "The request content-type must be application/json"
        )
        requests = request_field(seen.body).object("requests")["requests"]
        names: set[str] = set()
        for request in requests.items(1, _MOST_REQUESTS):
            parts = request.object("custom_id params")
            name = parts["custom_id"].text()
            if not _NAME.fullmatch(name):
                raise parts["custom_id"].bad("String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
            if name in names:
                raise parts["custom_id"].bad(f"Duplicate custom_id: {name}")
            names.add(name)
            self._check_params(parts["params"])

    def _check_params(self, params: Field) -> None:
        try:
            check_message(params.value, self._models, batch=True)
        except RefusalError as refusal:
            # A real batch would end with this error for this request; here it is not to be overlooked.
            raise RefusalError(refusal.status, f"{params.place}: {refusal.message}") from refusal

    def _created(self, seen: Seen) -> Reply:
        self.created += 1
        items = [Item(request["custom_id"], request["params"]) for request in seen.body["requests"]]
        return json_reply(self._json(self.add(f"msgbatch_{next(self.serial):024d}", items)))

    # Asking

    def _told(self, seen: Seen) -> Reply:
        batch = self._named(seen)
        return batch if isinstance(batch, Reply) else json_reply(self._json(batch))

    def _listed(self, seen: Seen) -> Reply:
        query = query_of(seen, _LIST_QUERY)
        batches = self.newest_first()
        found, more = page_of(batches, query.get("after_id"), query.get("limit", _DEFAULT_PAGE))
        data = [self._json(batch) for batch in found]
        ends = {
            "first_id": found[0].id if found else None,
            "last_id": found[-1].id if found else None,
        }
        return json_reply({"data": data, "has_more": more, **ends})

    def _results(self, seen: Seen) -> Reply:
        batch = self._named(seen)
        if isinstance(batch, Reply):
            return batch
        if not batch.ended:
            raise RefusalError(400, "The batch has not finished processing.")
        return Reply(status=200, body=self.lines(batch, self._line), content_type=JSONL)

    def _cancelled(self, seen: Seen) -> Reply:
        batch = self._named(seen)
        if isinstance(batch, Reply):
            return batch
        if batch.ended:
            raise RefusalError(400, "The batch has already ended.")
        batch.cancelled_at = time.time()
        return json_reply(self._json(batch))

    def _named(self, seen: Seen) -> Batch | Reply:
        found = re.match(_ONE, seen.path)
        assert found is not None
        return self.get(found["id"])

    def _json(self, batch: Batch) -> Json:
        ended = batch.ended
        counts: dict[str, int] = {"processing": 0} | {str(fate): n for fate, n in self.counts(batch).items()}
        if not ended:
            counts = dict.fromkeys(counts, 0) | {"processing": len(batch.items)}
        running = "canceling" if batch.cancelled_at is not None else "in_progress"
        created = datetime.fromtimestamp(batch.created_at, UTC)
        cancelled = batch.cancelled_at
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else running,
            "request_counts": counts,
            "created_at": created.isoformat(),
            "expires_at": (created + timedelta(hours=24)).isoformat(),
            "ended_at": datetime.now(UTC).isoformat() if ended else None,
            "cancel_initiated_at": None
            if cancelled is None
            else datetime.fromtimestamp(cancelled, UTC).isoformat(),
            "archived_at": None,
            "results_url": f"{self._root()}{CLAUDE_BATCHES}/{batch.id}/results" if ended else None,
        }

    def _line(self, item: Item, position: int, fate: Fate) -> Json:
        result: Json = {"type": fate}
        if fate == "succeeded":
            result["message"] = self._message(item, position)
        if fate == "errored":
            error = {"type": "api_error", "message": "Internal server error"}
            result["error"] = {"type": "error", "error": error, "request_id": f"req_{position:012d}"}
        return {"custom_id": item.custom_id, "result": result}

    def _message(self, item: Item, position: int) -> Any:
        asked = Seen(
            number=position, method="POST", path="/v1/messages", query="", headers={}, body=item.body
        )
        message = msgspec.json.decode(message_of(self._dress(self.answer(position), asked), asked))
        message["usage"]["service_tier"] = "batch"
        return message


_LIST_QUERY: dict[str, type] = {"after_id": str, "limit": int}


def _check_list(seen: Seen) -> None:
    limit = query_of(seen, _LIST_QUERY).get("limit", _DEFAULT_PAGE)
    if not 1 <= limit <= _MOST_PAGE:
        raise RefusalError(400, f"limit: Input should be between 1 and {_MOST_PAGE}")
