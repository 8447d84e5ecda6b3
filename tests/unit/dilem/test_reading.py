"""JSON as Dilem takes it: refused where two readers could differ, and no refusal repeats what was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dilem.contract import (
    CardRequest,
    DecideArguments,
    DecideRequest,
    FeedbackRequest,
    GetUsageArguments,
    StartSessionArguments,
    UserFeedback,
)
from gateway.dilem.errors import DilemFailure
from gateway.dilem.reading import decode, read_object, require_speakable

SECRET = "SEGRETO"
TURN: dict[str, Any] = {"text": "Treno o auto?", "language": "it"}
OPTIONS = [
    {"id": "train", "label": "Treno", "probability": 0.7},
    {"id": "car", "label": "Auto", "probability": 0.3},
]
CARD: dict[str, Any] = {"result": {"summary": "Treno o auto?", "selected": "train", "options": OPTIONS}}
REPORT: dict[str, Any] = {
    "request_id": "0" * 32,
    "kind": "general",
    "message": "Va bene così.",
    "email": "",
    "language": "it",
    "source": "agent",
    "version": "unknown",
    "screen": "other",
    "response": None,
}
RESPONSE = {"kind": "recommendation", "text": "Il treno.", "reference": "res:1"}


def refusal(kind: type[Any], value: Any) -> tuple[str, str]:
    with pytest.raises(DilemFailure) as raised:
        decode(kind, value)
    message = raised.value.body().message
    assert isinstance(message, str)
    assert SECRET not in message
    return raised.value.code.code, message


def refused_body(body: bytes) -> str:
    with pytest.raises(DilemFailure) as raised:
        read_object(body)
    assert raised.value.code.status == 422
    assert SECRET not in str(raised.value.body().message)
    return raised.value.code.code


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[]",
        b'"a"',
        b"null",
        b"1",
        b'{"a":1',
        b'{"a":1}}',
        b'{"a":1} {"a":1}',
        b'{"a":1},',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":.5}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":-1e400}',
        b'{"a":' + b"9" * 310 + b"}",
        b'{"a":' + b"9" * 5_000 + b"}",
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":1,"\\u0061":2}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        '{"a":"é"}'.encode("latin-1"),
        '{"a":1}'.encode("utf-16"),
        b'{"a":"\n"}',
        b'{"a":"\\x"}',
        b'\xc2\xa0{"a":1}',
        b'{"a":' + b"[" * 32 + b"]" * 32 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert refused_body(body) == "invalid_json"


def test_thirty_two_levels_and_brackets_in_texts_are_fine() -> None:
    assert read_object(b'{"a":' + b"[" * 31 + b"]" * 31 + b"}")
    text = '["' * 40 + "\\" + "[[{"
    assert read_object(json.dumps({"a": text, text: 1}).encode()) == {"a": text, text: 1}


@pytest.mark.parametrize("bad", ["\\u0000", "\\ud800", "\\udc00", "\\udc00\\ud800", "a\\ud83d"])
@pytest.mark.parametrize("body", ['{"a":"%s"}', '{"%s":1}', '{"a":[{"b":"%s"}]}', '{"a":{"%s":[]}}'])
def test_nul_and_lone_surrogates_are_refused_anywhere(body: str, bad: str) -> None:
    assert refused_body((body % bad).encode()) == "invalid_input"


def test_pairs_of_surrogates_and_other_controls_are_characters() -> None:
    assert read_object(b'{"a":"\\ud83d\\ude00\\u0007"}') == {"a": "\U0001f600\x07"}
    with pytest.raises(DilemFailure):
        require_speakable({"a": ["b", {"c\x00": 1}]})


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"text": ""}, "/text"),
        ({"text": " \n\t\u2003"}, "/text"),
        ({"text": SECRET * 1_000}, "/text"),
        ({"text": None}, "/text"),
        ({"text": 7}, "/text"),
        ({"language": SECRET}, "/language"),
        ({"language": "IT"}, "/language"),
        ({"language": None}, "/language"),
        ({"refinements": None}, "/refinements"),
        ({"refinements": "a"}, "/refinements"),
        ({"refinements": ["a"] * 41}, "/refinements"),
        ({"refinements": ["a", SECRET * 1_000]}, "/refinements/1"),
        ({"refinements": ["a", None]}, "/refinements/1"),
        ({"force_decision": 1}, "/force_decision"),
        ({"force_decision": "true"}, "/force_decision"),
        ({"clarification_count": -1}, "/clarification_count"),
        ({"clarification_count": 21}, "/clarification_count"),
        ({"clarification_count": 2.5}, "/clarification_count"),
        ({"clarification_count": True}, "/clarification_count"),
        ({"clarification_count": "2"}, "/clarification_count"),
        ({"clarification_version": 1}, "/clarification_version"),
        ({"clarification_version": True}, "/clarification_version"),
        ({"clarification_version": None}, "/clarification_version"),
        ({"forceDecision": SECRET}, "/forceDecision"),
        ({f"{SECRET} e altro": 1}, "/*"),
    ],
)
def test_a_turn_that_is_not_acceptable_is_refused_by_its_place(change: dict[str, Any], pointer: str) -> None:
    code, message = refusal(DecideRequest, TURN | change)
    assert code == "invalid_input"
    assert message.startswith(f"{pointer}: ")


@pytest.mark.parametrize("missing", ["text", "language"])
def test_what_a_turn_needs(missing: str) -> None:
    code, message = refusal(DecideRequest, {key: value for key, value in TURN.items() if key != missing})
    assert (code, message) == ("invalid_input", f"/{missing}: is required.")


def test_characters_are_code_points_and_whole_numbers_may_have_a_fraction() -> None:
    turn = decode(
        DecideRequest,
        {
            "text": "😀" * 6_000,
            "language": "pt",
            "refinements": ["e\u0301" * 3_000] * 3 + [""],
            "clarification_count": 20.0,
            "clarification_version": 2.0,
        },
    )
    assert turn.characters == 24_000
    assert turn.clarification_count == 20
    refusal(DecideRequest, TURN | {"text": "😀" * 6_001})


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"selected": "bus"}, "/result/selected"),
        ({"selected": "a" * 33}, "/result/selected"),
        ({"summary": ""}, "/result/summary"),
        ({"summary": "a" * 6_001}, "/result/summary"),
        ({"options": OPTIONS[:1]}, "/result/options"),
        ({"options": OPTIONS * 5}, "/result/options"),
        ({"options": [OPTIONS[0], OPTIONS[0]]}, "/result/options"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"id": "Car"}]}, "/result/options/1/id"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"id": "car\n"}]}, "/result/options/1/id"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"label": ""}]}, "/result/options/1/label"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"label": "a" * 121}]}, "/result/options/1/label"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"description": "a" * 241}]}, "/result/options/1/description"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"description": None}]}, "/result/options/1/description"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"probability": 1.01}]}, "/result/options/1/probability"),
        ({"options": [OPTIONS[0], OPTIONS[1] | {"probability": True}]}, "/result/options/1/probability"),
    ],
)
def test_a_card_that_is_not_acceptable_is_refused_by_its_place(change: dict[str, Any], pointer: str) -> None:
    code, message = refusal(CardRequest, {"result": CARD["result"] | change})
    assert code == "invalid_input"
    assert message.startswith(f"{pointer}: ")


def test_a_whole_decide_response_makes_a_card() -> None:
    received = CARD["result"] | {
        "type": "result",
        "sources": [],
        "result_id": "0" * 32,
        "metrics": {"a": 1},
        "options": [OPTIONS[0] | {"extra": [1]}, OPTIONS[1] | {"probability": 1}],
    }
    card = decode(CardRequest, {"result": received})
    assert (card.language, card.theme, card.result.options[1].probability) == ("fr", "light", 1.0)
    refusal(
        CardRequest, {"result": {"type": "clarification", "question": "?", "choices": [], "summary": "a"}}
    )
    refusal(CardRequest, {"result": {"type": "error", "code": "case_completed"}})
    refusal(CardRequest, CARD | {"colour": "red"})


@pytest.mark.parametrize(
    ("change", "fine"),
    [
        ({"helpful": True}, True),
        ({"helpful": True, "reason": None}, True),
        ({"helpful": False, "reason": "too_vague"}, True),
        ({"helpful": True, "reason": "too_vague"}, False),
        ({"helpful": None}, False),
        ({"helpful": 1}, False),
        ({"helpful": False, "reason": "bad"}, False),
        ({"helpful": False, "result_id": "A" * 32}, False),
        ({"helpful": False, "result_id": "0" * 32 + "\n"}, False),
        ({}, False),
    ],
)
def test_votes(change: dict[str, Any], fine: bool) -> None:
    vote = {"result_id": "0" * 32} | change
    if fine:
        decode(FeedbackRequest, vote)
    else:
        assert refusal(FeedbackRequest, vote)[0] == "invalid_input"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"message": "abcd"}, "/message"),
        ({"message": " a b c d " * 1}, "/message"),
        ({"message": "a" * 4_001}, "/message"),
        ({"email": "a" * 255}, "/email"),
        ({"email": "nessuno"}, "/email"),
        ({"email": "a@b@c"}, "/email"),
        ({"email": "a b@c"}, "/email"),
        ({"email": "a\u0007@c"}, "/email"),
        ({"email": None}, "/email"),
        ({"request_id": "0" * 31}, "/request_id"),
        ({"request_id": "F" * 32}, "/request_id"),
        ({"version": "1.0"}, "/version"),
        ({"version": "unknown\n"}, "/version"),
        ({"source": "mcp"}, "/source"),
        ({"screen": "menu"}, "/screen"),
        ({"kind": "response"}, "/response"),
        ({"kind": "general", "response": RESPONSE}, "/response"),
        ({"kind": "response", "response": RESPONSE | {"text": ""}}, "/response/text"),
        ({"kind": "response", "response": RESPONSE | {"text": "a" * 12_001}}, "/response/text"),
        ({"kind": "response", "response": RESPONSE | {"reference": "a b"}}, "/response/reference"),
        ({"kind": "response", "response": RESPONSE | {"kind": "result"}}, "/response/kind"),
        ({"kind": "response", "response": RESPONSE | {"more": 1}}, "/response/more"),
    ],
)
def test_a_report_that_is_not_acceptable_is_refused_by_its_place(
    change: dict[str, Any], pointer: str
) -> None:
    code, message = refusal(UserFeedback, REPORT | change)
    assert code == "invalid_input"
    assert message.startswith(f"{pointer}: ")


def test_reports_that_are_fine() -> None:
    decode(UserFeedback, REPORT)
    decode(UserFeedback, REPORT | {"email": "anna@example.org", "version": "a" * 40, "message": "a" * 4_000})
    decode(UserFeedback, REPORT | {"kind": "response", "response": RESPONSE})
    for name in REPORT:
        without = {key: value for key, value in REPORT.items() if key != name}
        assert refusal(UserFeedback, without)[1] == f"/{name}: is required."


def test_arguments_of_tools_have_the_codes_of_what_they_stand_for() -> None:
    turn = {"session": "dls_x", "case_id": "a", "text": "?"}
    assert decode(DecideArguments, turn).request().language == "fr"
    assert decode(DecideArguments, turn | {"refinements": None}).request().refinements == ()
    for change, code in (
        ({"case_id": "a b"}, "case_id_invalid"),
        ({"case_id": "a\n"}, "case_id_invalid"),
        ({"case_id": 3}, "case_id_invalid"),
        ({"case_id": None}, "case_id_required"),
        ({"session": None}, "session_required"),
        ({"session": 3}, "session_invalid"),
        ({"text": ""}, "invalid_input"),
    ):
        assert refusal(DecideArguments, turn | change)[0] == code
    for missing, code in (("session", "session_required"), ("case_id", "case_id_required")):
        assert refusal(DecideArguments, {key: turn[key] for key in turn if key != missing})[0] == code
    assert decode(GetUsageArguments, {"session": "x", "case_id": None}).case_id is None
    assert decode(StartSessionArguments, {}).session is None
    assert decode(StartSessionArguments, {"session": None}).session is None
    assert refusal(StartSessionArguments, {"session": 3})[0] == "session_invalid"
