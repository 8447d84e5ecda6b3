"""Forced shapes as a JSON schema that both providers take, and the way back to what the contract promises.

Any names and options are served: those a schema can't hold get safe ones, with the true ones in the description. The
schema has no unions and no optional properties, because Claude refuses more than a few; what comes back is read
liberally and told strictly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from gateway.domain.completion import Choice, Fields, JsonSchema, Shape
from gateway.providers import failures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_SAFE_KEY = re.compile(r"[A-Za-z0-9_]{1,64}")
_PLAIN_OPTION = re.compile(r"(?! )[\w .,;:()/&%+!?-]+(?<! )")
"""Letters, digits and simple punctuation: no quotes, no backslash, no line breaks, nothing at the edges."""
_MOST_ENUM_CHARACTERS = 7_500
"""Half of what OpenAI takes in a large enum; longer options are sent as codes."""
_CATEGORY = "categoria"
_NAME: Final = "risposta"

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class Form(Protocol):
    """One forced shape, ready to be sent and read."""

    name: str
    """What the provider is told that it is called: letters, digits, `_` and `-`."""
    schema: dict[str, Any]
    """A JSON schema; the root is an object."""
    tells_cut: bool
    """Whether an answer that was cut, or that says nothing, is told all the same: somebody else judges it."""

    def read(self, text: str) -> str:
        """Give the contract's answer for a model's.

        Raises:
            ProviderError: The answer does not have the shape.

        """
        ...


def form_of(shape: Shape | None) -> Form | None:
    """Prepare a shape for a request and its answer."""
    if shape is None:
        return None
    match shape:
        case Fields():
            return FieldsForm(shape)
        case Choice():
            return ChoiceForm(shape)
        case JsonSchema():
            return SchemaForm(shape)


def fields_text(values: Mapping[str, str | None]) -> str:
    """Write the contract's JSON object: compact, with the names in their order."""
    return msgspec.json.encode(values).decode()


class FieldsForm:
    """A list of texts per field, empty when the document doesn't say: the one way to be absent without a union."""

    name = _NAME
    tells_cut = False

    def __init__(self, shape: Fields) -> None:
        self._keys = dict(zip(_safe_keys(shape.names), shape.names, strict=True))
        properties: dict[str, Any] = {}
        for key, name in self._keys.items():
            properties[key] = {"type": "array", "items": {"type": "string"}}
            if key != name:
                properties[key]["description"] = f"Il campo {_quoted(name)}."
        self.schema: dict[str, Any] = {
            "type": "object",
            "description": "Di ogni campo il valore, o i valori, come elenco; vuoto se il dato non c'è.",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    def read(self, text: str) -> str:
        """Give exactly the asked names, in order, each with a text or null."""
        try:
            given = _decode_object(text)
            values = {name: _value(bytes(_found(given, key, name))) for key, name in self._keys.items()}
        except msgspec.DecodeError:
            pass
        else:
            return fields_text(values)
        raise failures.faulty("a forced shape that is no JSON object")


class ChoiceForm:
    """One property with the options as an enum, or with codes that the description explains."""

    name = _NAME
    tells_cut = False

    def __init__(self, shape: Choice) -> None:
        options = shape.options
        category: dict[str, Any] = {"type": "string"}
        if _all_plain(options):
            self._codes = {option: option for option in options}
        else:
            self._codes = dict(zip(_numbered(_CATEGORY, options, len(options)), options, strict=True))
            meanings = "\n".join(f"{code} = {_quoted(option)}" for code, option in self._codes.items())
            category["description"] = f"Il codice della categoria scelta:\n{meanings}"
        category["enum"] = list(self._codes)
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {_CATEGORY: category},
            "required": [_CATEGORY],
            "additionalProperties": False,
        }

    def read(self, text: str) -> str:
        """Give exactly one of the options."""
        said = _said(text)
        option = None if said is None else self._option(said)
        if option is None:
            raise failures.faulty("a forced choice that is none of the options")
        return option

    def _option(self, said: str) -> str | None:
        """Find the option by its code or text, then trimmed, then in any case; but only if there is one like it."""
        if said in self._codes:
            return self._codes[said]
        known = [*self._codes.items(), *((option, option) for option in self._codes.values())]
        for likeness in (str, str.strip, _loosely):
            found = {option for name, option in known if likeness(name) == likeness(said)}
            if found:
                return found.pop() if len(found) == 1 else None
        return None


class SchemaForm:
    """A schema as it was given, and its answer as it comes."""

    tells_cut = True

    def __init__(self, shape: JsonSchema) -> None:
        self.name = shape.name
        self.schema = shape.schema

    def read(self, text: str) -> str:
        """Give what the model wrote."""
        return text


# Names


def _safe_keys(names: Iterable[str]) -> Iterable[str]:
    names = tuple(names)
    numbered = iter(_numbered("campo", names, len(names)))
    for name in names:
        number = next(numbered)
        yield name if _SAFE_KEY.fullmatch(name) else number


def _numbered(word: str, taken: Collection[str], count: int) -> list[str]:
    """Give `word_1`, `word_2`, … with as many underscores as it takes to be none of the names there are."""
    taken = set(taken)
    while any(f"{word}_{number}" in taken for number in range(1, count + 1)):
        word += "_"
    return [f"{word}_{number}" for number in range(1, count + 1)]


def _all_plain(options: Iterable[str]) -> bool:
    options = tuple(options)
    return sum(map(len, options)) <= _MOST_ENUM_CHARACTERS and all(map(_PLAIN_OPTION.fullmatch, options))


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _loosely(text: str) -> str:
    return text.strip().casefold()


# Values


def _found(given: Mapping[str, msgspec.Raw], key: str, name: str) -> bytes | msgspec.Raw:
    """Find a field under its safe key, or under its own name."""
    return given.get(key) or given.get(name) or b"null"


def _value(raw: bytes) -> str | None:
    """Read a field's value: a text, a list of texts, or anything else as its JSON text; empty is absent."""
    if not raw.startswith(b"["):
        return _text(raw)
    parts = [part for item in _decode_list(raw) if (part := _text(bytes(item))) is not None]
    return ", ".join(parts) if parts else None


def _text(raw: bytes) -> str | None:
    if raw == b"null":
        return None
    if raw.startswith(b'"'):
        text = _decode_text(raw)
        return text if text and not text.isspace() else None
    return msgspec.json.format(raw, indent=-1).decode()


def _said(text: str) -> str | None:
    """Find what was chosen: in the property asked for, in the only one there is, or bare."""
    raw = text.strip().encode()
    try:
        if raw.startswith(b"{"):
            given = _decode_object(raw)
            if _CATEGORY in given:
                return _value(bytes(given[_CATEGORY]))
            return _value(bytes(*given.values())) if len(given) == 1 else None
        if raw.startswith((b'"', b"[")):
            return _value(raw)
    except msgspec.DecodeError:
        pass
    return text
