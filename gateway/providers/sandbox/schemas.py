"""What `prova` answers to a JSON schema that nobody plays the model for: a small instance of it; pure."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.ports import ProviderError, Trouble

_DEEPEST = 32
_BY_TYPE: dict[str, Any] = {"string": "prova", "integer": 0, "number": 0, "boolean": False, "null": None}


def instance_text(schema: dict[str, Any]) -> str:
    """Give an instance as JSON text: the first literal, the first alternative, lists of one item.

    Raises:
        ProviderError: The schema says something that is not understood here, as a provider's 400.

    """
    return msgspec.json.encode(_instance(schema, 0)).decode()


def _instance(schema: Any, depth: int) -> Any:
    match schema:
        case _ if depth > _DEEPEST:
            pass
        case {"const": literal} | {"enum": [literal, *_]}:
            return literal
        case {"anyOf": [first, *_]}:
            return _instance(first, depth + 1)
        case {"type": "object"}:
            properties = schema.get("properties", {})
            return {name: _instance(inner, depth + 1) for name, inner in properties.items()}
        case {"type": "array", "items": inner}:
            return [_instance(inner, depth + 1)]
        case {"type": str(kind)} if kind in _BY_TYPE:
            return _BY_TYPE[kind]
    raise ProviderError(Trouble.REJECTED, "a schema that the sandbox does not understand", status=400)
