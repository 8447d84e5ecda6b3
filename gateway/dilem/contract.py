"""Every request and response of Dilem, as typed values: validators, schemas and tables are all made from these.

Limits count Unicode code points. A rule over several members stands in the request's `__post_init__`, whose message
begins with the offending member's JSON pointer and never repeats what was sent.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

VERSION = "1.1.0"
"""Of the REST API, as `info.version` and MCP's `serverInfo.version` tell it."""
MCP_VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18")
"""Of the Model Context Protocol, the newest first: told by `server/discover` and by the server card."""
SESSION_SECONDS: Literal[7776000] = 7776000
"""90 days."""
BODY_BYTES = 300_000
TOTAL_CHARACTERS = 24_000
"""Of `text` and all `refinements` together."""
MINIMUM_MESSAGE_CHARACTERS = 5
"""Other than white space, in a report's message."""
MAXIMUM_MESSAGE_CHARACTERS = 4000

Language: TypeAlias = Literal["fr", "en", "it", "de", "es", "pt"]
LANGUAGES: tuple[Language, ...] = ("fr", "en", "it", "de", "es", "pt")
Theme: TypeAlias = Literal["light", "dark"]
Format: TypeAlias = Literal["single", "multiple", "text", "number"]
Purpose: TypeAlias = Literal["decision_scope", "scope_notice", "insufficient_evidence"]
Reason: TypeAlias = Literal["misunderstood", "missing_constraint", "too_many_questions", "too_vague"]
Kind: TypeAlias = Literal["general", "response"]
Source: TypeAlias = Literal["agent", "menu", "help", "response"]
Screen: TypeAlias = Literal["home", "clarification", "result", "other"]

