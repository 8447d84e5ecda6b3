"""What the model said made a turn, or told why it is none: nothing is guessed, cut or added.

Only this is mended in silence: white space at the ends of texts, empty items of lists, and weights whose sum is nearly
1. Everything else is a problem, in words that the model can mend its answer by.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from gateway.dilem.contract import Clarification, Format, Option, Purpose, Result

MOST_CHOICES = 6
FEWEST_CHOICES = 2
FEWEST_OPTIONS = 2
MOST_OPTIONS = 8
MOST_REASONS = 10
"""Of assumptions, and of criteria."""
QUESTION_CHARACTERS = 1_000
CHOICE_CHARACTERS = 200
SUMMARY_CHARACTERS = 6_000
LABEL_CHARACTERS = 120
DESCRIPTION_CHARACTERS = 240
REASON_CHARACTERS = 300
CAUTION_CHARACTERS = 600
SUM_TOLERANCE = Fraction(2, 100)
WEIGHT_STEPS = 10_000
"""Weights have four decimals."""
NOTICES: frozenset[Purpose] = frozenset({"scope_notice", "insufficient_evidence"})
"""Purposes that are shown, not answered."""
CHOOSING: frozenset[Format] = frozenset({"single", "multiple"})

_OPTION_ID = re.compile(r"[a-z][a-z0-9_]{0,31}")
_UNFIT = re.compile("[\0\ud800-\udfff]")


class Invalid(msgspec.Struct, frozen=True):
    """The answer is none, and why: sentences that begin with a place in it."""

    problems: tuple[str, ...]


Checked: TypeAlias = Clarification | Result | Invalid


class _Clarification(
    msgspec.Struct, frozen=True, tag="clarification", tag_field="type", forbid_unknown_fields=True
):
    purpose: Purpose | None
    summary: str
    question: str
    format: Format
    choices: list[str]
    unit: str | None


class _Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    label: str
    description: str
    probability: float


class _Result(msgspec.Struct, frozen=True, tag="result", tag_field="type", forbid_unknown_fields=True):
    summary: str
    context: str
    criteria: list[str]
    assumptions: list[str]
    options: list[_Option]
    selected: str
    caution: str | None


class _Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turn: _Clarification | _Result


def check(output: str, *, forced: bool, truncated: bool = False) -> Checked:
    """Make a turn of the model's answer; a result has neither sources nor anything else that is not the model's.

    Args:
        output: What the model wrote.
        forced: No question may be asked any more.
        truncated: The answer was cut by the token limit: it is invalid, even if it reads well.

    """
    if truncated:
        return Invalid(("the answer was cut by the length limit: be shorter",))
    try:
        turn = msgspec.convert(_trimmed(_parse(output)), _Output).turn
    except (ValueError, msgspec.ValidationError) as error:
        return Invalid((str(error),))
    except (OverflowError, RecursionError):
        return Invalid(("numbers or nesting beyond all measure",))
    if isinstance(turn, _Clarification):
        problems = list(_problems_of_clarification(turn, forced=forced))
        return Invalid(tuple(problems)) if problems else _clarification(turn)
    problems = list(_problems_of_result(turn))
    return Invalid(tuple(problems)) if problems else _result(turn)


# Reading -------------------------------------------------------------------------------------


def _parse(output: str) -> Any:
    """Read strict JSON.

    Raises:
        ValueError: It is none, or says something twice.

    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a property is given twice")
        return found

    def never(literal: str) -> Any:
        raise ValueError(f"{literal} is not JSON")

    try:
        return json.loads(output, object_pairs_hook=once, parse_constant=never)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None


def _trimmed(value: Any) -> Any:
    """Give the value with its texts trimmed, and without empty texts in lists.

    Raises:
        ValueError: A text holds what can't be kept.

    """
    if isinstance(value, str):
        if _UNFIT.search(value):
            raise ValueError("a text holds a NUL or a lone surrogate")
        return value.strip()
    if isinstance(value, list):
        return [item for item in map(_trimmed, value) if item != ""]
    if isinstance(value, dict):
        if any(map(_UNFIT.search, value)):
            raise ValueError("the name of a property holds a NUL or a lone surrogate")
        return {name: _trimmed(inner) for name, inner in value.items()}
    return value


# Clarifications ------------------------------------------------------------------------------


def _problems_of_clarification(turn: _Clarification, *, forced: bool) -> Iterator[str]:
    yield from _length("/turn/question", turn.question, 1, QUESTION_CHARACTERS)
    yield from _length("/turn/summary", turn.summary, 1, SUMMARY_CHARACTERS)
    notice = turn.purpose in NOTICES
    if forced and not notice:
        yield "/turn: no question may be asked any more: give a result, or a notice if its rules apply"
    if notice and turn.format != "text":
        yield "/turn/format: a notice has format text"
    if turn.format in CHOOSING:
        if not FEWEST_CHOICES <= len(turn.choices) <= MOST_CHOICES:
            yield f"/turn/choices: {FEWEST_CHOICES} to {MOST_CHOICES} with format {turn.format}"
    elif turn.choices:
        yield f"/turn/choices: none with format {turn.format}"
    if len(set(turn.choices)) != len(turn.choices):
        yield "/turn/choices: they must differ"
    for number, choice in enumerate(turn.choices):
        yield from _length(f"/turn/choices/{number}", choice, 1, CHOICE_CHARACTERS)
    if turn.unit is not None and turn.format != "number":
        yield "/turn/unit: null unless format is number"
    if turn.unit == "":
        yield "/turn/unit: null where there is none"


