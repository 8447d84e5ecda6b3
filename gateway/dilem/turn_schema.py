"""What the model is held to when it makes a turn: the one JSON schema that both providers take in their strict modes.

An object at the root, every object closed, every property required, what may be absent as a union with null, literals
as an enum of one; bounds are not the schema's business but `validation.py`'s.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from gateway.dilem.contract import Format, Purpose
from gateway.domain.completion import JsonSchema

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}


def _one_of(*literals: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(literals)}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_CLARIFICATION: Final = _object(
    type=_one_of("clarification"),
    purpose=_or_null(_one_of(*get_args(Purpose))),
    summary=_TEXT,
    question=_TEXT,
    format=_one_of(*get_args(Format)),
    choices=_TEXTS,
    unit=_or_null(_TEXT),
)
_OPTION: Final = _object(id=_TEXT, label=_TEXT, description=_TEXT, probability={"type": "number"})
# In the order of a careful thought: what is compared and by what, then the weights, then the choice.
_RESULT: Final = _object(
    type=_one_of("result"),
    summary=_TEXT,
    context=_TEXT,
    criteria=_TEXTS,
    assumptions=_TEXTS,
    options={"type": "array", "items": _OPTION},
    selected=_TEXT,
    caution=_or_null(_TEXT),
)

TURN_SCHEMA: Final = JsonSchema("dilem_turn", _object(turn={"anyOf": [_CLARIFICATION, _RESULT]}))
"""The forced form of every turn. Sources, times, models, counts and ids are never the model's to say."""
