"""The catalogue of words: one file per language, all with the same entries, numbers put in from the code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gateway.dilem.content.fields import Field, as_json
from gateway.dilem.contract import (
    BODY_BYTES,
    MAXIMUM_MESSAGE_CHARACTERS,
    MINIMUM_MESSAGE_CHARACTERS,
    SESSION_SECONDS,
    TOTAL_CHARACTERS,
    Language,
)
from gateway.dilem.operations import OperationClass
from gateway.dilem.policy import BODY_SECONDS, REMEMBERED, REPORT_RETENTION, RETENTION

FOLDER = Path(__file__).parent
CLIENT_SECONDS = 110
"""How long a client should wait for a decision: the service answers before that."""

_DAY = 24 * 60 * 60


class Locale(Struct, frozen=True, forbid_unknown_fields=True):
    """`name` in the language itself; `thousands` stands between groups of digits."""

    name: str
    thousands: str


class PageWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    description: str
    kicker: str
    lead: str
    skip: str
    contents: str
    languages: str
    example: str
    mcp_card: str
    rest_card: str
    web_card: str


class ConnectWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    address: str
    about: str
    choose: str
    terminal: str
    file: str
    configuration: str
    manual: str


class ReferenceWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    kinds: dict[OperationClass, str]
    arguments: str
    required: str
    optional: str
    answer: str
    input: str
    headers: str
    path: str
    body: str
    no_body: str
    request: str
    response: str
    image: str


class LimitWords(Struct, frozen=True, forbid_unknown_fields=True):
    """What values are held to; `{least}`, `{most}` and `{values}` are put in."""

    default: str
    value: str
    values: str
    pattern: str
    characters: str
    characters_most: str
    items: str
    items_most: str
    each_most: str
    range: str
    least: str
    date: str
    date_time: str


class QuickstartWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    about: str
    session: str
    case: str


class SessionWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    token: str
    case: str


class LifeWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    steps: tuple[str, str, str, str]
    agent: str


class ParameterWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    total: str


class ResponseWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    clarification_title: str
    clarification: str
    result_title: str
    result: str
    error_title: str
    error: str


class FeedbackWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    card_title: str
    card: str
    vote_title: str
    vote: str
    report_title: str
    report: str


class CreditWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    covers: str
    ask: str
    policy: str


class ErrorWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    about: str
    lost: str
    code: str
    again: str
    yes: str
    no: str
    meaning: str


class BrowserWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    now: str
    later: str


class TechnicalWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    about: str
    guide: str
    kept: str
    privacy: str
    contact: str


class PrivacySection(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    text: tuple[str, ...]


class PrivacyWords(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    description: str
    kicker: str
    lead: str
    sections: tuple[PrivacySection, ...]


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """All that Dilem says in one language.

    Attributes:
        tools: What each operation is for.
        fields: What each member means, by `Struct.member`, or by the member alone where it means the same everywhere.
        codes: What each error code means.

    """

    locale: Locale
    page: PageWords
    connect: ConnectWords
    reference: ReferenceWords
    limits: LimitWords
    quickstart: QuickstartWords
    session: SessionWords
    life: LifeWords
    parameters: ParameterWords
    responses: ResponseWords
    feedback: FeedbackWords
    credits: CreditWords
    errors: ErrorWords
    browser: BrowserWords
    technical: TechnicalWords
    privacy: PrivacyWords
    tools: dict[str, str]
    fields: dict[str, str]
    codes: dict[str, str]

    def number(self, value: int) -> str:
        """Give a number as the language writes it."""
        return f"{value:,}".replace(",", self.locale.thousands)

    def meaning(self, owner: str, name: str) -> str:
        """Say what a member means.

        Raises:
            KeyError: The catalogue lacks it.

        """
        return self.fields.get(f"{owner}.{name}") or self.fields[name]

    def limits_of(self, field: Field) -> str:
        """Say what a member's values are held to, patterns apart."""
        schema, said = field.schema, self.limits
        parts = [
            self._bounds(schema, ("minLength", "maxLength"), said.characters, said.characters_most),
            self._bounds(schema, ("minItems", "maxItems"), said.items, said.items_most),
            self._bounds(schema.get("items", {}), ("minLength", "maxLength"), said.each_most, said.each_most),
            self._range(schema),
            said.values.format(values=", ".join(f"`{value}`" for value in field.values))
            if field.values
            else "",
            {"date": said.date, "date-time": said.date_time}.get(schema.get("format", ""), ""),
        ]
        if not isinstance(field.default, msgspec.UnsetType):
            parts.append(said.default.format(value=f"`{as_json(field.default)}`"))
        if "const" in schema:
            parts.append(said.value.format(value=f"`{as_json(schema['const'])}`"))
        return " · ".join(part for part in parts if part)

    def _bounds(self, schema: Mapping[str, Any], names: tuple[str, str], both: str, most: str) -> str:
        least, top = (schema.get(name) for name in names)
        if top is None:
            return ""
        said = most if least is None else both
        return said.format(least=self.number(least or 0), most=self.number(top))

    def _range(self, schema: Mapping[str, Any]) -> str:
        least, most = schema.get("minimum"), schema.get("maximum")
        if least is None:
            return ""
        said = self.limits.least if most is None else self.limits.range
        return said.format(least=least, most=most)


@cache
def words_in(language: Language) -> Words:
    """Read a language's catalogue.

    Raises:
        msgspec.ValidationError: It lacks an entry, or has one too many.
        KeyError: It names a number that isn't known.

    """
    said = tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    thousands = said["locale"]["thousands"]
    numbers = {name: f"{value:,}".replace(",", thousands) for name, value in _numbers().items()}
    filled = {name: table if name == "limits" else _filled(table, numbers) for name, table in said.items()}
    return msgspec.convert(filled, Words)


def _numbers() -> dict[str, int]:
    """The numbers that prose may name, as `{name}`: what the contract fixes, never what an operator decides."""
    return {
        "client_seconds": CLIENT_SECONDS,
        "session_days": SESSION_SECONDS // _DAY,
        "remembered_days": REMEMBERED.days,
        "retention_days": RETENTION.days,
        "report_days": REPORT_RETENTION.days,
        "total_characters": TOTAL_CHARACTERS,
        "message_least": MINIMUM_MESSAGE_CHARACTERS,
        "message_most": MAXIMUM_MESSAGE_CHARACTERS,
        "body_bytes": BODY_BYTES,
        "body_seconds": int(BODY_SECONDS),
    }


def _filled(value: Any, numbers: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return value.format_map(numbers)
    if isinstance(value, list):
        return [_filled(item, numbers) for item in value]
    return {name: _filled(item, numbers) for name, item in value.items()}
