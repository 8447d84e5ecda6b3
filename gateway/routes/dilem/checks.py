"""What a request's headers must be, each check in one place: REST and MCP ask the same questions."""

from __future__ import annotations

import re

from gateway.dilem import errors
from gateway.dilem.errors import DilemFailure
from gateway.dilem.operations import CASE_HEADER
from gateway.routes.exchange import Exchange

_ORIGIN = re.compile(
    r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(?::([0-9]{1,5}))?", re.IGNORECASE
)
_BEARER = re.compile(r"bearer +(.*)", re.IGNORECASE)
_CASE_ID = re.compile(r"[a-zA-Z0-9_-]{1,80}")
_CHARSETS = frozenset({"utf-8", "utf8"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def require_no_cookies(exchange: Exchange) -> None:
    """Refuse any cookie, whoever's: 403 `cookies_forbidden`."""
    if any(value.strip() for value in exchange.header_values(b"cookie")):
        raise DilemFailure(errors.COOKIES_FORBIDDEN)


def require_origin(exchange: Exchange, base_url: str) -> None:
    """Refuse requests that pages of other origins make: 403 `origin_rejected`. Who sends no Origin is no page."""
    if is_foreign(exchange, base_url):
        raise DilemFailure(errors.ORIGIN_REJECTED)


def is_foreign(exchange: Exchange, base_url: str) -> bool:
    """Whether a request says that it comes from another origin, or not clearly from this one."""
    origins = exchange.header_values(b"origin")
    if not origins:
        return False
    return len(origins) > 1 or _origin(origins[0]) is None or _origin(origins[0]) != _origin(base_url)


def bearer_token(exchange: Exchange) -> str | None:
    """Give the session's token: None without a header, '' when it isn't one `Bearer` header."""
    values = exchange.header_values(b"authorization")
    if not values:
        return None
    found = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    return "" if found is None else found[1]


def case_of(exchange: Exchange) -> str | None:
    """Give the Case-ID, if there is one.

    Raises:
        DilemFailure: 422 `case_id_invalid`, or `case_id_required` when it is empty.

    """
    values = exchange.header_values(CASE_HEADER.lower().encode())
    if not values:
        return None
    if values == [""]:
        raise DilemFailure(errors.CASE_ID_REQUIRED)
    if len(values) > 1 or not _CASE_ID.fullmatch(values[0]):
        raise DilemFailure(errors.CASE_ID_INVALID)
    return values[0]


def required_case(exchange: Exchange) -> str:
    """Give the Case-ID: 422 as `case_of`, and without one."""
    case_id = case_of(exchange)
    if case_id is None:
        raise DilemFailure(errors.CASE_ID_REQUIRED)
    return case_id


def is_json(exchange: Exchange) -> bool:
    """Whether the one media type is `application/json`, in UTF-8."""
    values = exchange.header_values(b"content-type")
    if len(values) != 1:
        return False
    kind, *parameters = values[0].split(";")
    if kind.strip().lower() != "application/json":
        return False
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _CHARSETS:
            return False
    return True


def is_encoded(exchange: Exchange) -> bool:
    """Whether the body is coded in any way."""
    codings = ",".join(exchange.header_values(b"content-encoding")).split(",")
    return any(coding.strip().lower() not in {"", "identity"} for coding in codings)


def _origin(text: str) -> tuple[str, str, int | None] | None:
    """Take an origin apart; None when it is none (`null`, a path, a user)."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    scheme, host = found[1].lower(), found[2].lower()
    return scheme, host, int(found[3]) if found[3] else _DEFAULT_PORTS.get(scheme)
