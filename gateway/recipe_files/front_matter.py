"""What stands between the two fences of a recipe file, checked field by field."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from gateway.domain.catalog import Extra, ExtraKind, Level
from gateway.recipe_files.extras import LIST_LIMITS, MAX_INTEGER, NO_CACHE, PLACEHOLDER, TEXT_CHARACTERS

MAX_EXTRAS: Final = 20
MAX_TEXT_CHARACTERS: Final = 10_000

Name = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_-]{0,62}\Z")]
Description = Annotated[str, Meta(pattern=r"\S", max_length=300)]
Sentence = Annotated[str, Meta(pattern=r"\S", max_length=2_000)]
Tokens = Annotated[int, Meta(ge=1, le=64_000)]
Bound = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]

_RULES = {
    Name: "takes a lower-case letter and then at most 62 of a-z, 0-9, _ and -",
    Level: f"takes {' or '.join(Level)}",
    ExtraKind: f"takes {', '.join(ExtraKind)}",
}
"""What to say instead of msgspec's sentence."""


class _ExtraEntry(
    msgspec.Struct,
    frozen=True,
    rename={
        "kind": "tipo",
        "description": "descrizione",
        "instruction": "istruzione",
        "minimum": "minimo",
        "maximum": "massimo",
    },
):
    """One entry under `extra`."""

    kind: ExtraKind
    description: Description
    instruction: Sentence = ""
    minimum: Bound | None = None
    maximum: Bound | None = None


class FrontMatter(
    msgspec.Struct,
    frozen=True,
    rename={
        "name": "nome",
        "description": "descrizione",
        "level": "livello",
        "base_tokens": "base",
        "tokens_per_input": "per_token_in_ingresso",
        "cache_hours": "cache_ore",
        "knowledge": "conoscenza",
        "extras": "extra",
    },
):
    """What stands between the two fences."""

    name: Name
    description: Description
    level: Level
    max_tokens: Tokens
    base_tokens: Tokens
    tokens_per_input: Annotated[float, Meta(ge=0, le=100)] = 0.0
    cache_hours: Annotated[float, Meta(ge=0, le=168)] = 1.0
    internet: bool = False
    knowledge: bool = False
    extras: dict[str, object] = {}


_Shape = TypeVar("_Shape", bound=msgspec.Struct)


def decode(found: object, shape: type[_Shape], where: str, problems: list[str]) -> _Shape | None:
    """Read a mapping key by key, so that every wrong key is told and not the first alone."""
    if not isinstance(found, dict):
        problems.append(f"{where.removesuffix('.') or 'the front matter'}: takes keys and values")
        return None
    before = len(problems)
    fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    known = ", ".join(fields)
    problems.extend(f"{where}{key}: no such key (there are {known})" for key in found if key not in fields)
    values: dict[str, Any] = {}
    for key, field in fields.items():
        if key in found:
            try:
                values[field.name] = msgspec.convert(found[key], field.type)
            except msgspec.ValidationError as error:
                problems.append(f"{where}{key}: {_RULES.get(field.type) or _plain(str(error))}")
        elif field.required:
            problems.append(f"{where}{key}: missing")
    return shape(**values) if len(problems) == before else None


def _plain(problem: str) -> str:
    if "matching regex" in problem:
        return "must not be blank"
    return problem[:1].lower() + problem[1:].replace("`", "")


def read_declared(entries: object, problems: list[str]) -> tuple[Extra, ...]:
    """Read what stands under `extra`."""
    if not isinstance(entries, dict):
        return ()  # told where the front matter is decoded
    if len(entries) > MAX_EXTRAS:
        problems.append(f"extra: more than {MAX_EXTRAS} of them")
        return ()
    extras: list[Extra] = []
    for name, found in entries.items():
        try:
            msgspec.convert(name, Name)
        except msgspec.ValidationError:
            problems.append(f"extra.{name}: the name {_RULES[Name]}")
            continue
        entry = decode(found, _ExtraEntry, f"extra.{name}.", problems)
        if entry is not None:
            extras.append(_extra(name, entry, problems))
    shapes = [extra.name for extra in extras if extra.kind in LIST_LIMITS]
    if len(shapes) > 1:
        problems.append(f"extra: only one may force the shape of the answer, not {' and '.join(shapes)}")
    return tuple(extras)


def _extra(name: str, entry: _ExtraEntry, problems: list[str]) -> Extra:
    """Turn an entry into the domain's extra, telling whatever its kind doesn't allow."""
    kind, minimum, maximum, where = entry.kind, entry.minimum, entry.maximum, f"extra.{name}"
    holds = PLACEHOLDER in entry.instruction
    if name == NO_CACHE:
        problems.append(f"{where}: every recipe knows this extra already")
    if not entry.instruction and kind not in LIST_LIMITS:
        problems.append(f"{where}.istruzione: missing")
    elif kind in {ExtraKind.TEXT, ExtraKind.INTEGER} and not holds:
        problems.append(f"{where}.istruzione: must contain {PLACEHOLDER}")
    elif kind is ExtraKind.FLAG and holds:
        problems.append(f"{where}.istruzione: a booleano has no {PLACEHOLDER}")
    if kind is ExtraKind.TEXT:
        maximum = TEXT_CHARACTERS if maximum is None else maximum
        if not 1 <= maximum <= MAX_TEXT_CHARACTERS:
            problems.append(f"{where}.massimo: a testo takes 1 to {MAX_TEXT_CHARACTERS} characters")
    elif kind is not ExtraKind.INTEGER and maximum is not None:
        problems.append(f"{where}.massimo: only a testo or an intero has one")
    if kind is not ExtraKind.INTEGER and minimum is not None:
        problems.append(f"{where}.minimo: only an intero has one")
    if kind is ExtraKind.INTEGER and minimum is not None and maximum is not None and minimum > maximum:
        problems.append(f"{where}.minimo: is above massimo")
    description, instruction = " ".join(entry.description.split()), " ".join(entry.instruction.split())
    return Extra(name, kind, description, instruction, minimum, maximum)
