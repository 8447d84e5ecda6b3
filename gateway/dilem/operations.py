"""The seven operations, as data: routes, MCP tools, OpenAPI and the tables of the documents are made from this."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from gateway.dilem import contract

OperationClass: TypeAlias = Literal["read", "write", "computation"]

API = "/api/v1"
MCP = f"{API}/mcp"
CASE_HEADER = "X-Dilem-Case-ID"
PNG = "image/png"

COMMON_STATUSES = (403, 408, 409, 413, 422, 429, 503)
"""Declared on every operation, whether they can occur there or not."""


class Operation(Struct, frozen=True, kw_only=True):
    """One operation.

    Attributes:
        name: The MCP tool, and OpenAPI's `operationId`.
        path: Below `API`; a parameter in braces.
        statuses: The error statuses declared.
        body: REST's body; None when it takes none.
        takes_case: Whether the Case-ID's header is read ("required", "optional" or not at all).
        anonymous: Whether it works without a session.
        arguments: What the MCP tool takes.
        response: The type of the 200; None for an image.
        idempotent: Whether a repeat changes nothing more.

    """

    name: str
    method: Literal["GET", "POST"]
    path: str
    kind: OperationClass
    statuses: tuple[int, ...] = COMMON_STATUSES
    body: type[Struct] | None = None
    takes_case: Literal["required", "optional"] | None = None
    anonymous: bool = False
    arguments: type[contract.Arguments]
    response: object = None
    response_name: str
    idempotent: bool = False

    @property
    def checks_media_type(self) -> bool:
        """Whether a body of another type is 415."""
        return 415 in self.statuses


START_SESSION = Operation(
    name="start_session",
    method="POST",
    path="/session",
    kind="write",
    anonymous=True,
    arguments=contract.StartSessionArguments,
    response=contract.Session,
    response_name="Session",
)
GET_USAGE = Operation(
    name="get_usage",
    method="GET",
    path="/usage",
    kind="read",
    takes_case="optional",
    arguments=contract.GetUsageArguments,
    response=contract.Usage,
    response_name="Usage",
    idempotent=True,
)
DECIDE = Operation(
    name="decide",
    method="POST",
    path="/decide",
    kind="computation",
    body=contract.DecideRequest,
    takes_case="required",
    arguments=contract.DecideArguments,
    response=contract.DecisionResponse,
    response_name="DecisionResponse",
)
EXPORT_RESULT_CARD = Operation(
    name="export_result_card",
    method="POST",
    path="/result-card",
    kind="read",
    statuses=(*COMMON_STATUSES, 415),
    body=contract.CardRequest,
    arguments=contract.ExportResultCardArguments,
    response_name=PNG,
    idempotent=True,
)
GET_RESULT_FEEDBACK = Operation(
    name="get_result_feedback",
    method="GET",
    path="/feedback/{result_id}",
    kind="read",
    statuses=(*COMMON_STATUSES, 404),
    arguments=contract.GetResultFeedbackArguments,
    response=contract.Feedback,
    response_name="Feedback",
    idempotent=True,
)
SET_RESULT_FEEDBACK = Operation(
    name="set_result_feedback",
    method="POST",
    path="/feedback",
    kind="write",
    statuses=(*COMMON_STATUSES, 415, 404),
    body=contract.FeedbackRequest,
    arguments=contract.SetResultFeedbackArguments,
    response=contract.Feedback,
    response_name="Feedback",
    idempotent=True,
)
SEND_USER_FEEDBACK = Operation(
    name="send_user_feedback",
    method="POST",
    path="/user-feedback",
    kind="write",
    statuses=(*COMMON_STATUSES, 415),
    body=contract.UserFeedback,
    arguments=contract.SendUserFeedbackArguments,
    response=contract.FeedbackAck,
    response_name="FeedbackAck",
    idempotent=True,
)

OPERATIONS: tuple[Operation, ...] = (
    START_SESSION,
    GET_USAGE,
    DECIDE,
    EXPORT_RESULT_CARD,
    GET_RESULT_FEEDBACK,
    SET_RESULT_FEEDBACK,
    SEND_USER_FEEDBACK,
)
"""In the order in which they are told everywhere."""
