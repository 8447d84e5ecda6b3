"""Every seam with two shipped implementations, on one page: providers, embedders, vector indexes and the gate.

A contract suite runs once over every implementation of each (`tests/contract/`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from gateway.domain.batches import Poll
from gateway.domain.calls import ModelCall
from gateway.domain.catalog import Target
from gateway.domain.completion import Shape
from gateway.domain.events import ProviderEvents

# --- providers ---------------------------------------------------------------------------------------------------


DECLINING_STATUSES = frozenset({429, 529})
"""A clear refusal to serve: nothing was begun."""


class Trouble(StrEnum):
    """Kinds of a provider's failure: they decide what the chain does next (decision: retry, next choice, stop)."""

    UNREACHABLE = "irraggiungibile"
    """No connection, or cut in the middle: may be tried again."""
    TIMEOUT = "tempo_scaduto"
    """No answer in time: may be tried again."""
    OVERLOADED = "sovraccarico"
    """408, 409, 429, 503, 529: may be tried again, after `retry_after` if given."""
    FAULTY = "guasto"
    """Other 5xx, or an answer that is none (HTML, empty, no end): may be tried again."""
    REJECTED = "rifiuto_api"
    """Other 4xx, or no key configured: the gateway's fault; only another choice may help."""
    UNUSABLE = "inservibile"
    """The model answered, but its answer can't be passed on (a forced shape cut by the limit): asking again is futile."""

    @property
    def repeatable(self) -> bool:
        """Whether the same model may be asked again."""
        return self not in {Trouble.REJECTED, Trouble.UNUSABLE}

    @property
    def absent(self) -> bool:
        """Whether the provider was not there (503 for the caller) rather than wrong (502)."""
        return self in {Trouble.UNREACHABLE, Trouble.TIMEOUT, Trouble.OVERLOADED}


