"""JSON Schema of the typed contract: what OpenAPI, MCP and the documents publish.

One source: a limit that is published here is the limit that a request is held to. Descriptions are not told here,
because documents have them in six languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, get_args

import msgspec

from gateway.dilem import contract

Schema: TypeAlias = dict[str, Any]

_OURS = frozenset({"title", "description"})
_ORDERS: dict[frozenset[Any], list[Any]] = {
    frozenset(words): list(words)
    for words in map(
        get_args,
        (
            contract.Language,
            contract.Theme,
            contract.Format,
            contract.Purpose,
            contract.Reason,
            contract.Kind,
            contract.Source,
            contract.Screen,
        ),
    )
}


def schemas_of(
    types: Sequence[Any], ref_template: str = "#/components/schemas/{name}"
) -> tuple[tuple[Schema, ...], dict[str, Schema]]:
    """Give each type's schema, and the named components they refer to (`ref_template` holds `{name}`)."""
    schemas, components = msgspec.json.schema_components(types, ref_template=ref_template)
    told = tuple(_told(schema) for schema in schemas)
    return told, {name: _told(schema) for name, schema in components.items()}


def schema_of(kind: Any) -> Schema:
    """Give one type's schema with every reference written out, as MCP's clients understand it best."""
    (schema,), components = schemas_of([kind], "{name}")
    inlined: Schema = _inlined(schema, components)
    return inlined


def _told(schema: Schema) -> Schema:
    """In JSON Schema's words for patterns and constants, in the contract's order of words, without our docstrings."""
    told: Schema = {}
    one_of = "discriminator" in schema
    for key, value in schema.items():
        if key == "pattern":
            told[key] = value.replace(r"\A", "^").replace(r"\Z", "$")
        elif key == "enum" and len(value) == 1:
            told["const"] = value[0]
        elif key == "enum":
            told[key] = _ORDERS.get(frozenset(value), value)
        elif key == "anyOf" and one_of:
            told["oneOf"] = _deeper(value)
        elif key == "properties":
            told[key] = {name: _told(member) for name, member in value.items()}
        elif key not in _OURS:
            told[key] = _deeper(value)
    return told


def _deeper(value: Any) -> Any:
    if isinstance(value, dict):
        return _told(value)
    if isinstance(value, list | tuple):
        return [_deeper(item) for item in value]
    return value


def _inlined(node: Any, components: dict[str, Schema]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, components) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(components[node["$ref"]], components)
    return {key: _inlined(value, components) for key, value in node.items() if key != "discriminator"}
