"""What is published is what is enforced: schemas, operations and error codes are the contract's, to the letter."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from gateway.dilem import contract
from gateway.dilem.errors import CODES, DilemFailure
from gateway.dilem.operations import OPERATIONS
from gateway.dilem.schemas import schema_of, schemas_of

EVERYWHERE = [403, 408, 409, 413, 422, 429, 503]
LANGUAGE = {"enum": ["fr", "en", "it", "de", "es", "pt"]}
REFINEMENTS = {"type": "array", "maxItems": 40, "items": {"type": "string", "maxLength": 6000}}


def properties(kind: Any) -> tuple[list[str], dict[str, Any]]:
    schema = schema_of(kind)
    assert schema["type"] == "object"
    return schema.get("required", []), schema["properties"]


def test_the_operations_are_the_seven_in_their_order() -> None:
    assert [(each.method, each.path, each.name, each.kind, [*each.statuses]) for each in OPERATIONS] == [
        ("POST", "/session", "start_session", "write", EVERYWHERE),
        ("GET", "/usage", "get_usage", "read", EVERYWHERE),
        ("POST", "/decide", "decide", "computation", EVERYWHERE),
        ("POST", "/result-card", "export_result_card", "read", [*EVERYWHERE, 415]),
        ("GET", "/feedback/{result_id}", "get_result_feedback", "read", [*EVERYWHERE, 404]),
        ("POST", "/feedback", "set_result_feedback", "write", [*EVERYWHERE, 415, 404]),
        ("POST", "/user-feedback", "send_user_feedback", "write", [*EVERYWHERE, 415]),
    ]


def test_a_turn_over_rest() -> None:
    assert schema_of(contract.DecideRequest) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["text", "language"],
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 6000},
            "language": LANGUAGE,
            "refinements": REFINEMENTS | {"default": []},
            "force_decision": {"type": "boolean", "default": False},
            "clarification_count": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
            "clarification_version": {"const": 2, "default": 2},
        },
    }


def test_a_turn_over_mcp() -> None:
    assert schema_of(contract.DecideArguments) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["session", "case_id", "text"],
        "properties": {
            "session": {"type": "string"},
            "case_id": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,80}$"},
            "text": {"type": "string", "minLength": 1, "maxLength": 6000},
            "language": LANGUAGE | {"default": "fr"},
            "refinements": {"anyOf": [REFINEMENTS, {"type": "null"}], "default": None},
            "force_decision": {"type": "boolean", "default": False},
            "clarification_count": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
            "clarification_version": {"const": 2, "default": 2},
        },
    }


@pytest.mark.parametrize(
    ("kind", "required", "others"),
    [
        (contract.StartSessionArguments, [], ["session"]),
        (contract.GetUsageArguments, ["session"], ["case_id"]),
        (contract.ExportResultCardArguments, ["session", "result"], ["language", "theme"]),
        (contract.GetResultFeedbackArguments, ["session", "result_id"], []),
        (contract.SetResultFeedbackArguments, ["session", "result_id", "helpful"], ["reason"]),
        (
            contract.SendUserFeedbackArguments,
            ["session", "request_id", "message"],
            ["language", "kind", "email", "response"],
        ),
        (contract.Session, ["session", "expires_in"], []),
        (
            contract.Usage,
            ["day", "resets_at", "collective", "dilemmas", "case", "voice", "budget"],
            [],
        ),
        (
            contract.Clarification,
            ["type", "question", "choices", "format", "summary"],
            ["unit", "purpose", "metrics"],
        ),
        (
            contract.Result,
            ["type", "summary", "options", "selected", "sources"],
            ["context", "assumptions", "criteria", "caution", "timings", "models", "metrics", "result_id"],
        ),
        (contract.Error, ["type", "code"], ["message", "retryable", "resets_at"]),
        (contract.CardResult, ["summary", "selected", "options"], []),
        (contract.Feedback, ["result_id", "helpful", "reason"], []),
        (contract.FeedbackAck, ["ok"], []),
        (contract.ReportedResponse, ["kind", "text", "reference"], []),
        (
            contract.UserFeedback,
            [
                "request_id",
                "kind",
                "message",
                "email",
                "language",
                "source",
                "version",
                "screen",
                "response",
            ],
            [],
        ),
    ],
)
def test_members_and_which_are_required(kind: Any, required: list[str], others: list[str]) -> None:
    told, found = properties(kind)
    assert sorted(told) == sorted(required)
    assert set(found) == {*required, *others}


def test_requests_are_closed_and_results_on_a_card_are_open() -> None:
    closed = [each.arguments for each in OPERATIONS] + [each.body for each in OPERATIONS if each.body]
    assert all(schema_of(kind)["additionalProperties"] is False for kind in closed)
    card = schema_of(contract.CardRequest)["properties"]["result"]
    assert "additionalProperties" not in card
    assert "additionalProperties" not in card["properties"]["options"]["items"]


def test_every_schema_is_one_and_no_word_of_python_is_left() -> None:
    kinds = [kind for each in OPERATIONS for kind in (each.arguments, each.body, each.response) if kind]
    told, components = schemas_of(kinds)
    for schema in (*told, *components.values()):
        Draft202012Validator.check_schema(schema)
        assert "\\\\A" not in json.dumps(schema)
    response = schema_of(contract.DecisionResponse)
    assert [one["properties"]["type"]["const"] for one in response["oneOf"]] == [
        "clarification",
        "result",
        "error",
    ]
    assert "Error" in components


def test_codes_are_the_contracts() -> None:
    told = {row.code: (row.status, row.retryable) for row in CODES}
    assert len(told) == len(CODES) == 31
    renewing = {row.code for row in CODES if row.renews}
    assert renewing == {"credits_exhausted", "budget_exhausted"}
    again = {code for code, (_, retryable) in told.items() if retryable}
    assert again == {
        "body_timeout",
        "credits_exhausted",
        "budget_exhausted",
        "capacity_exceeded",
        "case_in_progress",
        "rate_limited",
        "service_unavailable",
        "provider_timeout",
        "provider_error",
        "model_output_invalid",
    }
    assert {status for status, _ in told.values()} <= {200, 403, 404, 405, 408, 409, 413, 415, 422, 429, 503}
    for row in CODES:
        body = DilemFailure(row).body()
        assert (body.code, body.retryable, body.message) == (row.code, row.retryable, row.message)


def test_languages_are_one_list() -> None:
    assert get_args(contract.Language) == contract.LANGUAGES
