"""Every code Dilem answers with, in one table; `DilemFailure` is the only exception that carries one.

Unlike the partners' table (`domain/errors.py`) whether to try again does not follow from the status here, and some
codes come at HTTP 200: what fails after a case was admitted is told in the body.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET, Struct

from gateway.dilem.contract import Error


class Code(Struct, frozen=True):
    """One row of the table.

    Attributes:
        code: The word a client decides by.
        status: Of REST's reply; MCP tells the same body as a tool's error.
        retryable: Whether a new attempt may be considered, by a person or an agent, never by a loop.
        message: English, short.
        renews: Whether the reply says when the day ends (`resets_at`).

    """

    code: str
    status: int
    retryable: bool
    message: str
    renews: bool = False


class DilemFailure(Exception):  # noqa: N818 - as the domain's Failure
    """A request that ends with a code of the table.

    Args:
        code: The row.
        note: English text in place of the row's, when it can be more exact; never holds what was sent.
        retry_after: Whole seconds, when known.
        resets_at: The end of the UTC day, for rows that renew.
        allow: The methods that a 405 names.
        reason: The true cause for the log; never sent, never holds content.

    """

    def __init__(
        self,
        code: Code,
        note: str | None = None,
        *,
        retry_after: int | None = None,
        resets_at: datetime | None = None,
        allow: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(code.code)
        self.code = code
        self.note = note
        self.retry_after = retry_after
        self.resets_at = resets_at
        self.allow = allow
        self.reason = reason

    def body(self) -> Error:
        """Give the error as it is told, over REST and MCP alike."""
        return Error(
            code=self.code.code,
            message=self.note or self.code.message,
            retryable=self.code.retryable,
            resets_at=UNSET if self.resets_at is None else day_time(self.resets_at),
        )


def day_time(instant: datetime) -> str:
    """Give an instant (UTC) as `YYYY-MM-DDTHH:MM:SSZ`."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


SESSION_REQUIRED = Code("session_required", 403, False, "A session token is required.")
SESSION_INVALID = Code("session_invalid", 403, False, "The session token is not valid.")
SESSION_EXPIRED = Code("session_expired", 403, False, "The session has expired: start a new one.")
ORIGIN_REJECTED = Code("origin_rejected", 403, False, "Requests from this origin are not accepted.")
COOKIES_FORBIDDEN = Code("cookies_forbidden", 403, False, "Requests with cookies are not accepted.")
RESULT_NOT_FOUND = Code("result_not_found", 404, False, "There is no such result for this session.")
NOT_FOUND = Code("not_found", 404, False, "There is nothing at this address.")
METHOD_NOT_ALLOWED = Code("method_not_allowed", 405, False, "This address takes another method.")
BODY_TIMEOUT = Code("body_timeout", 408, True, "The body did not arrive within 10 seconds.")
CASE_COMPLETED = Code(
    "case_completed", 409, False, "This case already has its recommendation: use a new Case-ID."
)
REQUEST_ID_CONFLICT = Code(
    "request_id_conflict", 409, False, "This request_id was already used for another content."
)
BODY_TOO_LARGE = Code("body_too_large", 413, False, "The body is larger than 300000 bytes.")
PROVIDER_PAYLOAD_TOO_LARGE = Code(
    "provider_payload_too_large", 413, False, "The dilemma is too long for the model: nothing was consumed."
)
UNSUPPORTED_MEDIA_TYPE = Code(
    "unsupported_media_type", 415, False, "The body must be application/json, UTF-8, without content coding."
)
INVALID_JSON = Code("invalid_json", 422, False, "The body is not a valid JSON object.")
INVALID_INPUT = Code("invalid_input", 422, False, "A value is not acceptable.")
INPUT_TOO_LONG = Code(
    "input_too_long", 422, False, "Text and refinements together are longer than 24000 characters."
)
CASE_ID_REQUIRED = Code("case_id_required", 422, False, "The header X-Dilem-Case-ID is required.")
CASE_ID_INVALID = Code(
    "case_id_invalid", 422, False, "The Case-ID takes 1 to 80 of the characters a-z, A-Z, 0-9, _ and -, once."
)
CREDITS_EXHAUSTED = Code("credits_exhausted", 429, True, "No credits are left today.", renews=True)
BUDGET_EXHAUSTED = Code(
    "budget_exhausted", 429, True, "The service has spent its budget of the day.", renews=True
)
CAPACITY_EXCEEDED = Code("capacity_exceeded", 429, True, "Too many dilemmas are being worked on.")
CASE_IN_PROGRESS = Code("case_in_progress", 429, True, "A turn of this case is still being worked on.")
CASE_TURN_LIMIT = Code("case_turn_limit", 429, False, "This case has had its 24 turns: use a new Case-ID.")
RATE_LIMITED = Code("rate_limited", 429, True, "Too many requests.")
SERVICE_UNAVAILABLE = Code(
    "service_unavailable", 503, True, "The service is not available; nothing was consumed."
)
OUTCOME_UNKNOWN = Code(
    "outcome_unknown", 503, False, "Something failed after the case was admitted; its outcome is not known."
)
PROVIDER_TIMEOUT = Code("provider_timeout", 200, True, "The model did not answer in time.")
PROVIDER_ERROR = Code("provider_error", 200, True, "The model's provider failed.")
PROVIDER_REFUSED = Code("provider_refused", 200, False, "The model declined this content.")
MODEL_OUTPUT_INVALID = Code("model_output_invalid", 200, True, "The model gave no valid answer.")

CODES: tuple[Code, ...] = (
    SESSION_REQUIRED,
    SESSION_INVALID,
    SESSION_EXPIRED,
    ORIGIN_REJECTED,
    COOKIES_FORBIDDEN,
    RESULT_NOT_FOUND,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    BODY_TIMEOUT,
    CASE_COMPLETED,
    REQUEST_ID_CONFLICT,
    BODY_TOO_LARGE,
    PROVIDER_PAYLOAD_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    INVALID_JSON,
    INVALID_INPUT,
    INPUT_TOO_LONG,
    CASE_ID_REQUIRED,
    CASE_ID_INVALID,
    CREDITS_EXHAUSTED,
    BUDGET_EXHAUSTED,
    CAPACITY_EXCEEDED,
    CASE_IN_PROGRESS,
    CASE_TURN_LIMIT,
    RATE_LIMITED,
    SERVICE_UNAVAILABLE,
    OUTCOME_UNKNOWN,
    PROVIDER_TIMEOUT,
    PROVIDER_ERROR,
    PROVIDER_REFUSED,
    MODEL_OUTPUT_INVALID,
)

_BY_NAME = {row.code: row for row in CODES}


def code_named(code: str) -> Code:
    """Give the row of a code."""
    return _BY_NAME[code]