def _clarification(turn: _Clarification) -> Clarification:
    return Clarification(
        question=turn.question,
        choices=tuple(turn.choices),
        format=turn.format,
        unit=turn.unit,
        summary=turn.summary,
        purpose=msgspec.UNSET if turn.purpose is None else turn.purpose,
    )


# Results -------------------------------------------------------------------------------------


def _problems_of_result(turn: _Result) -> Iterator[str]:
    yield from _length("/turn/summary", turn.summary, 1, SUMMARY_CHARACTERS)
    for name, reasons in (("assumptions", turn.assumptions), ("criteria", turn.criteria)):
        if len(reasons) > MOST_REASONS:
            yield f"/turn/{name}: at most {MOST_REASONS}"
        for number, reason in enumerate(reasons):
            yield from _length(f"/turn/{name}/{number}", reason, 1, REASON_CHARACTERS)
    if turn.caution is not None:
        yield from _length("/turn/caution", turn.caution, 0, CAUTION_CHARACTERS)
    if not FEWEST_OPTIONS <= len(turn.options) <= MOST_OPTIONS:
        yield f"/turn/options: {FEWEST_OPTIONS} to {MOST_OPTIONS}"
        return
    for number, option in enumerate(turn.options):
        yield from _problems_of_option(f"/turn/options/{number}", option)
    yield from _problems_of_choice(turn)


def _problems_of_option(place: str, option: _Option) -> Iterator[str]:
    if not _OPTION_ID.fullmatch(option.id):
        yield f"{place}/id: must match {_OPTION_ID.pattern}"
    yield from _length(f"{place}/label", option.label, 1, LABEL_CHARACTERS)
    yield from _length(f"{place}/description", option.description, 0, DESCRIPTION_CHARACTERS)
    if not _is_weight(option.probability):
        yield f"{place}/probability: a number from 0 to 1"


def _problems_of_choice(turn: _Result) -> Iterator[str]:
    weights = {option.id: option.probability for option in turn.options}
    if len(weights) != len(turn.options):
        yield "/turn/options: their ids must differ"
    if turn.selected not in weights:
        yield "/turn/selected: must be the id of an option"
    if not all(_is_weight(option.probability) for option in turn.options):
        return
    total = sum((_exact(option.probability) for option in turn.options), Fraction())
    if abs(total - 1) > SUM_TOLERANCE:
        yield f"/turn/options: the probabilities must sum to 1, not {float(total):.4g}"
    if turn.selected in weights and weights[turn.selected] < max(weights.values()):
        yield "/turn/selected: must be an option with the highest probability"


def _result(turn: _Result) -> Result:
    weights = normalised([option.probability for option in turn.options], _position(turn))
    return Result(
        summary=turn.summary,
        context=turn.context,
        assumptions=tuple(turn.assumptions),
        criteria=tuple(turn.criteria),
        options=tuple(
            Option(id=option.id, label=option.label, description=option.description, probability=weight)
            for option, weight in zip(turn.options, weights, strict=True)
        ),
        selected=turn.selected,
        sources=(),
        caution=turn.caution,
    )


def normalised(weights: Sequence[float], favoured: int) -> Sequence[float]:
    """Give weights of four decimals whose sum is exactly 1, by largest remainder; no order is turned round.

    Args:
        weights: Not all zero, each 0 or more.
        favoured: Position of the one that comes first among equal remainders.

    """
    exact = [_exact(weight) for weight in weights]
    total = sum(exact, Fraction())
    shares = [weight * WEIGHT_STEPS / total for weight in exact]
    steps = [math.floor(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda at: (steps[at] - shares[at], at != favoured, at))
    for at in order[: WEIGHT_STEPS - sum(steps)]:
        steps[at] += 1
    return [step / WEIGHT_STEPS for step in steps]


def _position(turn: _Result) -> int:
    return [option.id for option in turn.options].index(turn.selected)


def _is_weight(weight: float) -> bool:
    return math.isfinite(weight) and 0 <= weight <= 1


def _exact(weight: float) -> Fraction:
    """The decimal that was written, not the nearest double."""
    return Fraction(repr(weight))


def _length(place: str, text: str, least: int, most: int) -> Iterable[str]:
    if least <= len(text) <= most:
        return ()
    return (f"{place}: {least} to {most} characters, not {len(text)}",)
