"""Pages made from templates, with the headers that keep a browser from doing anything that the panel did not ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Request, Response
from litestar.datastructures import Cookie

from gateway.domain.calls import Outcome
from gateway.domain.operators import Role
from gateway.domain.tenants import Permission
from gateway.routes.panel.messages import Catalogue, panel_folder, read_messages
from gateway.routes.panel.visitors import FORM_COOKIE, LANGUAGES, Access, visitor_of

HTML = "text/html"
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
MICROS = 1_000_000
OUTCOME_KINDS = {
    Outcome.OK: "good",
    Outcome.CACHE: "good",
    Outcome.REFUSED: "warn",
    Outcome.INTERRUPTED: "warn",
    Outcome.FAILED: "bad",
    Outcome.LOST: "bad",
    Outcome.NOTIFIED: "good",
    Outcome.NOT_NOTIFIED: "warn",
}
"""The colour each outcome is shown in."""


class Pages:
    """Makes the panel's replies."""

    def __init__(self, access: Access, zone: ZoneInfo) -> None:
        folder = panel_folder()
        self._access = access
        self._zone = zone
        self._messages = read_messages(folder / "messages")
        self._environment = Environment(
            loader=FileSystemLoader(folder / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            dollars=dollars,
            local=self.local,
            day=self.day,
            number=number,
            json=as_json,
            pair=lambda text: (text, text),
            wrong=marked_wrong,
            outcome_kind=lambda outcome: OUTCOME_KINDS[outcome],
        )
        self._environment.globals.update(
            Role=Role, Permission=Permission, LANGUAGES=LANGUAGES, asset=assets(folder / "static")
        )

    def words(self, request: Request[Any, Any, Any]) -> Catalogue:
        """The strings in the visitor's language."""
        return Catalogue(self._messages, visitor_of(request).language)

    def page(
        self,
        request: Request[Any, Any, Any],
        template: str,
        context: Mapping[str, Any] | None = None,
        *,
        status: int = 200,
        cookies: Sequence[Cookie] = (),
    ) -> Response[bytes]:
        """Give a page of `panel/templates`. Every template sees `t`, `visitor`, `csrf`, `path`, `done` and `query`."""
        visitor = visitor_of(request)
        words = self.words(request)
        done = request.query_params.get("done", "")
        body = self._environment.get_template(template).render(
            {
                "t": words,
                "visitor": visitor,
                "csrf": self._access.form_token(visitor),
                "path": request.url.path,
                "partial": request.headers.get("hx-request") == "true",
                "done": words(f"done.{done}") if words.has(f"done.{done}") else "",
                "error": "",
                **(context or {}),
            }
        )
        set_cookies = list(cookies)
        if visitor.fresh_form_key and not any(one.key == FORM_COOKIE for one in set_cookies):
            set_cookies.append(visitor.cookie(FORM_COOKIE, visitor.form_key))
        return Response(
            body.encode(),
            status_code=status,
            media_type=HTML,
            headers=SECURITY_HEADERS,
            cookies=set_cookies,
        )

    def local(self, instant: datetime | None) -> str:
        """An instant in the operator's time zone; a dash for none."""
        return "—" if instant is None else instant.astimezone(self._zone).strftime("%d/%m/%Y %H:%M:%S")

    def day(self, instant: datetime | None) -> str:
        """An instant's day in the operator's time zone; a dash for none."""
        return "—" if instant is None else instant.astimezone(self._zone).strftime("%d/%m/%Y")


def go(path: str, *, done: str | None = None, cookies: Sequence[Cookie] = ()) -> Response[bytes]:
    """Send the browser to another page of the panel after a change; `done` names what to say there."""
    where = f"{path}?{urlencode({'done': done})}" if done else path
    return Response(
        b"",
        status_code=303,
        headers={**SECURITY_HEADERS, "location": where},
        cookies=list(cookies),
        media_type=HTML,
    )


def assets(folder: Path) -> Callable[[str], str]:
    """Gives a static file's address, which changes when any of them does: browsers may keep what they have."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    release = digest.hexdigest()[:12]
    return lambda name: f"/panel/static/{name}?v={release}"


def dollars(micros: int | None, digits: int = 4) -> str:
    """Micro-dollars as USD; a dash for none."""
    return "—" if micros is None else f"{micros / MICROS:,.{digits}f} USD"


def number(value: float | None) -> str:
    """A number with thin groups; a dash for none."""
    return "—" if value is None else f"{value:,}".replace(",", "\u202f")


def marked_wrong(more: Mapping[str, Any], field: str, wrong: Sequence[str]) -> dict[str, Any]:
    """The attributes of a field, marked when its value was refused."""
    return {**more, "aria-invalid": "true"} if field in wrong else dict(more)


def as_json(value: object) -> str:
    """JSON for a `data-` attribute (the template escapes it)."""
    return msgspec.json.encode(value).decode()
