"""Wire structs as JSON Schema, read from the declarations that decode and encode: a field can't be described wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from gateway.wire.glossary import Wire
from gateway.wire.openapi.words import Described

Schema: TypeAlias = dict[str, Any]

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


class Schemas:
    """The schemas of wire structs, with the words said about them. A struct or field without words is an error."""

    def __init__(self, described: Mapping[type[Wire], Described]) -> None:
        self._described = described

    def reference(self, kind: type[Wire]) -> Schema:
        """Give a reference to a struct's schema."""
        return {"$ref": f"#/components/schemas/{self._described[kind].name}"}

    def components(self) -> dict[str, Schema]:
        """Give the schema of every struct, by its name."""
        return {told.name: self._struct(kind, told) for kind, told in self._described.items()}

    def _struct(self, kind: type[Wire], told: Described) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        config = kind.__struct_config__
        if config.tag_field is not None:
            properties[config.tag_field] = {"const": config.tag}
            required.append(config.tag_field)
        for field in msgspec.structs.fields(kind):
            name = field.encode_name
            schema = self._field(field, told, omits=config.omit_defaults)
            properties[name] = schema | {"description": told.fields[name]}
            if not _may_be_absent(kind, field, told):
                required.append(name)
        if unknown := told.fields.keys() - properties.keys():
            raise LookupError(f"{told.name} has no {sorted(unknown)}")
        return {
            "type": "object",
            "description": told.about,
            "required": required,
            "properties": properties,
            **told.rules,
        }

    def _field(self, field: msgspec.structs.FieldInfo, told: Described, *, omits: bool) -> Schema:
        """Give the schema of a field; one that is left out when it says nothing is never null or false."""
        kinds = [kind for kind in _members(field.type) if kind is not msgspec.UnsetType]
        if omits and field.default is None:
            kinds.remove(NoneType)
        schema: Schema = {"const": True} if omits and field.default is False else self.of(kinds)
        return {**schema, **told.bounds.get(field.encode_name, {})}

    def of(self, kinds: Iterable[Any]) -> Schema:
        """Give the schema of a union, or of a single type."""
        options = [self._one(kind) for kind in kinds]
        if len(options) == 1:
            return options[0]
        plain = [option for option in options if option.keys() == {"type"}]
        if len(plain) == len(options):
            return {"type": [option["type"] for option in options]}
        nullable = {"type": "null"} in options
        others = [option for option in options if option != {"type": "null"}]
        if nullable and len(others) == 1 and isinstance(others[0].get("type"), str):
            return others[0] | {"type": [others[0]["type"], "null"]}
        return {"anyOf": options}

    def _one(self, kind: Any) -> Schema:
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if kind is Any:
            return {}
        if isinstance(kind, type) and issubclass(kind, Wire):
            return self.reference(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"const": arguments[0]}
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(_members(arguments[0]))}
        if origin is dict:
            return {"type": "object"}
        raise TypeError(f"no schema for {kind}")


def _members(kind: Any) -> list[Any]:
    return list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]


def _may_be_absent(kind: type[Wire], field: msgspec.structs.FieldInfo, told: Described) -> bool:
    """Whether a request may come without it, or a reply leave it out."""
    if msgspec.UnsetType in _members(field.type):
        return True
    return not field.required and (kind.__struct_config__.omit_defaults or not told.reply)
