"""The members of the contract's objects, as documents tell them: read off the schemas that requests are held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gateway.dilem.schemas import Schema, schemas_of

_REF = "{name}"


class Field(Struct, frozen=True, kw_only=True):
    """A member.

    Attributes:
        owner: The struct it is a member of.
        schema: Without null.
        nullable: Whether null is one of its values.
        default: As JSON values; UNSET without one.
        holds: The struct that it, or each of its items, is; empty when it is none.
        fields: That struct's members.

    """

    owner: str
    name: str
    required: bool
    schema: Schema
    nullable: bool
    default: Any | UnsetType
    holds: str
    fields: tuple[Field, ...]

    @property
    def type(self) -> str:
        """The type in a word: `string`, `Option[]`, `integer | null`."""
        return _type(self.schema, nullable=self.nullable)

    @property
    def values(self) -> tuple[str, ...]:
        """The values allowed, as JSON; none when they are not counted."""
        words = self.schema.get("enum", ())
        return tuple(as_json(word) for word in words) + (("null",) if words and self.nullable else ())

    @property
    def literal_type(self) -> str:
        """The type, with the values allowed in place of their kind."""
        constant = self.schema.get("const")
        if constant is not None:
            return as_json(constant)
        return " | ".join(self.values) or self.type


def fields_of(kind: Any) -> tuple[Field, ...]:
    """Give a struct's members, its tag first, as it is told."""
    _, components = schemas_of([kind], _REF)
    return tuple(_members(kind.__name__, components))


def as_json(value: object) -> str:
    """Give a value as JSON."""
    return msgspec.json.encode(value).decode()


def _members(owner: str, components: Mapping[str, Schema]) -> Iterator[Field]:
    component = components[owner]
    for name, schema in component["properties"].items():
        bare, nullable = _without_null(schema)
        holds = bare.get("items", bare).get("$ref", "")
        yield Field(
            owner=owner,
            name=name,
            required=name in component["required"],
            schema=bare,
            nullable=nullable,
            default=schema.get("default", UNSET),
            holds=holds,
            fields=tuple(_members(holds, components)) if holds else (),
        )


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    options = schema.get("anyOf")
    if options is None:
        return schema, False
    (bare,) = (option for option in options if option != {"type": "null"})
    return bare, True


def _type(schema: Schema, *, nullable: bool) -> str:
    if "$ref" in schema:
        name: str = schema["$ref"]
    elif schema.get("type") == "array":
        name = f"{_type(schema['items'], nullable=False)}[]"
    else:
        name = schema.get("type") or kind_of(schema)
    return f"{name} | null" if nullable else name


def kind_of(schema: Schema) -> str:
    """Give the JSON type of a schema that tells its values alone."""
    value = schema["const"] if "const" in schema else schema["enum"][0]
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "string"
