"""A call on its way to a provider, and the row that the ledger keeps of it."""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from enum import StrEnum

import msgspec

from gateway.domain.completion import JsonSchema, Part, Shape, Turn
from gateway.domain.usage import UnitPrice, Usage

ATTEMPTS_PER_MODEL = 3
TOTAL_SECONDS = 300.0


class CallPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """By which rules a front door's calls are judged and made. The defaults are the partners'.

    Attributes:
        attempts: How often one model is asked at most.
        asks_again: Whether somebody is asked again (the same model, or another) after a failure that leaves open
            whether the model worked: a timeout, a cut, most 5xx. Without it only a clear refusal to serve lets another
            model be asked.
        until: When all must be over at the latest, by the machine's monotonic clock; None for `TOTAL_SECONDS` from the
            moment the first provider is asked.
        zone: Where the day begins that pays; None for the gateway's zone.
        daily_budget: Cap in micro-dollars for a day, in place of the project's; None for the project's.
        strict: No call is admitted whose worst case does not fit under the cap, also when no other runs; and nobody
            waits for room.
        cached: Whether an equal answer may be given again, if the recipe allows it.
        weighed: Whether a call whose input is too much for the model is refused before it is sent.
        shape: The forced form of the answer, in place of what the request's extras ask for.
        temperature: For models that take one.
        counted: Whether its calls count for the project's hourly limit.

    """

    attempts: int = ATTEMPTS_PER_MODEL
    asks_again: bool = True
    until: float | None = None
    zone: tzinfo | None = None
    daily_budget: int | None = None
    strict: bool = False
    cached: bool = True
    weighed: bool = False
    shape: JsonSchema | None = None
    temperature: float | None = None
    counted: bool = True


PARTNER_POLICY = CallPolicy()


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to search the web.

    Attributes:
        most: Searches, all turns of the call together.
        domains: The only domains to search; empty means any.
        most_input_tokens: What the pages found may weigh; a turn that was paused beyond is not continued.

    """

    most: int
    domains: tuple[str, ...] = ()
    most_input_tokens: int


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared call: everything a provider needs but the model.

    Attributes:
        instructions: The recipe's text, stable over calls.
        parameters: Sentences that depend on this request's extras; empty when there are none.
        passages: The block of the project's own documents that stands before the last turn's text; empty for none.
        attachments: PDFs and photos that go with the last turn.
        cited: The model is to say on which pages of the PDFs its answer rests.
        search: Leave to search the web, or None.
        turns: The conversation so far and the content, oldest first; the last is the caller's.
        answer_tokens: Limit of the answer, without what the model may think.
        watched: Somebody wants the pieces as they come; else the provider is asked for the whole at once.
        temperature: For models that take one; None leaves it to them.
        request_id: For the log.

    """

    request_id: str
    instructions: str
    parameters: str = ""
    turns: tuple[Turn, ...]
    passages: str = ""
    attachments: tuple[Part, ...] = ()
    cited: bool = False
    search: Search | None = None
    answer_tokens: int
    shape: Shape | None = None
    watched: bool = False
    temperature: float | None = None

    @property
    def question(self) -> Turn:
        """The last turn as it is sent: the passages, then its text."""
        last = self.turns[-1]
        return Turn(last.role, self.passages + last.text) if self.passages else last


class Outcome(StrEnum):
    """How a call ended, in the ledger's words."""

    OK = "ok"
    CACHE = "cache"
    REFUSED = "rifiutata"
    INTERRUPTED = "interrotta"
    FAILED = "errore"
    LOST = "persa"
    NOTIFIED = "avvisata"
    """No call: the project's address was told that deferred work has ended."""
    NOT_NOTIFIED = "non_avvisata"
    """No call: an attempt to tell it failed."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One time a provider was asked.

    Attributes:
        outcome: `ok`, or the kind of the provider's failure.
        cost: Micro-dollars.
        prices: The unit prices the cost was reckoned with; None when nothing was consumed.

    """

    provider: str
    model: str
    outcome: str
    usage: Usage = Usage()
    cost: int = 0
    prices: UnitPrice | None = None
    duration_ms: int = 0


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger: never a content, a key or an answer.

    Attributes:
        day: The project's day (in the configured time zone) that pays for it.
        fault: Code of the error the caller got, if any.
        cost: Micro-dollars over all attempts.
        key_id, by: Which key, or which front door or operator, asked.
        provider_ms: Time spent waiting for providers.
        batch: Number of the deferred work this row pays, at half the price; None for a call.

    """

    request_id: str
    project: str
    day: date
    started_at: datetime
    recipe: str
    recipe_version: int
    outcome: Outcome
    key_id: int | None = None
    by: str | None = None
    brain: str = ""
    provider: str = ""
    model: str = ""
    fault: str | None = None
    usage: Usage = Usage()
    cost: int = 0
    attempts: tuple[Attempt, ...] = ()
    fallback: str | None = None
    truncated: bool = False
    duration_ms: int = 0
    provider_ms: int = 0
    batch: str | None = None
