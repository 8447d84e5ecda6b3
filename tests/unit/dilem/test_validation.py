"""Every rule of the contract about the model's output, at its edge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.dilem.contract import Clarification, Result
from gateway.dilem.validation import Invalid, check

QUESTION: dict[str, Any] = {
    "type": "clarification",
    "purpose": None,
    "summary": "Treno o bus",
    "question": "Quanti chilometri?",
    "format": "number",
    "choices": [],
    "unit": "km",
}
OPTIONS = [
    {"id": "treno", "label": "Treno", "description": "Diretto.", "probability": 0.7},
    {"id": "bus", "label": "Bus", "description": "", "probability": 0.3},
]
RESULT: dict[str, Any] = {
    "type": "result",
    "summary": "Treno o bus",
    "context": "",
    "criteria": ["Il tempo"],
    "assumptions": [],
    "options": OPTIONS,
    "selected": "treno",
    "caution": None,
}
SINGLE = {"format": "single", "unit": None}
NOTICE = {"purpose": "scope_notice", "format": "text", "unit": None}


def told(turn: dict[str, Any], *, forced: bool = False) -> Clarification | Result | Invalid:
    return check(msgspec.json.encode({"turn": turn}).decode(), forced=forced)


def with_options(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"options": [base | change for base, change in zip(OPTIONS, changes, strict=True)]}


def many(count: int, weight: float | None = None) -> list[dict[str, Any]]:
    share = 1 / count if weight is None else weight
    return [{"id": f"o{n}", "label": "Una", "description": "", "probability": share} for n in range(count)]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"question": "q" * 1_000, "summary": "s" * 6_000},
        {"question": "😀" * 1_000},
        {"unit": None},
        {"format": "text", "unit": None},
        SINGLE | {"choices": ["a", "b"]},
        SINGLE | {"choices": ["x" * 200, "b", "c", "d", "e", "f"]},
        SINGLE | {"choices": ["a", "", "b", "  "]},
        {"format": "multiple", "unit": None, "choices": [" a ", "b"]},
        {"purpose": "decision_scope"},
        NOTICE,
        NOTICE | {"purpose": "insufficient_evidence"},
    ],
)
def test_clarifications(change: dict[str, Any]) -> None:
    assert isinstance(told(QUESTION | change), Clarification)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"question": ""}, "/turn/question"),
        ({"question": " \n "}, "/turn/question"),
        ({"question": "q" * 1_001}, "/turn/question"),
        ({"summary": ""}, "/turn/summary"),
        ({"summary": "s" * 6_001}, "/turn/summary"),
        ({"choices": ["a", "b"]}, "/turn/choices"),
        ({"format": "text"}, "/turn/unit"),
        ({"unit": " "}, "/turn/unit"),
        (SINGLE, "/turn/choices"),
        (SINGLE | {"choices": ["a"]}, "/turn/choices"),
        (SINGLE | {"choices": ["a", " "]}, "/turn/choices"),
        (SINGLE | {"choices": list("abcdefg")}, "/turn/choices"),
        (SINGLE | {"choices": ["a", "a "]}, "/turn/choices"),
        (SINGLE | {"choices": ["a", "x" * 201]}, "/turn/choices/1"),
        (NOTICE | {"format": "number"}, "/turn/format"),
        (NOTICE | {"format": "single", "choices": ["a", "b"]}, "/turn/format"),
        (NOTICE | {"choices": ["a", "b"]}, "/turn/choices"),
        (NOTICE | {"unit": "km"}, "/turn/unit"),
        ({"purpose": "altro"}, "$.turn.purpose"),
        ({"format": "boolean"}, "$.turn.format"),
        ({"question": None}, "$.turn.question"),
        ({"sources": []}, "sources"),
    ],
)
def test_clarifications_that_are_none(change: dict[str, Any], place: str) -> None:
    invalid = told(QUESTION | change)
    assert isinstance(invalid, Invalid)
    assert any(place in problem for problem in invalid.problems), invalid.problems


@pytest.mark.parametrize("purpose", [None, "decision_scope"])
def test_who_is_forced_may_only_give_notice(purpose: str | None) -> None:
    assert isinstance(told(QUESTION | {"purpose": purpose}, forced=True), Invalid)
    assert isinstance(told(QUESTION | NOTICE, forced=True), Clarification)
    assert isinstance(told(RESULT, forced=True), Result)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"caution": "c" * 600, "context": "x" * 9_000},
        {"criteria": ["r" * 300] * 10, "assumptions": ["a", "", " "]},
        {"options": many(8), "selected": "o7"},
        {"options": many(3), "selected": "o1"},
        with_options({"label": "l" * 120, "description": "d" * 240}, {"id": "b" * 32}),
        with_options({"probability": 0.5}, {"probability": 0.5}) | {"selected": "bus"},
        with_options({"probability": 0.72}, {"probability": 0.3}),
        with_options({"probability": 0.68}, {"probability": 0.3}),
        with_options({"probability": 1}, {"probability": 0}),
        with_options({"id": " treno "}, {}) | {"selected": "treno "},
    ],
)
def test_results(change: dict[str, Any]) -> None:
    result = told(RESULT | change)
    assert isinstance(result, Result), result
    assert round(sum(option.probability for option in result.options), 4) == 1


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"summary": "  "}, "/turn/summary"),
        ({"caution": "c" * 601}, "/turn/caution"),
        ({"criteria": ["r"] * 11}, "/turn/criteria"),
        ({"assumptions": ["r" * 301]}, "/turn/assumptions/0"),
        ({"options": OPTIONS[:1]}, "/turn/options"),
        ({"options": []}, "/turn/options"),
        ({"options": many(9), "selected": "o1"}, "/turn/options"),
        (with_options({"id": "Treno"}, {}), "/turn/options/0/id"),
        (with_options({"id": "1a"}, {}), "/turn/options/0/id"),
        (with_options({}, {"id": "b" * 33}), "/turn/options/1/id"),
        (with_options({}, {"id": "a\nb"}), "/turn/options/1/id"),
        (with_options({}, {"id": "treno"}), "ids must differ"),
        (with_options({"label": " "}, {}), "/turn/options/0/label"),
        (with_options({"label": "l" * 121}, {}), "/turn/options/0/label"),
        (with_options({"description": "d" * 241}, {}), "/turn/options/0/description"),
        (with_options({"probability": -0.1}, {"probability": 1}), "/turn/options/0/probability"),
        (with_options({"probability": 1.01}, {"probability": 0}), "/turn/options/0/probability"),
        (with_options({"probability": 0.721}, {}), "sum to 1"),
        (with_options({"probability": 0.679}, {}), "sum to 1"),
        (with_options({"probability": 70}, {"probability": 30}), "/turn/options/0/probability"),
        (with_options({"probability": "0.7"}, {}), "probability"),
        (with_options({"probability": True}, {}), "probability"),
        ({"selected": "auto"}, "/turn/selected"),
        ({"selected": "bus"}, "/turn/selected"),
        (
            {"selected": "bus"} | with_options({"probability": 0.5001}, {"probability": 0.4999}),
            "/turn/selected",
        ),
        ({"result_id": "0" * 32}, "result_id"),
        ({"options": [{**OPTIONS[0], "url": "x"}, OPTIONS[1]]}, "url"),
    ],
)
def test_results_that_are_none(change: dict[str, Any], place: str) -> None:
    invalid = told(RESULT | change)
    assert isinstance(invalid, Invalid)
    assert any(place in problem for problem in invalid.problems), invalid.problems


@pytest.mark.parametrize(
    "output",
    [
        "",
        "null",
        "[]",
        "{}",
        "Ecco la mia risposta.",
        '```json\n{"turn": {}}\n```',
        '{"turn": null}',
        '{"turn": {"type": "error"}}',
        '{"turn": {"type": "clarification"}}',
        "[" * 100_000,
        '{"turn": {"probability": 1' + "0" * 5_000 + "}}",
        msgspec.json.encode({"turn": QUESTION}).decode() + " e altro",
        msgspec.json.encode({"turn": QUESTION, "note": ""}).decode(),
        msgspec.json.encode({"turn": QUESTION}).decode().replace('"unit"', '"unit":"mi","unit"'),
        msgspec.json.encode({"turn": QUESTION}).decode().replace("Treno", "Tre\\u0000no"),
        msgspec.json.encode({"turn": QUESTION}).decode().replace("Treno", "Tre\\ud800no"),
        msgspec.json.encode({"turn": QUESTION}).decode().replace('"unit"', '"\\ud800":1,"unit"'),
        msgspec.json.encode({"turn": RESULT}).decode().replace("0.7", "NaN"),
        msgspec.json.encode({"turn": RESULT}).decode().replace("0.7", "Infinity"),
        msgspec.json.encode({"turn": RESULT}).decode().replace("0.7", "1e999"),
        msgspec.json.encode({"turn": RESULT}).decode().replace("0.7", "1e999").replace("bus", "treno"),
    ],
)
def test_what_is_no_turn_at_all(output: str) -> None:
    invalid = check(output, forced=False)
    assert isinstance(invalid, Invalid)
    msgspec.json.encode(invalid.problems)
