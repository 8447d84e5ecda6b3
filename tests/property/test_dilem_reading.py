"""The strict reader agrees with the standard one on all that is strict JSON, and never falls over on anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dilem.contract import CardRequest, DecideRequest, FeedbackRequest, UserFeedback
from gateway.dilem.errors import INVALID_INPUT, INVALID_JSON, DilemFailure
from gateway.dilem.reading import decode, read_object

Value = TypeVar("Value")

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(texts, values, max_size=6)


def tried(read: Callable[[], Value]) -> tuple[Value | None, DilemFailure | None]:
    try:
        return read(), None
    except DilemFailure as failure:
        return None, failure


@given(objects, st.booleans(), st.sampled_from(["", " ", "\n\t\r "]))
def test_strict_json_is_read_as_it_was_written(value: dict[str, Any], escaped: bool, around: str) -> None:
    body = around + json.dumps(value, ensure_ascii=escaped, allow_nan=False) + around
    assert read_object(body.encode()) == value


@given(objects, texts, values, values)
def test_a_member_that_stands_twice_is_refused(
    value: dict[str, Any], name: str, first: object, second: object
) -> None:
    twice = f"{{{json.dumps(name)}:{json.dumps(first)},{json.dumps(name)}:{json.dumps(second)}}}"
    for body in (twice, json.dumps(value)[:-1] + (", " if value else "") + f'"x":[{twice}]}}'):
        with pytest.raises(DilemFailure) as raised:
            read_object(body.encode())
        assert raised.value.code is INVALID_JSON


@settings(max_examples=400)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    value, failure = tried(lambda: read_object(body))
    if failure is not None:
        assert failure.code in {INVALID_JSON, INVALID_INPUT}
    else:
        assert isinstance(value, dict)
        json.dumps(value).encode()


@given(objects, st.sampled_from([DecideRequest, CardRequest, FeedbackRequest, UserFeedback]))
def test_any_object_is_a_request_or_refused_without_an_echo(value: dict[str, Any], kind: type[Any]) -> None:
    marked = value | {"text": "SEGRETO", "summary": ["SEGRETO"], "result": {"selected": "SEGRETO" * 9}}
    _, failure = tried(lambda: decode(kind, marked))
    if failure is not None:
        assert failure.code is INVALID_INPUT
        assert "SEGRETO" not in str(failure.body().message)


@given(st.sampled_from(sorted(["text", "language", "refinements", "clarification_count", "x"])), values)
def test_a_turn_holds_what_was_sent_or_is_refused(name: str, value: object) -> None:
    sent = {"text": "a", "language": "en"} | {name: value}
    turn, failure = tried(lambda: decode(DecideRequest, sent))
    if failure is not None:
        assert str(failure.body().message).startswith(f"/{name}")
    else:
        assert name != "x"
        told = getattr(turn, name)
        assert (list(told) if isinstance(told, tuple) else told) == value
