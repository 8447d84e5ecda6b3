"""The JSON schemas OpenAI's strict mode takes, with its limits on size and on what a literal may hold."""

from typing import Any

from tests.fakes.fields import Field, is_of, schemas
from tests.fakes.seen import RefusalError

_ANYWHERE = {"type", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "description", "title"}
_BY_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"pattern", "format"},
    "integer": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "number": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "boolean": set[str](),
    "null": set[str](),
}
_NUMBERS = {
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "minItems",
    "maxItems",
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_MOST_PROPERTIES = 5_000
_DEEPEST = 10
_MOST_ENUM_VALUES = 1_000
_LARGE_ENUM = 250
_MOST_LARGE_ENUM_CHARACTERS = 15_000
_MOST_CHARACTERS = 120_000
_FORBIDDEN = ("\n", '"', "\x00")


class _StrictSchema:
    """One schema being checked, with what its parts add up to."""

    def __init__(self, name: str, root: Field) -> None:
        self._name = name
        self._root = root
        self._properties = self._values = self._characters = 0

    def check(self) -> None:
        root = self._root.mapping()
        if root.get("type") != "object" or "anyOf" in root:
            raise self._bad(self._root, "schema must be a JSON Schema of 'type: \"object\"'")
        for here, depth in schemas(self._root):
            if depth > _DEEPEST:
                raise self._bad(here, f"schema exceeds the limit of {_DEEPEST} levels of nesting")
            self._one(here)
        for count, most, what in (
            (self._properties, _MOST_PROPERTIES, "properties"),
            (self._values, _MOST_ENUM_VALUES, "enum values"),
            (self._characters, _MOST_CHARACTERS, "characters in names and literals"),
        ):
            if count > most:
                raise self._bad(self._root, f"expected at most {most} {what} in total, but got {count}")

    def _one(self, here: Field) -> None:
        value = here.mapping()
        kind = value.get("type")
        types: list[Any] = kind if isinstance(kind, list) else [kind] if "type" in value else []
        if not types and ("type" in value or not value.keys() & {"anyOf", "$ref", "enum", "const"}):
            raise self._bad(here, "schema must have a 'type' key")
        for name in types:
            if not isinstance(name, str) or name not in _BY_TYPE:
                raise self._bad(here, f"'{name}' is not a valid type")
        for keyword in value:
            if keyword not in _ANYWHERE and not any(keyword in _BY_TYPE[t] for t in types):
                raise self._bad(here, f"'{keyword}' is not permitted")
        if "format" in value and here.at("format", value["format"]).text() not in _FORMATS:
            raise self._bad(here, f"'{value['format']}' is not a valid format")
        if "array" in types and "items" not in value:
            raise self._bad(here, "array schema missing items")
        for name in ("$defs", "definitions"):
            self._characters += sum(len(key) for key in here.at(name, value.get(name, {})).mapping())
        for name in value.keys() & _NUMBERS:
            here.at(name, value[name]).number()
        if "$ref" in value:
            self._reference(here, here.at("$ref", value["$ref"]).text())
        self._literals(here, value, types)
        if "object" in types:
            self._object(here, value)

    def _object(self, here: Field, value: dict[str, Any]) -> None:
        if value.get("additionalProperties") is not False:
            raise self._bad(here, "'additionalProperties' is required to be supplied and to be false")
        names = list(here.at("properties", value.get("properties", {})).mapping())
        required = value.get("required")
        problem = (
            "'required' is required to be supplied and to be an array including every key in properties."
        )
        if not isinstance(required, list):
            raise self._bad(here, problem)
        missing = [name for name in names if name not in required]
        if missing:
            raise self._bad(here, f"{problem} Missing '{missing[0]}'")
        extra = [name for name in required if name not in names]
        if extra:
            raise self._bad(here, f"Extra required key '{extra[0]}' supplied")
        self._properties += len(names)
        for name in names:
            self._literal(here, name)

    def _reference(self, here: Field, ref: str) -> None:
        found: Any = self._root.value if ref.startswith("#") else None
        for step in ref.removeprefix("#").strip("/").split("/"):
            if step:
                found = found.get(step) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise self._bad(here, f"reference to component '{ref}' which was not found in the schema")

    def _literals(self, here: Field, value: dict[str, Any], types: list[str]) -> None:
        literals = [value["const"]] if "const" in value else []
        if "enum" in value:
            enum = [item.value for item in here.at("enum", value["enum"]).items(least=1)]
            if len({repr(item) for item in enum}) != len(enum):
                raise self._bad(here, "enum values must be unique")
            self._values += len(enum)
            size = sum(len(item) for item in enum if isinstance(item, str))
            if len(enum) > _LARGE_ENUM and size > _MOST_LARGE_ENUM_CHARACTERS:
                raise self._bad(
                    here,
                    f"expected at most {_MOST_LARGE_ENUM_CHARACTERS} characters in an enum of more than {_LARGE_ENUM} "
                    f"values, but got {size}",
                )
            literals += enum
        for item in literals:
            if isinstance(item, dict | list):
                raise self._bad(here, "enum and const values must be strings, numbers, booleans or null")
            if types and not any(is_of(kind, item) for kind in types):
                raise self._bad(
                    here, f"enum value {item!r} does not validate against {{'type': {value['type']!r}}}"
                )
            if isinstance(item, str):
                self._literal(here, item)

    def _literal(self, here: Field, literal: str) -> None:
        self._characters += len(literal)
        for character in _FORBIDDEN:
            if character in literal:
                shown = repr(character)[1:-1]
                raise self._bad(
                    here, f"{shown} is not allowed in string literals for structured outputs (strict=true)."
                )

    def _bad(self, here: Field, message: str) -> RefusalError:
        steps = here.place.removeprefix(self._root.place).strip(".").split(".")
        context = tuple(step for step in steps if step)
        text = f"Invalid schema for response_format '{self._name}': In context={context}, {message}"
        return RefusalError(400, text, kind="invalid_request_error", param="response_format")


def check_loosely(name: str, schema: Field) -> None:
    """A schema nobody is held to still has to be a JSON schema of an object."""
    if schema.mapping() and schema.mapping().get("type") != "object":
        raise RefusalError(
            400,
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'",
            kind="invalid_request_error",
            param=schema.place,
            code="invalid_function_parameters",
        )
    for here, _ in schemas(schema):
        here.mapping()


def check_strict(name: str, schema: Field) -> None:
    """Checks a schema for strict mode."""
    _StrictSchema(name, schema).check()
