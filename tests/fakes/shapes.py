"""A deterministic instance of a JSON schema, for answers to requests that ask for one."""

from typing import TYPE_CHECKING, Any

import msgspec

from tests.fakes.behaviours import Answer, Json, Text, Thought, ToolCall

if TYPE_CHECKING:
    from tests.fakes.behaviours import Part

_SAMPLES = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "time": "03:04:05Z",
    "duration": "P1D",
    "email": "nome@example.org",
    "hostname": "example.org",
    "uri": "https://example.org/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
# A recursive schema has to end somewhere.
_DEEPEST = 8


def shape_instance(schema: Json) -> Any:
    """First enum value, first variant that is not null, the string "valore", lists of one item."""
    return _instance(schema, schema, 0)


def _instance(schema: Json, root: Json, depth: int) -> Any:
    if "$ref" in schema:
        return _instance(_resolved(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf"):
        if schema.get(name):
            variants = [v for v in schema[name] if v.get("type") != "null"]
            if depth > _DEEPEST or not variants:
                return None
            return _instance(variants[0], root, depth + 1)
    if schema.get("allOf"):
        merged: Json = {}
        for part in schema["allOf"]:
            merged |= part
        return _instance(merged, root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    return _of_type(kind, schema, root, depth)


def _of_type(kind: str, schema: Json, root: Json, depth: int) -> Any:
    if kind == "object":
        needed = schema.get("required", [])
        return {
            name: _instance(inner, root, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if name in needed or depth <= _DEEPEST
        }
    if kind == "array":
        count = schema.get("minItems", 0 if depth > _DEEPEST else 1)
        return [
            _instance(schema.get("items", {}), root, depth + 1) for _ in range(max(count, depth <= _DEEPEST))
        ]
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("maximum", 1))
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    sample = _SAMPLES.get(schema.get("format", ""), "valore")
    return sample.ljust(schema.get("minLength", 0), "e")[: schema.get("maxLength")]


def _resolved(ref: str, root: Json) -> Json:
    found: Any = root
    for step in ref.removeprefix("#").strip("/").split("/"):
        if step:
            found = found[step.replace("~1", "/").replace("~0", "~")]
    return dict(found)


def dressed(
    scripted: Answer, *, schema: Json | None, tool: tuple[str, Json] | None, thinking: bool
) -> Answer:
    """A `shaped` answer in the form the request asks for: JSON text, a forced tool call, a thinking block."""
    if not scripted.shaped:
        return scripted
    parts: tuple[Part, ...] = scripted.parts
    stop = scripted.stop
    # Only an answer of nothing but text is replaced: anything else was put there for a reason.
    if all(isinstance(part, Text) for part in parts) and stop == "end_turn":
        if tool is not None:
            parts, stop = (ToolCall(tool[0], shape_instance(tool[1])),), "tool_use"
        elif schema is not None:
            parts = (Text(msgspec.json.encode(shape_instance(schema)).decode()),)
    if thinking and not any(isinstance(part, Thought) for part in parts):
        parts = (Thought("Ci penso un momento."), *parts)
    pieces = scripted.pieces if parts == scripted.parts or isinstance(scripted.pieces, int) else 3
    return msgspec.structs.replace(scripted, parts=parts, stop=stop, pieces=pieces)
