"""Coming in and going out: password, second factor, set-up links, the brakes on guessing."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import pyotp
from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.core import Office
from gateway.domain.operators import MAXIMUM_PASSWORD, MINIMUM_PASSWORD, Account, normal_email
from gateway.domain.tenants import Operator
from gateway.routes.panel.brakes import Brakes
from gateway.routes.panel.forms import Form, read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import (
    FORM_COOKIE,
    LANGUAGE_COOKIE,
    LANGUAGES,
    SESSION_COOKIE,
    THEME_COOKIE,
    THEMES,
    visitor_of,
)
from gateway.storage.operators import Credentials
from gateway.storage.passwords import hash_password, password_fits
from gateway.storage.refusals import DuplicateError
from gateway.storage.sealing import SealBrokenError

HOME = "/panel"
TOTP_SEAL = "operator-totp"
TOTP_SECONDS = 30
TOTP_WINDOW = (0, -1, 1)
MAX_BODY = 64 * 1024
"""Bytes of a form that anybody may send."""
PREFERENCE_SECONDS = 365 * 24 * 3600
NOBODY_YET = "@localhost"
"""The first owner's address until the set-up page is told the real one."""

AnyRequest = Request[Any, Any, Any]

log = logging.getLogger(__name__)


def login_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    return [*_in_and_out(office, pages), *_set_up(office, pages), *_preferences()]


def _in_and_out(office: Office, pages: Pages) -> list[Any]:
    desk, brakes = _LoginDesk(office), Brakes(office)

    @get("/login", opt={"role": None})
    async def show_login(request: AnyRequest) -> Response[bytes]:
        if visitor_of(request).session is not None:
            return go(HOME)
        return pages.page(
            request, "login.html", {"email": "", "next": _safe(request.query_params.get("next"))}
        )

    @post("/login", opt={"role": None}, request_max_body_size=MAX_BODY)
    async def log_in(request: AnyRequest) -> Response[bytes]:
        form, visitor = await read_form(request), visitor_of(request)
        wanted = _safe(form.text("next"))
        email = form.text("email")
        shown = {"email": email, "next": wanted}
        attempt = await brakes.begin(email, visitor.address)
        if attempt is None:
            log.warning("the panel's login is braked", extra={"address": visitor.address})
            context = {**shown, "error": pages.words(request)("login.slow")}
            return pages.page(request, "login.html", context, status=429)
        account = await desk.identified(email, form)
        if account is None:
            log.warning("the panel's login was refused", extra={"address": visitor.address})
            context = {**shown, "error": pages.words(request)("login.wrong")}
            return pages.page(request, "login.html", context, status=403)
        await brakes.succeeded(attempt)
        if visitor.session is not None:
            await office.sessions.end(visitor.session.token)
        session = await office.sessions.begin(account, office.now())
        await office.operators.note_login(account.id, office.now())
        gone = visitor.cookie(FORM_COOKIE, "", seconds=0)
        return go(wanted, cookies=[visitor.session_cookie(session), gone])

    @post("/logout", opt={"role": None}, request_max_body_size=MAX_BODY)
    async def log_out(request: AnyRequest) -> Response[bytes]:
        visitor = visitor_of(request)
        if visitor.session is not None:
            await office.sessions.end(visitor.session.token)
        return go("/panel/login", cookies=[visitor.cookie(SESSION_COOKIE, "", seconds=0)])

    return [show_login, log_in, log_out]


