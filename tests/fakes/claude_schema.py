"""The JSON schemas Claude can be held to: structured outputs and strict tools, with the limits of one request."""

import re
from typing import Any

import msgspec

from tests.fakes.fields import Field, is_of, schemas

KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
MOST_OPTIONAL = 24
MOST_UNIONS = 16
_ANYWHERE = {
    "type",
    "enum",
    "const",
    "anyOf",
    "allOf",
    "$ref",
    "$defs",
    "definitions",
    "description",
    "title",
} | {
    "default",
    "examples",
}
_BY_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems"},
    "string": {"format", "pattern"},
    "integer": set[str](),
    "number": set[str](),
    "boolean": set[str](),
    "null": set[str](),
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
# Lookaround, back references and word boundaries cannot be compiled into a grammar.
_UNSUPPORTED_PATTERN = re.compile(r"\(\?[=!<]|\\[1-9]|\\[bB]")


class SchemaBudget(msgspec.Struct):
    """Optional parameters and unions over all schemas of a request."""

    optional: int = 0
    unions: int = 0

    def spend(self, schema: Field) -> None:
        """Checks a schema and adds what it uses."""
        for here, _ in schemas(schema):
            self._check(here)
        _no_recursion(schema)
        if self.optional > MOST_OPTIONAL:
            raise schema.bad(
                f"Schemas contains too many optional parameters ({self.optional}), which would make grammar "
                f"compilation inefficient. Reduce the number of optional parameters (limit: {MOST_OPTIONAL})."
            )
        if self.unions > MOST_UNIONS:
            raise schema.bad(
                f"Schemas contains too many parameters with union types ({self.unions} parameters with type "
                f"arrays or anyOf). Reduce the number of parameters that use union types (limit: {MOST_UNIONS})."
            )

    def _check(self, here: Field) -> None:
        value = here.mapping()
        if "$ref" in value:
            if not here.at("$ref", value["$ref"]).text().startswith("#/"):
                raise here.bad("External $ref is not supported")
            return
        types = _types(here, value)
        if "anyOf" in value or isinstance(value.get("type"), list):
            self.unions += 1
        for name in value:
            if name not in _ANYWHERE and not any(name in _BY_TYPE[kind] for kind in types):
                raise here.bad(
                    f"For '{types[0] if types else 'any'}' type, property '{name}' is not supported"
                )
        if not types and not value.keys() & {"enum", "const", "anyOf", "allOf"}:
            raise here.bad("Schema must have a 'type', 'anyOf', 'allOf', 'enum', 'const' or '$ref'")
        if "enum" in value:
            _check_enum(here, value, types)
        if "object" in types:
            self._object(here, value)
        if value.get("minItems", 0) not in (0, 1):
            raise here.bad("For 'array' type, 'minItems' values other than 0 or 1 are not supported")
        if "format" in value and here.at("format", value["format"]).text() not in _FORMATS:
            raise here.bad(f"For 'string' type, format '{value['format']}' is not supported")
        if "pattern" in value and _UNSUPPORTED_PATTERN.search(here.at("pattern", value["pattern"]).text()):
            raise here.bad("Invalid regex in pattern field: lookaround and back references are not supported")

    def _object(self, here: Field, value: dict[str, Any]) -> None:
        if value.get("additionalProperties") is not False:
            raise here.bad("For 'object' type, 'additionalProperties' must be explicitly set to false")
        keys = property_keys(here)
        required = [item.text() for item in here.at("required", value.get("required", [])).items()]
        for name in required:
            if name not in keys:
                raise here.bad(f"Required property '{name}' is not among the properties")
        self.optional += len(set(keys) - set(required))


def property_keys(schema: Field) -> list[str]:
    """The keys of an object schema, which must match a pattern in every schema, strict or not."""
    properties = schema.at("properties", schema.mapping().get("properties", {}))
    for name in properties.mapping():
        if not KEY.fullmatch(name):
            raise properties.bad("Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'")
    return list(properties.mapping())


def _check_enum(here: Field, value: dict[str, Any], types: list[str]) -> None:
    for item in here.at("enum", value["enum"]).items(least=1):
        if isinstance(item.value, dict | list):
            raise item.bad("Enum values must be strings, numbers, booleans or null")
        # The real API compares with one type only: a list of types beside an enum is never matched.
        if types and (isinstance(value["type"], list) or not is_of(types[0], item.value)):
            raise here.bad(
                f"Invalid schema: Enum value {item.value!r} does not match declared type '{value['type']}'"
            )


def check_loosely(schema: Field) -> None:
    """A schema nobody is held to still has to be a JSON schema of an object."""
    schema.tag(("object",))
    for here, _ in schemas(schema):
        _types(here, here.mapping())
    property_keys(schema)


def _types(here: Field, value: dict[str, Any]) -> list[str]:
    if "type" not in value:
        return []
    kind = here.at("type", value["type"])
    return (
        [k.choice(_BY_TYPE) for k in kind.items(least=1)]
        if isinstance(kind.value, list)
        else [kind.choice(_BY_TYPE)]
    )


def _no_recursion(schema: Field) -> None:
    """Definitions may refer to each other, never to themselves."""
    root = schema.mapping()
    graph: dict[str, set[str]] = {"#": set()}
    for name in ("$defs", "definitions"):
        for key, inner in root.get(name, {}).items():
            graph[f"#/{name}/{key}"] = _refs(inner)
    graph["#"] = _refs({k: v for k, v in root.items() if k not in ("$defs", "definitions")})
    for start, direct in graph.items():
        reached, waiting = set[str](), list(direct)
        while waiting:
            ref = waiting.pop()
            if ref not in graph:
                raise schema.bad(f"Unresolvable $ref '{ref}'")
            if ref not in reached:
                reached.add(ref)
                waiting += graph[ref]
        if start in reached:
            raise schema.bad("Recursive schemas are not supported")


def _refs(node: Any) -> set[str]:
    if isinstance(node, list):
        return {ref for item in node for ref in _refs(item)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return own | {ref for item in node.values() for ref in _refs(item)}
