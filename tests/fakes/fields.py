"""A cursor over a decoded request that knows where it stands and refuses in the provider's own words."""

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from tests.fakes.seen import RefusalError


class Words(Protocol):
    """How a provider names places and says what is wrong with them."""

    def step(self, place: str, key: str | int) -> str: ...
    def unknown(self, place: str) -> RefusalError: ...
    def missing(self, place: str) -> RefusalError: ...
    def wrong_type(self, place: str, expected: str, value: Any) -> RefusalError: ...
    def not_allowed(self, place: str, value: Any, allowed: Collection[str]) -> RefusalError: ...
    def bad(self, place: str, message: str, code: str | None = None) -> RefusalError: ...


class Field:
    """A value and its place. The methods return what they checked, or raise `RefusalError`."""

    __slots__ = ("place", "value", "words")

    def __init__(self, value: Any, place: str, words: Words) -> None:
        self.value = value
        self.place = place
        self.words = words

    def at(self, key: str | int, value: Any) -> "Field":
        return Field(value, self.words.step(self.place, key), self.words)

    def named(self, name: str) -> "Field":
        """The same value under a longer place (Claude names the block type on the way)."""
        return Field(self.value, self.words.step(self.place, name), self.words)

    def bad(self, message: str, code: str | None = None) -> RefusalError:
        return self.words.bad(self.place, message, code)

    def mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.words.wrong_type(self.place, "object", self.value)
        return self.value

    def object(self, required: str = "", optional: str = "", nullable: str = "") -> dict[str, "Field"]:
        """The fields present, by name; unknown ones are refused, a null counts as absent where allowed."""
        value = self.mapping()
        needed, extra, loose = required.split(), optional.split(), nullable.split()
        for name in value:
            if name not in needed and name not in extra and name not in loose:
                raise self.words.unknown(self.words.step(self.place, name))
        for name in needed:
            if name not in value:
                raise self.words.missing(self.words.step(self.place, name))
        return {n: self.at(n, v) for n, v in value.items() if not (v is None and n in loose)}

    def tag(self, allowed: Collection[str]) -> str:
        """The `type` of a tagged object."""
        value = self.mapping()
        if "type" not in value:
            raise self.words.missing(self.words.step(self.place, "type"))
        return self.at("type", value["type"]).choice(allowed)

    def items(self, least: int = 0, most: int | None = None) -> list["Field"]:
        if not isinstance(self.value, list):
            raise self.words.wrong_type(self.place, "array", self.value)
        if len(self.value) < least:
            raise self.bad(f"List should have at least {least} item after validation, not {len(self.value)}")
        if most is not None and len(self.value) > most:
            raise self.bad(f"List should have at most {most} items after validation, not {len(self.value)}")
        return [self.at(n, v) for n, v in enumerate(self.value)]

    def text(self, least: int = 0, most: int | None = None) -> str:
        if not isinstance(self.value, str):
            raise self.words.wrong_type(self.place, "string", self.value)
        if len(self.value) < least:
            raise self.bad(f"String should have at least {least} character")
        if most is not None and len(self.value) > most:
            raise self.bad(f"String should have at most {most} characters")
        return self.value

    def choice(self, allowed: Collection[str]) -> str:
        value = self.text()
        if value not in allowed:
            raise self.words.not_allowed(self.place, value, allowed)
        return value

    def integer(self, least: int | None = None, most: int | None = None) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.words.wrong_type(self.place, "integer", self.value)
        self._within(self.value, least, most)
        return self.value

    def number(self, least: float | None = None, most: float | None = None) -> float:
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.words.wrong_type(self.place, "number", self.value)
        self._within(self.value, least, most)
        return float(self.value)

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.words.wrong_type(self.place, "boolean", self.value)
        return self.value

    def _within(self, value: float, least: float | None, most: float | None) -> None:
        if least is not None and value < least:
            raise self.bad(f"Input should be greater than or equal to {least}")
        if most is not None and value > most:
            raise self.bad(f"Input should be less than or equal to {most}")


JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def is_of(kind: str, value: Any) -> bool:
    """Whether a JSON value is of a JSON type."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, JSON_TYPES[kind])


def schemas(schema: Field) -> Iterator[tuple[Field, int]]:
    """Every schema inside a JSON schema, with its depth in objects and arrays, the schema itself first."""
    waiting = [(schema, 0)]
    while waiting:
        here, depth = waiting.pop(0)
        value = here.mapping()
        yield here, depth
        for name in ("properties", "$defs", "definitions"):
            if name in value:
                inner = here.at(name, value[name])
                deeper = depth + 1 if name == "properties" else depth
                waiting += [(inner.at(key, v), deeper) for key, v in inner.mapping().items()]
        if "items" in value:
            waiting.append((here.at("items", value["items"]), depth + 1))
        for name in ("anyOf", "allOf", "oneOf"):
            if name in value:
                waiting += [(variant, depth) for variant in here.at(name, value[name]).items(least=1)]
