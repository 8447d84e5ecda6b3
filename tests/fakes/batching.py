"""What the batches of both providers have in common: the shelf they stand on and what a test may ask of them."""

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from tests.fakes.behaviours import Answer, Behaviour, Json, Reply
from tests.fakes.endpoint import Frame
from tests.fakes.script import as_behaviour, say
from tests.fakes.seen import RefusalError, Seen

if TYPE_CHECKING:
    from tests.fakes.behaviours import Part, Scripted

Fate: TypeAlias = Literal["succeeded", "errored", "expired", "canceled"]

JSONL = "application/x-jsonl"


class Item(msgspec.Struct):
    """One request of a batch."""

    custom_id: str
    body: Any


class Batch(msgspec.Struct, kw_only=True):
    """A batch as the provider has it; `ends_at` is on the monotonic clock."""

    id: str
    items: list[Item]
    created_at: float
    ends_at: float
    cancelled_at: float | None = None
    facts: Json = {}

    @property
    def ended(self) -> bool:
        return time.monotonic() >= self.ends_at


class Shelf:
    """All batches of a server, and how they end. What is set here holds when a result is read, not when it is ordered.

    `delay` passes before a batch ends; `shuffled` results come in another order, `doubled` ones twice (the second time
    as an error), `strange` ones with an id that nobody sent in front. Each item's fate is in `fates` by its position,
    else the first `done` succeed and the others expire; of those `omitted` nothing is told. `answers` are what the model says, by position.
    """

    def __init__(self) -> None:
        self.serial = itertools.count(1)
        """Of the batches' names: no reset begins anew, for a name is never given twice."""
        self.reset()

    def reset(self) -> None:
        """No batches, everything succeeds at once."""
        self.delay = 0.0
        self.shuffled = self.doubled = self.strange = False
        self.done: int | None = None
        self.fates: dict[int, Fate] = {}
        self.omitted: set[int] = set()
        self.answers: dict[int, Answer | Part] = {}
        self.created = 0
        """How many batches were accepted, the ones whose reply was lost included."""
        self.held: dict[str, Batch] = {}
        self._forgotten: set[str] = set()

    def add(self, name: str, items: list[Item], *, age: float = 0.0, **facts: Any) -> Batch:
        """A batch; a test may put another customer's there, `age` seconds old."""
        batch = Batch(
            id=name,
            items=items,
            created_at=time.time() - age,
            ends_at=time.monotonic() + self.delay,
            facts=facts,
        )
        self.held[batch.id] = batch
        return batch

    def end(self) -> None:
        """Ends all of them now."""
        for batch in self.held.values():
            batch.ends_at = 0.0

    def forget(self, name: str) -> None:
        """As if it had never been; asking for it is no fault of the client's."""
        del self.held[name]
        self._forgotten.add(name)

    def newest_first(self) -> list[Batch]:
        return sorted(self.held.values(), key=lambda batch: batch.created_at, reverse=True)

    def get(self, name: str) -> Batch | Reply:
        """The batch, or the reply that there is none; one that never was is the client's fault."""
        if name in self._forgotten:
            return Reply(status=404, message=f"No batch {name}")
        if name not in self.held:
            raise RefusalError(404, f"No batch {name}")
        return self.held[name]

    def fate(self, batch: Batch, position: int) -> Fate:
        if batch.cancelled_at is not None:
            return "canceled"
        if position in self.fates:
            return self.fates[position]
        return "succeeded" if self.done is None or position < self.done else "expired"

    def counts(self, batch: Batch) -> dict[Fate, int]:
        positions = set(range(len(batch.items))) - self.omitted
        fates = [self.fate(batch, position) for position in positions]
        return {fate: fates.count(fate) for fate in ("succeeded", "errored", "expired", "canceled")}

    def answer(self, position: int) -> Answer:
        if position not in self.answers:
            return msgspec.structs.replace(say(f"Fatto il numero {position}."), shaped=True)
        scripted = as_behaviour(self.answers[position])
        assert isinstance(scripted, Answer)
        return scripted

    def lines(self, batch: Batch, line: Callable[[Item, int, Fate], Json | None]) -> bytes:
        """The results, one a line; `line` makes one, or None where a text is not told of."""
        entries = [entry for entry in enumerate(batch.items) if entry[0] not in self.omitted]
        if self.shuffled:
            random.Random(len(entries)).shuffle(entries)
            if len(entries) > 1 and entries[0][0] == 0:
                entries.reverse()
        told = [line(item, position, self.fate(batch, position)) for position, item in entries]
        if self.strange:
            told.insert(0, line(Item("altro-0", batch.items[0].body), 0, "errored"))
        if self.doubled:
            told += [line(item, position, "errored") for position, item in entries]
        return b"".join(msgspec.json.encode(one) + b"\n" for one in told if one is not None)

    def accepted_but(self, endpoint: "Counter", behaviour: "Behaviour") -> "Scripted":
        """For a script: the batch is made, and then the reply is another, or none."""

        def perform(seen: Seen) -> Behaviour:
            endpoint.respond(seen)
            return behaviour

        return perform


class Counter:
    """An endpoint that answers from the shelf. A cut or a drip in its script is done to the true answer."""

    def __init__(self, check: Callable[[Seen], None], respond: Callable[[Seen], Reply]) -> None:
        self.default: Scripted = respond
        self.respond = respond
        self._check = check

    def accept(self, seen: Seen) -> None:
        self._check(seen)

    def streams(self, seen: Seen) -> bool:
        return False

    def dress(self, scripted: Answer, seen: Seen) -> Answer:
        return scripted

    def whole(self, scripted: Answer, seen: Seen) -> bytes:
        return self.respond(seen).body or b""

    def frames(self, scripted: Answer, seen: Seen) -> Iterator[Frame]:
        yield Frame(self.whole(scripted, seen))


def json_reply(body: Json) -> Reply:
    return Reply(status=200, body=msgspec.json.encode(body))


def query_of(seen: Seen, allowed: Mapping[str, type]) -> dict[str, Any]:
    """The query's parameters; unknown ones, and words for numbers, are refused."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(seen.query, keep_blank_values=True):
        if name not in allowed or name in found:
            raise RefusalError(400, f"{name}: Extra inputs are not permitted")
        if allowed[name] is int and not value.isdecimal():
            raise RefusalError(400, f"{name}: Input should be a valid integer")
        found[name] = allowed[name](value)
    return found


def page_of(batches: list[Batch], after: str | None, limit: int) -> tuple[list[Batch], bool]:
    """The batches after the one named, and whether there are more."""
    start = 0
    if after is not None:
        names = [batch.id for batch in batches]
        if after not in names:
            raise RefusalError(400, f"after: no batch {after}")
        start = names.index(after) + 1
    return batches[start : start + limit], len(batches) > start + limit


def no_query(seen: Seen) -> None:
    query_of(seen, {})
