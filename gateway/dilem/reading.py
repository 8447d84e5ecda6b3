"""JSON as Dilem takes it, strictly: what two readers could understand differently is refused, and no refusal repeats
what was sent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec

from gateway.dilem import errors
from gateway.dilem.errors import Code, DilemFailure

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Kind = TypeVar("Kind")

DEEPEST = 32
"""Objects and arrays inside each other."""
LONGEST_NUMBER = 400
"""Digits of a whole number: more would be beyond any float."""

_UNSPEAKABLE = re.compile("[\x00\ud800-\udfff]")
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}\Z")
_PATH = re.compile(r" - at `\$(?P<path>.*)`\Z", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[A-Za-z0-9_]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`\Z", re.DOTALL)
_OWN: dict[str, tuple[Code, Code]] = {
    "session": (errors.SESSION_REQUIRED, errors.SESSION_INVALID),
    "case_id": (errors.CASE_ID_REQUIRED, errors.CASE_ID_INVALID),
}
"""MCP's arguments whose absence and wrong form have codes of their own."""


def read_object(body: bytes) -> dict[str, Any]:
    """Read a body that must be one JSON object in UTF-8.

    Raises:
        DilemFailure: 422, `invalid_json`, or `invalid_input` for a NUL or a lone surrogate.

    """
    value = read_value(body)
    if not isinstance(value, dict):
        raise DilemFailure(errors.INVALID_JSON, "The body must be a JSON object.")
    require_speakable(value)
    return value


def read_value(body: bytes) -> Any:
    """Read a body that must be JSON in UTF-8; its strings are still to be looked at with `require_speakable`.

    Raises:
        DilemFailure: 422 `invalid_json`.

    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise DilemFailure(errors.INVALID_JSON, "The body is not UTF-8.") from None
    if text.startswith("\ufeff"):
        raise DilemFailure(errors.INVALID_JSON, "The body begins with a byte order mark.")
    _require_flat(text)
    try:
        return _decoder.decode(text.strip(" \t\r\n"))
    except ValueError:
        raise DilemFailure(errors.INVALID_JSON) from None


def require_speakable(value: Any, pointer: str = "") -> None:
    """Refuse a NUL or a lone surrogate in any string or key: legal in JSON, and the ruin of whoever stores it.

    Raises:
        DilemFailure: 422 `invalid_input`, with the place.

    """
    if isinstance(value, str):
        if _UNSPEAKABLE.search(value):
            _refuse(pointer, "holds U+0000 or a lone surrogate")
    elif isinstance(value, dict):
        for key, member in value.items():
            if _UNSPEAKABLE.search(key):
                _refuse(pointer, "has a member whose name holds U+0000 or a lone surrogate")
            require_speakable(member, f"{pointer}/{_step(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            require_speakable(item, f"{pointer}/{index}")


def decode(kind: type[Kind], value: Any) -> Kind:
    """Make a typed value of what was read.

    Raises:
        DilemFailure: 422 with the JSON pointer of what is wrong; MCP's `session` and `case_id` have codes of their own.

    """
    try:
        return msgspec.convert(_whole(value), kind)
    except msgspec.ValidationError as error:
        raise _failure(error, value) from None


# --- reading ------------------------------------------------------------------------------------------------------


def _pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError("a member stands twice")
        found[key] = value
    return found


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number is too large")
    value = int(digits)
    _float(digits)
    return value


def _constant(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_float, parse_int=_integer, parse_constant=_constant
)


def _require_flat(text: str) -> None:
    """Count brackets outside of strings before anything recursive sees them."""
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] in "[{":
            depth += 1
            if depth > DEEPEST:
                raise DilemFailure(errors.INVALID_JSON, f"The body is nested deeper than {DEEPEST}.")
        elif bracket[0] in "]}":
            depth -= 1


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{\]}]', re.DOTALL)


# --- deciding -----------------------------------------------------------------------------------------------------


def _whole(value: Any) -> Any:
    """Whole numbers written with a fraction (2.0) are whole numbers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def _failure(error: msgspec.ValidationError, value: Any) -> DilemFailure:
    message = str(error)
    path = _PATH.search(message)
    pointer = "" if path is None else _pointer(path["path"])
    told = message if path is None else message[: path.start()]
    if (field := _FIELD.search(told)) is not None:
        if field["what"] == "missing required":
            pointer, told = f"{pointer}/{field['name']}", "is required"
            if pointer[1:] in _OWN:
                return DilemFailure(_OWN[pointer[1:]][0], _sentence(pointer, told))
        else:
            pointer, told = f"{pointer}/{_step(field['name'])}", "is not a member of this request"
    elif pointer[1:] in _OWN:
        absent, wrong = _OWN[pointer[1:]]
        if value.get(pointer[1:]) is None:
            return DilemFailure(absent, _sentence(pointer, "is required"))
        return DilemFailure(wrong)
    elif told.startswith("/"):  # a rule over several members has named its own
        inner, _, told = told.partition(": ")
        pointer += inner
    elif told.startswith("Invalid enum value"):
        told = "is none of the values allowed"
    return DilemFailure(errors.INVALID_INPUT, _sentence(pointer, told))


def _refuse(pointer: str, told: str) -> NoReturn:
    raise DilemFailure(errors.INVALID_INPUT, _sentence(pointer, told))


def _sentence(pointer: str, told: str) -> str:
    told = told.replace(r"\\A", "^").replace(r"\\Z", "$").replace("`", "")
    told = told[0].lower() + told[1:] if told.startswith("Expected") else told
    return f"{pointer or '/'}: {told}."


def _pointer(path: str) -> str:
    steps = (each["name"] or each["index"] or "*" for each in _STEP.finditer(path))
    return "".join(f"/{step}" for step in steps)


def _step(name: str) -> str:
    """A member's name, if it looks like one: a name too may be a text that someone typed."""
    return name if _MEMBER.match(name) else "*"