class ProviderError(Exception):
    """A provider did not answer as it should.

    Args:
        trouble: What kind of failure.
        reason: For the log, English, bounded, without content or keys (the provider's error type, not its body).
        status: HTTP status, if there was one.
        retry_after: Seconds the provider asked to wait.
        sent: False when no byte of the request can have reached the provider.

    """

    def __init__(
        self,
        trouble: Trouble,
        reason: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(reason)
        self.trouble = trouble
        self.reason = reason
        self.status = status
        self.retry_after = retry_after
        self.sent = sent
        self.billed_tokens = 0
        """What an embedder was paid for texts whose vectors it did not give."""

    @property
    def declined(self) -> bool:
        """Whether it is certain that no model worked on the request: it never arrived, or was turned away for load."""
        return not self.sent or self.status in DECLINING_STATUSES


class Provider(Protocol):
    """Somebody who answers model calls."""

    name: str
    """The value of `meta.provider`."""

    @property
    def ready(self) -> bool:
        """Whether it can be asked at all (a key is configured)."""
        ...

    def stream(self, call: ModelCall, target: Target) -> ProviderEvents:
        """Ask once: yields pieces and metering, ends with `Finished`.

        Closing the sequence closes the connection to the provider at once. Nothing is retried here.

        Raises:
            ProviderError: While iterating, at any point.

        """
        ...


class BatchProvider(Protocol):
    """Somebody who also does deferred work, at half the price, within a day.

    Positions count from 0; a call's name at the provider begins with the batch's number.
    """

    name: str

    async def submit(self, number: str, calls: Sequence[ModelCall], target: Target) -> str:
        """Hand a batch in, once: nothing is retried here. Gives the provider's name of it.

        Raises:
            ProviderError: With a 4xx or 529 status, or before anything was sent (`sent` false), nothing was accepted;
                with anything else it may have been: never send it again, `find` it.

        """
        ...

    async def find(self, number: str, sent_at: datetime, total: int, held: Collection[str]) -> str | None:
        """Look for a batch whose submission was ambiguous; None if it is not there (yet).

        Args:
            sent_at: When it was sent.
            total: How many calls it has.
            held: The provider's names of batches that are known to be others.

        Raises:
            ProviderError: The provider could not be asked.

        """
        ...

    async def poll(
        self, provider_id: str, number: str, total: int, *, shape: Shape | None, documents: Sequence[str]
    ) -> Poll:
        """Ask how far a batch is; its outcomes once it has ended.

        Raises:
            ProviderError: The provider could not be asked, or what it said is no answer.

        """
        ...


# --- the knowledge base ------------------------------------------------------------------------------------------


class Embedded(msgspec.Struct, frozen=True):
    """Vectors of some texts, in their order.

    Attributes:
        vectors: Each a unit-length vector, 32-bit little-endian floats.
        tokens: Input tokens that the embedder bills; 0 where nothing is billed.

    """

    vectors: tuple[bytes, ...]
    tokens: int


class Embedder(Protocol):
    """Somebody who makes vectors of texts; the vectors of two embedders are never compared.

    Attributes:
        name: Which vectors these are: it changes whenever they could not be compared with the earlier ones.
        provider, model: Who is paid and at which price; `provider` is "locale" or "prova" where nothing is.
        floor: Cosine similarity under which a passage has nothing to do with the question.

    """

    name: str
    provider: str
    model: str
    floor: float

    @property
    def ready(self) -> bool:
        """Whether it can be asked at all (a key is configured)."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Embedded:
        """Vectors of a document's passages, with the patience of a provider's call.

        Raises:
            ProviderError: They could not be had.

        """
        ...

    async def embed_question(self, text: str) -> Embedded:
        """The vector of one question, within 5 seconds in all; a long one is judged by its beginning.

        Raises:
            ProviderError: It could not be had.

        """
        ...


class Match(msgspec.Struct, frozen=True):
    """A passage that resembles a question. `passage` counts from 1; `similarity` is the cosine."""

    document: int
    passage: int
    text: str
    similarity: float


class VectorIndex(Protocol):
    """Passages with their vectors; every method takes the project first, which filters before anything is searched.

    Every method raises `StoreAwayError` within 2 seconds (`write`: 30) when the store does not answer.
    """

    async def write(
        self, project: str, document: int, version: int, passages: Sequence[str], vectors: Sequence[bytes]
    ) -> None:
        """Store a version of a document whole, in place of what is there under the same version."""
        ...

    async def forget(self, project: str, document: int, version: int | None = None) -> None:
        """Remove a version of a document, or all of it. Nothing there is no error."""
        ...

    async def forget_project(self, project: str) -> None:
        """Remove everything of a project."""
        ...

    async def search(
        self, project: str, live: Mapping[int, int], vector: bytes, most: int, floor: float
    ) -> Sequence[Match]:
        """The passages nearest to a vector, best first, among the `live` versions (document → version) alone.

        Args:
            most: How many at most.
            floor: Similarity that each has at least.

        """
        ...

    async def held(self, project: str, live: Mapping[int, int]) -> frozenset[int]:
        """The documents among the `live` versions whose version has passages here; an index that was lost holds none."""
        ...

    async def passages(self, project: str, document: int, version: int) -> Sequence[str]:
        """The passages of a version, in their order; empty when there are none."""
        ...

    async def ping(self) -> None:
        """Return if the store answers."""
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...


# --- the gate ----------------------------------------------------------------------------------------------------


CLAIM_SECONDS = 15
"""A claim or reservation not renewed for so long belongs to a dead process (claims)."""
RESERVATION_SECONDS = 60
"""The same for reservations."""
WINDOW_SECONDS = 3_600
"""Length of the sliding window of the hourly limit."""
KEPT_SECONDS = 3_600
"""How long an answer is given again under its Idempotency-Key, from the moment it was kept."""


class Claim(msgspec.Struct, frozen=True):
    """A wish to be the only one who runs under an Idempotency-Key.

    Attributes:
        waited: The wisher found the key busy before: a note left meanwhile is for it too.

    """

    key: str
    fingerprint: str
    waited: bool = False


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may spend, under the project's cap.

    Attributes:
        day: The project's day, ISO.
        epoch: Number of the current reign of the gate over budgets (see `chain/budget.py`); totals of another epoch
            are unknown.
        cap: Micro-dollars, or None for a project without a cap (the reservation is held all the same, so that a
            process that dies leaves a trace).
        worst_case: Micro-dollars to reserve.
        strict: Under a cap nobody is admitted whom it does not cover, also when the project has no reservation.
        record: Opaque bytes returned by `orphans` if the process dies: what to write in the ledger.

    """

    day: str
    epoch: int
    cap: int | None
    worst_case: int
    record: bytes
    strict: bool = False


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call that asks to be let in.

    Attributes:
        project: All state belongs to it; in Redis its name is the hash tag of every key.
        request_id: Names the call's entry in the window and its reservation.
        now: Business time, seconds since the epoch (the window, expiries). Leases use the store's own clock.
        hourly_limit: None when the calls of this front door are not counted.
        claim: With an Idempotency-Key only.
        cache_key: With a cacheable recipe only.
        terms: None when the budget is reserved elsewhere (in the database) or not at all.

    """

    project: str
    request_id: str
    now: float
    hourly_limit: int | None = None
    claim: Claim | None = None
    cache_key: str | None = None
    terms: Terms | None = None


class Admitted(msgspec.Struct, frozen=True):
    """Come in: claim, window entry and reservation are held.

    Attributes:
        generation: The project's cache generation at this moment.

    """

    generation: int = 0


class Earlier(msgspec.Struct, frozen=True):
    """The answer is there already: kept under the key, or (`cached`) in the project's cache.

    A cached answer has been counted in the window and the claim is held as if admitted (settle or release it);
    a kept one consumed nothing and holds nothing.
    """

    answer: bytes
    cached: bool


class Interrupted(msgspec.Struct, frozen=True):
    """A call under the key ended without an answer and left a note; the key is free for whoever comes next."""

    note: bytes


class Busy(msgspec.Struct, frozen=True):
    """Another call runs under the same key: wait and ask again."""


class Mismatch(msgspec.Struct, frozen=True):
    """The key is taken by a request with another fingerprint."""


class LimitReached(msgspec.Struct, frozen=True):
    """The window is full; the next call fits after so many seconds of business time (at least 1)."""

    retry_after: int


class BudgetSpent(msgspec.Struct, frozen=True):
    """Spent ≥ cap."""


class BudgetHeld(msgspec.Struct, frozen=True):
    """Only reservations of running calls are in the way: wait for room. Or, if `strict`, the own worst case is."""


class TotalUnknown(msgspec.Struct, frozen=True):
    """The gate does not know what the project spent that day: load it and `supply` it with this token, ask again.

    Attributes:
        traced: The gate has some trace of the day. Without one it never knew it, or has lost its data.

    """

    token: str
    traced: bool = False


Verdict = (
    Admitted
    | Earlier
    | Interrupted
    | Busy
    | Mismatch
    | LimitReached
    | BudgetSpent
    | BudgetHeld
    | TotalUnknown
)


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How an admitted call ended.

    Attributes:
        request: As admitted: names the claim, the reservation and the cap's day.
        cost: Micro-dollars that move from reserved to spent.
        now: Business time, for expiries.
        answer: Kept under the claim for `KEPT_SECONDS`, or None: the claim is dropped.
        note: Instead of an answer: what a call that gave none leaves to others. It is given back for as long by
            `earlier`, and by `admit` to those who waited; the key stays free for a request with the same fingerprint.
        cached: Kept in the project's cache under `request.cache_key` for so many seconds, or None.
        generation: The cache generation when the call was admitted; if it has passed, nothing is cached.

    """

    request: AdmissionRequest
    cost: int
    now: float
    answer: bytes | None = None
    note: bytes | None = None
    cached: bytes | None = None
    cache_seconds: float = 0
    generation: int = 0


class Orphan(msgspec.Struct, frozen=True):
    """A reservation whose process died, claimed by the asker for one more lease."""

    project: str
    request_id: str
    day: str
    epoch: int
    record: bytes


class Gate(Protocol):
    """Admission in one atomic step, settlement in one: exact across tasks, workers and nodes.

    Every method raises `StoreAwayError` within 2 seconds when the store does not answer.
    """

    async def earlier(
        self, project: str, claim: Claim, now: float
    ) -> Earlier | Interrupted | Mismatch | None:
        """Look under a key without claiming it: a kept answer or note, another request's key, or None (free, running)."""
        ...

    async def admit(self, request: AdmissionRequest) -> Verdict:
        """Decide, in this order: claim, window, cache, budget. Anything but `Admitted` and a cached `Earlier` leaves no trace.

        Budget: spent ≥ cap → `BudgetSpent`; admitted while spent + reserved + own ≤ cap, and (not if `strict`) always
        when the project has no reservation that day and spent < cap; else `BudgetHeld`. The reservation is held also
        without a cap.
        """
        ...

    async def supply(self, project: str, day: str, epoch: int, token: str, spent: int) -> bool:
        """Give the day's spent total read from the database; False if the token has passed (read and supply again)."""
        ...

    async def renew(self, requests: Sequence[AdmissionRequest]) -> None:
        """Keep the claims and reservations of living calls; writes back what the store lost."""
        ...

    async def settle(self, *settlements: Settlement) -> None:
        """Reserved becomes spent, the answer is kept, the claim ends. Settling twice changes nothing the second time.

        Each settlement is a step of its own: when this fails, any of them may have been carried out.

        With a total unknown the token passes, so that a total read earlier is not believed.
        """
        ...

    async def release(self, request: AdmissionRequest) -> None:
        """Undo an admission that spent nothing: claim, window entry, reservation."""
        ...

    async def orphans(self, limit: int = 100) -> Sequence[Orphan]:
        """Reservations whose lease has passed; each is handed to one asker at a time, who settles it."""
        ...

    async def generation(self, project: str) -> int:
        """Number of the project's current cache generation."""
        ...

    async def forget_total(self, project: str, day: str) -> None:
        """Forget what the project spent that day: it is loaded from the database before anything more is admitted."""
        ...

    async def forget_answers(self, project: str) -> None:
        """Drop the project's cached answers (a new generation)."""
        ...

    async def forget_project(self, project: str) -> None:
        """Drop everything held for a removed project."""
        ...

    async def ping(self) -> None:
        """Return if the store answers."""
        ...

    async def close(self) -> None:
        """Let go of connections and, where leases are bound to the process, of the living mark."""
        ...