def _set_up(office: Office, pages: Pages) -> list[Any]:
    @get("/set-up/{token:str}", opt={"role": None})
    async def show_set_up(request: AnyRequest, token: FromPath[str]) -> Response[bytes]:
        account = await office.operators.link_account(token, office.now())
        if account is None:
            return pages.page(request, "set-up-gone.html", status=404)
        return pages.page(request, "set-up.html", _set_up_context(account))

    @post("/set-up/{token:str}", opt={"role": None}, request_max_body_size=MAX_BODY)
    async def set_up(request: AnyRequest, token: FromPath[str]) -> Response[bytes]:
        form, visitor, words = await read_form(request), visitor_of(request), pages.words(request)
        account = await office.operators.link_account(token, office.now())
        if account is None:
            return pages.page(request, "set-up-gone.html", status=404)
        nameless = account.email.endswith(NOBODY_YET)
        email = normal_email(form.text("email")) if nameless else account.email
        problem = "login.email_wrong" if email is None else password_problem(form)
        if problem is None and email is not None:
            hashed = await hash_password(form.secret("password"))
            try:
                account = await office.operators.use_link(
                    token, hashed, Operator(email), office.now(), email=email
                )
            except DuplicateError:
                problem = "login.email_taken"
        if problem is not None:
            context = {**_set_up_context(account, form.text("email")), "error": words(problem)}
            return pages.page(request, "set-up.html", context, status=400)
        if account is None:
            return pages.page(request, "set-up-gone.html", status=404)
        if account.has_totp:  # the link stands for the password, not for the second factor
            return go("/panel/login", done="password")
        session = await office.sessions.begin(account, office.now())
        await office.operators.note_login(account.id, office.now())
        return go(HOME, done="welcome", cookies=[visitor.session_cookie(session)])

    return [show_set_up, set_up]


def _preferences() -> list[Any]:
    @post("/preferences", opt={"role": None}, request_max_body_size=MAX_BODY)
    async def set_preferences(request: AnyRequest) -> Response[bytes]:
        form, visitor = await read_form(request), visitor_of(request)
        cookies = []
        if (language := form.text("language")) in LANGUAGES:
            cookies.append(visitor.cookie(LANGUAGE_COOKIE, language, seconds=PREFERENCE_SECONDS))
        if (theme := form.text("theme")) in THEMES:
            cookies.append(visitor.cookie(THEME_COOKIE, theme, seconds=PREFERENCE_SECONDS))
        return go(_safe(form.text("next")), cookies=cookies)

    return [set_preferences]


class _LoginDesk:
    """Judges who wants to come in."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def identified(self, email: str, form: Form) -> Account | None:
        """The account whose password and second factor were given; None for anything else."""
        normal = normal_email(email)
        found = await self._office.operators.credentials(normal) if normal else None
        password = form.secret("password")[:MAXIMUM_PASSWORD]
        fits = await password_fits(found.password if found else None, password)
        if found is not None and fits and found.account.active and await self._second_factor(found, form):
            return found.account
        return None

    async def _second_factor(self, found: Credentials, form: Form) -> bool:
        if found.totp is None:
            return True
        code = form.text("code").replace(" ", "").lower()
        if not code:
            return False
        step = self._step(found, code)
        if step is not None:
            return await self._office.operators.use_totp_step(found.account.id, step)
        return await self._office.operators.use_recovery(found.account.id, recovery_digest(code))

    def _step(self, found: Credentials, code: str) -> int | None:
        """The time step that a code of the second factor belongs to."""
        try:
            totp = pyotp.TOTP(self._office.seal.open(TOTP_SEAL, found.totp or b""))
        except SealBrokenError:
            return None
        now = int(self._office.now().timestamp()) // TOTP_SECONDS
        for shift in TOTP_WINDOW:
            if pyotp.utils.strings_equal(totp.generate_otp(now + shift), code):
                return now + shift
        return None


def password_problem(form: Form) -> str | None:
    """Why a chosen password can't be taken, as a key of the messages."""
    password = form.secret("password")
    if len(password) < MINIMUM_PASSWORD:
        return "login.password_short"
    if len(password) > MAXIMUM_PASSWORD:
        return "login.password_long"
    if len(set(password)) < 4:
        return "login.password_simple"
    if password != form.secret("again"):
        return "login.password_differs"
    return None


def recovery_digest(code: str) -> str:
    """What is kept of a recovery code."""
    return hashlib.sha256(b"pepper recovery\0" + code.replace("-", "").encode()).hexdigest()


def _set_up_context(account: Account | None, email: str = "") -> dict[str, object]:
    known = "" if account is None or account.email.endswith(NOBODY_YET) else account.email
    return {"known": known, "email": email or known, "minimum": MINIMUM_PASSWORD}


def _safe(path: str | None) -> str:
    """A page of the panel to go to; anything else is its first page."""
    if (
        path
        and (path == HOME or path.startswith(f"{HOME}/"))
        and path.isascii()
        and path.isprintable()
        and "\\" not in path
    ):
        return path
    return HOME
