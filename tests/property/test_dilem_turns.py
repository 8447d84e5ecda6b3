"""The validator of the model's output: what is delivered obeys the contract, what does not is never delivered."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.dilem.contract import CardResult, Clarification, Result
from gateway.dilem.validation import NOTICES, Invalid, check, normalised

WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
).filter(lambda text: bool(text.strip()))
EDGES = st.sampled_from(["", " ", "\n", " \t"])
IDS = st.from_regex(r"\A[a-z][a-z0-9_]{0,31}\Z")
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def weights(draw: st.DrawFn) -> list[float]:
    """Two to eight weights whose sum is within 0.02 of 1."""
    parts = draw(st.lists(st.integers(0, 1_000), min_size=2, max_size=8).filter(any))
    sum_ = draw(st.sampled_from([0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.02]))
    digits = draw(st.sampled_from([3, 4, 6, 12]))
    found = [round(part / sum(parts) * sum_, digits) for part in parts]
    total = sum((Decimal(repr(weight)) for weight in found), Decimal())
    if abs(total - 1) > Decimal("0.02"):
        found = [round(part / sum(parts), 12) for part in parts]
    return [min(weight, 1.0) for weight in found]


@st.composite
def results(draw: st.DrawFn) -> dict[str, Any]:
    shares = draw(weights())
    ids = draw(st.lists(IDS, min_size=len(shares), max_size=len(shares), unique=True))
    best = draw(st.sampled_from([at for at, share in enumerate(shares) if share == max(shares)]))
    reasons = st.lists(WORDS | st.sampled_from(["", "  "]), max_size=10)
    return {
        "type": "result",
        "summary": draw(EDGES) + draw(WORDS) + draw(EDGES),
        "context": draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
        "criteria": draw(reasons),
        "assumptions": draw(reasons),
        "options": [
            {"id": id_, "label": draw(WORDS), "description": draw(WORDS | st.just("")), "probability": share}
            for id_, share in zip(ids, shares, strict=True)
        ],
        "selected": draw(EDGES) + ids[best],
        "caution": draw(st.none() | WORDS),
    }


@st.composite
def clarifications(draw: st.DrawFn) -> dict[str, Any]:
    purpose = draw(st.sampled_from([None, "decision_scope", "scope_notice", "insufficient_evidence"]))
    form = "text" if purpose in NOTICES else draw(st.sampled_from(["single", "multiple", "text", "number"]))
    choices: list[str] = []
    if form in ("single", "multiple"):
        choices = draw(st.lists(WORDS, min_size=2, max_size=6, unique_by=str.strip))
        choices += draw(st.sampled_from([[], [""], [" "]]))
    return {
        "type": "clarification",
        "purpose": purpose,
        "summary": draw(WORDS),
        "question": draw(EDGES) + draw(WORDS),
        "format": form,
        "choices": choices,
        "unit": draw(st.none() | WORDS) if form == "number" else None,
    }


def written(turn: object) -> str:
    return msgspec.json.encode({"turn": turn}).decode()


@given(results(), st.booleans())
def test_a_result_within_the_rules_is_delivered_exactly(turn: dict[str, Any], forced: bool) -> None:
    result = check(written(turn), forced=forced)
    assert isinstance(result, Result), result
    decimals = [Decimal(repr(option.probability)) for option in result.options]
    assert sum(decimals) == 1
    assert all(-int(decimal.as_tuple().exponent) <= 4 for decimal in decimals)
    assert [option.id for option in result.options] == [option["id"] for option in turn["options"]]
    assert [option.label for option in result.options] == [o["label"].strip() for o in turn["options"]]
    assert result.selected == turn["selected"].strip()
    chosen = next(option for option in result.options if option.id == result.selected)
    assert chosen.probability == max(option.probability for option in result.options)
    for option, given_ in zip(result.options, turn["options"], strict=True):
        assert abs(option.probability - given_["probability"]) < 0.0202
    assert result.criteria == tuple(each.strip() for each in turn["criteria"] if each.strip())
    assert result.sources == ()
    assert result.result_id is result.models is result.timings is result.metrics is msgspec.UNSET
    # What was delivered can always be drawn as a card, and told again.
    msgspec.json.decode(msgspec.json.encode(result), type=CardResult)


@given(clarifications())
def test_a_clarification_within_the_rules_is_delivered_exactly(turn: dict[str, Any]) -> None:
    told = check(written(turn), forced=False)
    assert isinstance(told, Clarification), told
    assert told.question == turn["question"].strip()
    assert list(told.choices) == [each.strip() for each in turn["choices"] if each.strip()]
    assert told.format == turn["format"]
    body = msgspec.json.decode(msgspec.json.encode(told))
    assert body.get("purpose") == turn["purpose"]
    assert "purpose" in body or turn["purpose"] is None


@given(clarifications())
def test_who_is_forced_asks_nothing(turn: dict[str, Any]) -> None:
    told = check(written(turn), forced=True)
    assert isinstance(told, Clarification if turn["purpose"] in NOTICES else Invalid)


@given(results() | clarifications())
def test_a_cut_answer_is_none(turn: dict[str, Any]) -> None:
    assert isinstance(check(written(turn), forced=False, truncated=True), Invalid)
    assert isinstance(check(written(turn)[:-1], forced=False), Invalid)


@given(JUNK | st.builds(lambda turn: {"turn": turn}, JUNK))
def test_anything_else_is_no_turn(value: object) -> None:
    told = check(msgspec.json.encode(value).decode(), forced=False)
    assert isinstance(told, Invalid)
    assert all(told.problems)


@given(st.text())
def test_no_text_is_too_strange(output: str) -> None:
    assert isinstance(check(output, forced=False), Invalid)


@given(results() | clarifications(), st.data())
def test_a_changed_turn_is_judged_and_nothing_is_made_up(turn: dict[str, Any], data: st.DataObject) -> None:
    """One member replaced by anything: either it is refused, or what is delivered is what was written."""
    name = data.draw(st.sampled_from(sorted(turn)))
    changed = turn | {name: data.draw(JUNK)}
    told = check(written(changed), forced=False)
    if isinstance(told, Invalid):
        msgspec.json.encode(told.problems)  # they can be told to the model
        return
    delivered = msgspec.to_builtins(told)
    assert delivered["summary"] == changed["summary"].strip()
    if isinstance(told, Result):
        assert {option.id for option in told.options} == {option["id"] for option in changed["options"]}


@given(weights(), st.data())
@example([1 / 3, 1 / 3, 1 / 3], None)
@example([0.33335, 0.33335, 0.3333], None)
def test_weights_are_rounded_without_turning_an_order_round(
    given_: list[float], data: st.DataObject | None
) -> None:
    favoured = data.draw(st.integers(0, len(given_) - 1)) if data else 1
    found = normalised(given_, favoured)
    assert sum(Decimal(repr(weight)) for weight in found) == 1
    for one, other in zip(given_, found, strict=True):
        for another, second in zip(given_, found, strict=True):
            assert not (one > another and other < second)
    assert all(
        found[favoured] >= weight
        for weight, source in zip(found, given_, strict=True)
        if source == given_[favoured]
    )
    assert all(re.fullmatch(r"[01]\.\d{1,4}|\d(\.\d)?e-0[45]", repr(weight)) for weight in found)
