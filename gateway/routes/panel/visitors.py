"""Who looks at the panel: the session behind the cookie, the role that an address asks for, the forms' tokens.

Every route names the role it needs in `opt["role"]` (None: everybody); one without is refused at the start.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler

from gateway.domain.addresses import caller_address, is_trusted
from gateway.domain.operators import Account, Role
from gateway.domain.tenants import Operator
from gateway.storage.panel_sessions import ABSOLUTE, Session

if TYPE_CHECKING:
    from litestar import Request

    from gateway.core import Office

SESSION_COOKIE = "pepper_panel"
FORM_COOKIE = "pepper_panel_form"
LANGUAGE_COOKIE = "pepper_panel_lingua"
THEME_COOKIE = "pepper_panel_tema"
COOKIE_PATH = "/panel"
CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SAME_SITE = ("same-origin", "none")
"""What browsers say of a form that no other site has sent; a page of a neighbouring subdomain could plant cookies."""
LANGUAGES = ("it", "en")
THEMES = ("auto", "light", "dark")
STATE = "panel_visitor"


class LoginNeededError(HTTPException):
    """Nobody is logged in: the login page is shown, and afterwards the page that was wanted."""

    status_code = 401


class ForbiddenError(HTTPException):
    """Somebody is logged in whose role is not enough, or a form came without its token."""

    status_code = 403


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody in front of a page.

    Attributes:
        session: None for those who are not logged in.
        form_key: What this visitor's form tokens are made of: the session's or the anonymous cookie's value.
        fresh_form_key: The anonymous cookie must be set: it was not there.
        address: Where from, behind the trusted proxies.
        secure: Came by HTTPS, so that cookies are to stay there.

    """

    session: Session | None
    form_key: str
    fresh_form_key: bool
    address: str
    secure: bool
    language: str
    theme: str

    @property
    def account(self) -> Account:
        """The person. Only where a role was asked for."""
        if self.session is None:
            raise LoginNeededError
        return self.session.account

    @property
    def operator(self) -> Operator:
        """The person, for the audit."""
        return Operator(self.account.email)

    def may(self, role: Role) -> bool:
        """Whether this visitor may do what asks for `role`."""
        return self.session is not None and self.session.account.role.may(role)

    def cookie(self, name: str, value: str, *, seconds: int | None = None) -> Cookie:
        """A cookie of the panel; without `seconds` it ends with the browser, with 0 at once."""
        return Cookie(
            key=name,
            value=value,
            path=COOKIE_PATH,
            httponly=True,
            secure=self.secure,
            samesite="strict",
            max_age=seconds,
        )

    def session_cookie(self, session: Session) -> Cookie:
        """The cookie of a session that has just begun."""
        return self.cookie(SESSION_COOKIE, session.token, seconds=int(ABSOLUTE.total_seconds()))


class Access:
    """The panel's guard and its form tokens."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def guard(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        """Find out who it is, and refuse whose role is not enough.

        Raises:
            LoginNeededError: 401, shown as the login page.
            ForbiddenError: 403.

        """
        visitor = await self._visitor(connection)
        connection.scope["state"][STATE] = visitor
        role: Role | None = handler.opt.get("role")  # the router's own answers to OPTIONS name none
        if role is None:
            return
        if visitor.session is None:
            raise LoginNeededError
        if not visitor.account.role.may(role):
            raise ForbiddenError(detail="role")

    async def check_form(self, request: Request[Any, Any, Any]) -> None:
        """Refuse a form that did not come from a page of ours.

        Raises:
            ForbiddenError: 403.

        """
        if request.method in SAFE_METHODS:
            return
        if request.headers.get("sec-fetch-site", SAME_SITE[0]) not in SAME_SITE:
            raise ForbiddenError(detail="form")
        shown = request.headers.get(CSRF_HEADER)
        if shown is None:
            shown = (await request.form()).get(CSRF_FIELD)
        expected = self.form_token(visitor_of(request))
        if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), expected.encode()):
            raise ForbiddenError(detail="form")

    def form_token(self, visitor: Visitor) -> str:
        """The token of a visitor's forms."""
        return hmac.new(
            self._office.secret, b"pepper panel form\0" + visitor.form_key.encode(), hashlib.sha256
        ).hexdigest()

    def stranger(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Visitor:
        """Whoever it is, told without asking a store: for what is shown where no page is."""
        cookies = connection.cookies
        form_key = cookies.get(SESSION_COOKIE) or cookies.get(FORM_COOKIE, "")
        return self._describe(connection, None, form_key)

    async def _visitor(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Visitor:
        cookies = connection.cookies
        token = cookies.get(SESSION_COOKIE)
        session = await self._office.sessions.find(token, self._office.now()) if token else None
        return self._describe(connection, session, session.token if session else cookies.get(FORM_COOKIE, ""))

    def _describe(
        self, connection: ASGIConnection[Any, Any, Any, Any], session: Session | None, form_key: str
    ) -> Visitor:
        cookies, headers = connection.cookies, connection.headers
        peer, trusted = connection.client.host if connection.client else None, self._office.trusted_proxies
        told = headers.get("x-forwarded-proto", "") if is_trusted(peer, trusted) else ""
        scheme = told.split(",")[0].strip().lower() or connection.scope["scheme"]
        language, theme = cookies.get(LANGUAGE_COOKIE, ""), cookies.get(THEME_COOKIE, "")
        return Visitor(
            session=session,
            form_key=form_key or secrets.token_urlsafe(24),
            fresh_form_key=not form_key,
            address=caller_address(peer, headers.getall("x-forwarded-for", []), trusted),
            secure=scheme == "https",
            language=language if language in LANGUAGES else LANGUAGES[0],
            theme=theme if theme in THEMES else THEMES[0],
        )


def visitor_of(request: ASGIConnection[Any, Any, Any, Any]) -> Visitor:
    """Who the guard found."""
    visitor: Visitor = request.scope["state"][STATE]
    return visitor
