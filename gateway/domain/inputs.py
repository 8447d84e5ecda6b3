"""What operators type, on the command line or in the panel, read and checked: each reader gives the value, or raises a
`ValueError` that says what is taken instead.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from gateway.domain.catalog import BrainFallback, Fallback, ModelFallback, parse_fallback
from gateway.domain.knowledge import MAX_DOCUMENT_NAME, unfit_name
from gateway.domain.money import micros, parse_dollars
from gateway.domain.notices import check_notice_url
from gateway.domain.tenants import PROJECT_NAME, Permission

NAME_CHARACTERS = 128
"""Labels, names of Pepper models and of providers' models."""
TEXT_CHARACTERS = 2_000
"""Descriptions and news."""
MAX_PER_HOUR = 1_000_000
MAX_DOMAINS = 100
DEFAULT = "default"
"""The word for "none of its own" where a name is expected."""
NOWHERE = "none"
"""The word for no address at all."""
AS_THE_FILE = "file"
"""The word for a recipe's switch that no operator has set."""

_DOLLARS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_KEY_ID = re.compile(r"[1-9][0-9]{0,17}")
_WHOLE = re.compile(r"[0-9]{1,10}")
_HOST = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+(?!\d+\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
)
_AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")
"""Sharp s, final sigma and the joiners: two versions of the standard encode them differently."""


def read_project(text: str) -> str:
    """Read a project's name."""
    if not PROJECT_NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a project name: up to 63 lower-case letters, digits, - and _, a letter or digit first"
        )
    return text


def read_permissions(text: str) -> frozenset[Permission]:
    """Read permissions between commas; nothing means none."""
    names = _items(text)
    unknown = sorted(set(names) - set(Permission))
    if unknown:
        raise ValueError(
            f"there is no permission {unknown[0]!r}: takes {', '.join(Permission)}, or '' for none"
        )
    return frozenset(map(Permission, names))


def read_per_hour(text: str) -> int:
    """Read a number of calls."""
    if not _WHOLE.fullmatch(text.strip()) or int(text) > MAX_PER_HOUR:
        raise ValueError(f"takes a whole number from 0 to {MAX_PER_HOUR}")
    return int(text)


def read_key_id(text: str) -> int:
    """Read a key's number."""
    if not _KEY_ID.fullmatch(text):
        raise ValueError("takes the number that pepper key list shows")
    return int(text)


def read_document_id(text: str) -> int:
    """Read a document's number."""
    if not _KEY_ID.fullmatch(text):
        raise ValueError("takes the number that pepper knowledge list shows")
    return int(text)


def read_document_name(text: str) -> str:
    """Read a document's name, as partners give it."""
    name = text.strip()
    try:
        name.encode()
    except UnicodeEncodeError:
        name = ""
    if not 1 <= len(name) <= MAX_DOCUMENT_NAME:
        raise ValueError(f"takes 1 to {MAX_DOCUMENT_NAME} characters")
    if unfit_name(name):
        raise ValueError("takes no control characters, and none that turn the direction of writing around")
    return name


def read_budget(text: str) -> int | None:
    """Read a daily cap as micro-dollars; `none` is no cap."""
    return (
        None if text.strip() == "none" else micros(_dollars(text, "takes US dollars such as 12.50, or none"))
    )


def read_price(text: str) -> Decimal:
    """Read US dollars per million tokens."""
    amount = _dollars(text, "takes US dollars per million tokens, such as 2.50")
    if amount > MAX_PER_HOUR:
        raise ValueError("takes US dollars per million tokens, at most 1000000")
    return amount


def _dollars(text: str, takes: str) -> Decimal:
    # More than a number is refused here: 1e3, 1_000, other alphabets' digits.
    if not _DOLLARS.fullmatch(text.strip()):
        raise ValueError(takes)
    return parse_dollars(text)


def read_domains(text: str) -> tuple[str, ...]:
    """Read web domains between commas; nothing means any."""
    domains = tuple(_domain(item) for item in _items(text))
    if len(set(domains)) < len(domains):
        raise ValueError("names a domain twice")
    if len(domains) > MAX_DOMAINS:
        raise ValueError(f"takes at most {MAX_DOMAINS} domains")
    return domains


def _domain(text: str) -> str:
    name = text.lower()
    if not name.isascii() and not _AMBIGUOUS.intersection(name):
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            name = ""
    if not _HOST.fullmatch(name):
        hint = "" if text.isascii() else ", or its xn-- form"
        raise ValueError(
            f"{text!r} is not a domain: takes host names such as esempio.it{hint}, without https:// or a path"
        )
    return name


def read_notice_url(text: str) -> str | None:
    """Read where notices go; `none` is nowhere."""
    address = text.strip()
    return None if address == NOWHERE else check_notice_url(address)


def read_name(text: str) -> str:
    """Read a name or label: printable, of one line."""
    return _line(text, NAME_CHARACTERS, blank=False)


def read_label(text: str) -> str:
    """Read a label, which may be empty."""
    return _line(text, NAME_CHARACTERS, blank=True)


def read_text(text: str) -> str:
    """Read a sentence or several, which may be empty."""
    return _line(text, TEXT_CHARACTERS, blank=True)


def read_model_choice(text: str) -> str | None:
    """Read the name of a project's Pepper model; `default` is none of its own."""
    name = read_name(text)
    return None if name == DEFAULT else name


def read_switch(text: str) -> bool | None:
    """Read `on` or `off`; `file` is as the recipe's file says."""
    words: dict[str, bool | None] = {"on": True, "off": False, AS_THE_FILE: None}
    if text not in words:
        raise ValueError(f"takes {', '.join(words)}")
    return words[text]


def read_fallback(text: str) -> Fallback:
    """Read `none`, `model:ID` or `pepper:NAME` (also with the name in quotes)."""
    takes = "takes none, model:ID (such as model:claude-haiku-4-5) or pepper:NAME (such as 'pepper:Pepper 6')"
    try:
        found = parse_fallback(text.strip())
        match found:
            case BrainFallback(name):
                return BrainFallback(read_name(name.strip('"')))
            case ModelFallback(model):
                return ModelFallback(read_name(model))
    except ValueError:
        raise ValueError(takes) from None
    return found


def _line(text: str, longest: int, *, blank: bool) -> str:
    line = unicodedata.normalize("NFC", text.strip())
    if not line.isprintable() or len(line) > longest or not (line or blank):
        least = 0 if blank else 1
        raise ValueError(f"takes {least} to {longest} printable characters, on one line")
    return line


def _items(text: str) -> list[str]:
    items = [item.strip() for item in text.split(",")] if text.strip() else []
    if "" in items:
        raise ValueError("has nothing between two commas")
    if len(set(items)) < len(items):
        raise ValueError("names something twice")
    return items
