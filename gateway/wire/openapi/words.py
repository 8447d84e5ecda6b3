"""How a struct of the wire is told to partners: its name, what it is, a sentence and the bounds of each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The words about one struct.

    Attributes:
        name: Of the schema, in Italian as all names of the wire.
        fields: A sentence about each field, by its name on the wire.
        bounds: What a value may be beyond its type, as JSON Schema, by the field's name.
        rules: What holds between fields, as JSON Schema.
        reply: Pepper tells it, rather than reads it.

    """

    name: str
    about: str
    fields: Mapping[str, str] = {}
    bounds: Mapping[str, Mapping[str, Any]] = {}
    rules: Mapping[str, Any] = {}
    reply: bool = True


NOT_BLANK = {"minLength": 1, "pattern": r"\S"}
NUMBER = {"pattern": "^prt_[0-9a-f]{12}$"}
REQUEST_ID = {"pattern": "^req_[0-9a-f]{27}$"}
DATE = {"pattern": r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$"}

OK = "Sempre `true`."
BRAIN = "Il modello Pepper che ha risposto, per esempio «Pepper 6»: il nome da mostrare alle persone."
MODEL = "Il nome del modello presso il provider."