# Python's `$` also matches before a last line feed, JSON Schema's does not: `schemas.py` tells these as ^ and $.
CaseId: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-zA-Z0-9_-]{1,80}\Z")]
OptionId: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,31}\Z")]
ResultId: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
RequestId: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
AppVersion: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z|\Aunknown\Z")]
Reference: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:-]{1,80}\Z")]

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=6000)]
Refinement: TypeAlias = Annotated[str, Meta(max_length=6000)]
Refinements: TypeAlias = Annotated[tuple[Refinement, ...], Meta(max_length=40)]
ClarificationCount: TypeAlias = Annotated[int, Meta(ge=0, le=20)]
Summary: TypeAlias = Annotated[str, Meta(min_length=1, max_length=6000)]
Label: TypeAlias = Annotated[str, Meta(min_length=1, max_length=120)]
Description: TypeAlias = Annotated[str, Meta(max_length=240)]
Weight: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Message: TypeAlias = Annotated[
    str, Meta(min_length=MINIMUM_MESSAGE_CHARACTERS, max_length=MAXIMUM_MESSAGE_CHARACTERS)
]
Email: TypeAlias = Annotated[str, Meta(max_length=254)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Day: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date"})]
"""As `YYYY-MM-DD`, UTC."""
DayTime: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""As `YYYY-MM-DDTHH:MM:SSZ`."""


# Session and usage ---------------------------------------------------------------------------


class SessionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /session`: nothing. The token travels in the header."""


class Session(Struct, frozen=True, kw_only=True):
    """The private token of an identity, and how many seconds it lives."""

    session: str
    expires_in: Literal[7776000]


class Collective(Struct, frozen=True, kw_only=True):
    """What all identities have done together."""

    completed: Count


class Dilemmas(Struct, frozen=True, kw_only=True):
    """An identity's credits of the day."""

    used: Count
    limit: Count
    remaining: Count


class CaseState(Struct, frozen=True, kw_only=True):
    """What became of the case that was asked about; without one, nothing."""

    id: CaseId | None
    admitted: bool
    completed: bool


class Voice(Struct, frozen=True, kw_only=True):
    """Dictation, in seconds; the remote doors take text alone."""

    seconds_used: float | UnsetType = UNSET
    seconds_reserved: float | UnsetType = UNSET
    seconds_remaining: float | UnsetType = UNSET
    seconds_limit: float | UnsetType = UNSET
    max_seconds: float | UnsetType = UNSET


class Budget(Struct, frozen=True, kw_only=True):
    """The service's spending cap of the day, and whether it still permits computations."""

    daily_usd: float
    available: bool


class Usage(Struct, frozen=True, kw_only=True):
    """Credits, their renewal, and a case's state."""

    day: Day
    resets_at: DayTime
    collective: Collective
    dilemmas: Dilemmas
    case: CaseState
    voice: Voice
    budget: Budget


# Decide --------------------------------------------------------------------------------------


class DecideRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn of a dilemma."""

    text: Text
    language: Language
    refinements: Refinements = ()
    force_decision: bool = False
    clarification_count: ClarificationCount = 0
    clarification_version: Literal[2] = 2

    @property
    def characters(self) -> int:
        """Of the text and all refinements."""
        return len(self.text) + sum(map(len, self.refinements))

    def __post_init__(self) -> None:
        """Check what the schema can't say."""
        if not self.text.strip():
            raise ValueError("/text: needs a character other than white space")


class Clarification(Struct, frozen=True, kw_only=True, tag="clarification", tag_field="type"):
    """A question to pass on to the user, or a notice to show (by `purpose`)."""

    question: str
    choices: Annotated[tuple[str, ...], Meta(max_length=6)]
    format: Format
    unit: str | UnsetType | None = UNSET
    summary: str
    purpose: Purpose | UnsetType = UNSET
    metrics: dict[str, int] | UnsetType = UNSET


class Option(Struct, frozen=True, kw_only=True):
    """A compared option. `probability` is its weight among preferences, never a chance of success."""

    id: OptionId
    label: Label
    description: Description = ""
    probability: Weight


class SourceLink(Struct, frozen=True, kw_only=True):
    """A source that a retrieval step gave."""

    title: str
    url: str


class Result(Struct, frozen=True, kw_only=True, tag="result", tag_field="type"):
    """A recommendation."""

    summary: Summary
    context: str | UnsetType = UNSET
    assumptions: tuple[str, ...] | UnsetType = UNSET
    criteria: tuple[str, ...] | UnsetType = UNSET
    options: Annotated[tuple[Option, ...], Meta(min_length=2, max_length=8)]
    selected: str
    sources: tuple[SourceLink, ...]
    caution: str | UnsetType | None = UNSET
    timings: dict[str, int] | UnsetType = UNSET
    models: dict[str, str] | UnsetType = UNSET
    metrics: dict[str, int] | UnsetType = UNSET
    result_id: ResultId | UnsetType = UNSET


class Error(Struct, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """A refusal, or a failure of the pipeline (then at HTTP 200)."""

    code: str
    message: str | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    resets_at: DayTime | UnsetType = UNSET


DecisionResponse: TypeAlias = Clarification | Result | Error
DilemError: TypeAlias = Error
"""The same, where the name must say whose error it is."""


# Result card ---------------------------------------------------------------------------------


class CardOption(Struct, frozen=True, kw_only=True):
    """An option on the card; other members of a decide response's option are passed over."""

    id: OptionId
    label: Label
    description: Description = ""
    probability: Weight


class CardResult(Struct, frozen=True, kw_only=True):
    """A result already received; other members of a decide response are passed over."""

    summary: Summary
    selected: Annotated[str, Meta(max_length=32)]
    options: Annotated[tuple[CardOption, ...], Meta(min_length=2, max_length=8)]

    def __post_init__(self) -> None:
        """Check what the schema can't say."""
        ids = [option.id for option in self.options]
        if len(set(ids)) != len(ids):
            raise ValueError("/options: their ids must differ")
        if self.selected not in ids:
            raise ValueError("/selected: names none of the options")


class CardRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A card to be drawn."""

    result: CardResult
    language: Language = "fr"
    theme: Theme = "light"


class CardFile(Struct, frozen=True, kw_only=True):
    """A drawn card's facts, told by MCP beside the image."""

    filename: str
    mime_type: Literal["image/png"]
    size_bytes: Count
    width: Count
    height: Count
    theme: Theme
    language: Language


# Votes ---------------------------------------------------------------------------------------


class FeedbackRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's explicit vote."""

    result_id: ResultId
    helpful: bool
    reason: Reason | None = None

    def __post_init__(self) -> None:
        """Check what the schema can't say."""
        if self.helpful and self.reason is not None:
            raise ValueError("/reason: only with helpful false")


class Feedback(Struct, frozen=True, kw_only=True):
    """The vote that is recorded; without one, null."""

    result_id: ResultId
    helpful: bool | None
    reason: Reason | None


# Reports -------------------------------------------------------------------------------------


class ReportedResponse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exact answer a report is about."""

    kind: Literal["clarification", "recommendation"]
    text: Annotated[str, Meta(min_length=1, max_length=12000)]
    reference: Reference


class UserFeedback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message the user authorised, or a report of a response."""

    request_id: RequestId
    kind: Kind
    message: Message
    email: Email
    language: Language
    source: Source
    version: AppVersion
    screen: Screen
    response: ReportedResponse | None

    def __post_init__(self) -> None:
        """Check what the schema can't say."""
        if len("".join(self.message.split())) < MINIMUM_MESSAGE_CHARACTERS:
            raise ValueError(
                f"/message: needs {MINIMUM_MESSAGE_CHARACTERS} characters other than white space"
            )
        if self.email and not _plausible(self.email):
            raise ValueError("/email: takes an address or an empty string")
        if (self.kind == "response") != (self.response is not None):
            raise ValueError("/response: goes with kind response, and only with it")


class FeedbackAck(Struct, frozen=True, kw_only=True):
    """The report is recorded."""

    ok: Annotated[bool, Meta(extra_json_schema={"const": True})]


def _plausible(email: str) -> bool:
    name, at, host = email.partition("@")
    return (
        bool(name and at and host)
        and "@" not in host
        and not any(character.isspace() or not character.isprintable() for character in email)
    )


# MCP's arguments -----------------------------------------------------------------------------


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes. MCP has no headers: the session and the Case-ID are arguments."""


class StartSessionArguments(Arguments, frozen=True, kw_only=True):
    """`start_session`."""

    session: str | None = None


class GetUsageArguments(Arguments, frozen=True, kw_only=True):
    """`get_usage`."""

    session: str
    case_id: CaseId | None = None


class DecideArguments(Arguments, frozen=True, kw_only=True):
    """`decide`."""

    session: str
    case_id: CaseId
    text: Text
    language: Language = "fr"
    refinements: Refinements | None = None
    force_decision: bool = False
    clarification_count: ClarificationCount = 0
    clarification_version: Literal[2] = 2

    def request(self) -> DecideRequest:
        """Give what REST would have sent.

        Raises:
            ValueError: As `DecideRequest` does.

        """
        return DecideRequest(
            text=self.text,
            language=self.language,
            refinements=self.refinements or (),
            force_decision=self.force_decision,
            clarification_count=self.clarification_count,
        )


class ExportResultCardArguments(Arguments, frozen=True, kw_only=True):
    """`export_result_card`."""

    session: str
    result: CardResult
    language: Language = "fr"
    theme: Theme = "light"

    def request(self) -> CardRequest:
        """Give what REST would have sent."""
        return CardRequest(result=self.result, language=self.language, theme=self.theme)


class GetResultFeedbackArguments(Arguments, frozen=True, kw_only=True):
    """`get_result_feedback`."""

    session: str
    result_id: ResultId


class SetResultFeedbackArguments(Arguments, frozen=True, kw_only=True):
    """`set_result_feedback`."""

    session: str
    result_id: ResultId
    helpful: bool
    reason: Reason | None = None

    def request(self) -> FeedbackRequest:
        """Give what REST would have sent.

        Raises:
            ValueError: As `FeedbackRequest` does.

        """
        return FeedbackRequest(result_id=self.result_id, helpful=self.helpful, reason=self.reason)


class SendUserFeedbackArguments(Arguments, frozen=True, kw_only=True):
    """`send_user_feedback`."""

    session: str
    request_id: RequestId
    message: Message
    language: Language = "fr"
    kind: Kind = "general"
    email: Email = ""
    response: ReportedResponse | None = None

    def request(self) -> UserFeedback:
        """Give what REST would have sent, from an agent.

        Raises:
            ValueError: As `UserFeedback` does.

        """
        return UserFeedback(
            request_id=self.request_id,
            kind=self.kind,
            message=self.message,
            email=self.email,
            language=self.language,
            source="agent",
            version="unknown",
            screen="other",
            response=self.response,
        )
