"""One's own account: password and second factor."""

from __future__ import annotations

import secrets
from typing import Any

import pyotp
import segno
from litestar import Request, Response, get, post

from gateway.core import Office
from gateway.domain.operators import MAXIMUM_PASSWORD, MINIMUM_PASSWORD, Role
from gateway.routes.panel.brakes import Brakes
from gateway.routes.panel.forms import Form, read_form
from gateway.routes.panel.login import TOTP_SEAL, TOTP_SECONDS, TOTP_WINDOW, password_problem, recovery_digest
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.passwords import hash_password, password_fits

ACCOUNT = "/panel/account"
RECOVERY_CODES = 8
ISSUER = "Pepper"

AnyRequest = Request[Any, Any, Any]


def account_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    brakes = Brakes(office)

    async def refused(request: AnyRequest, form: Form) -> Response[bytes] | None:
        """The page that says the current password is not the one; None when it is. Whoever stole a session guesses no faster
        than at the login.
        """
        visitor, words = visitor_of(request), pages.words(request)
        attempt = await brakes.begin(visitor.account.email, visitor.address)
        if attempt is None:
            return show(request, error=words("login.slow"), status=429)
        credentials = await office.operators.credentials_of(visitor.account.id)
        if not await password_fits(credentials.password, form.secret("current")[:MAXIMUM_PASSWORD]):
            return show(request, error=words("account.password_wrong"), status=403)
        await brakes.succeeded(attempt)
        return None

    def show(request: AnyRequest, *, error: str = "", status: int = 200, **more: object) -> Response[bytes]:
        context = {"error": error, "minimum": MINIMUM_PASSWORD, "totp": None, "codes": (), **more}
        return pages.page(request, "account.html", context, status=status)

    @get("/account", opt={"role": Role.VIEWER})
    async def show_account(request: AnyRequest) -> Response[bytes]:
        return show(request)

    @post("/account/password", opt={"role": Role.VIEWER})
    async def change_password(request: AnyRequest) -> Response[bytes]:
        form, visitor, words = await read_form(request), visitor_of(request), pages.words(request)
        if (refusal := await refused(request, form)) is not None:
            return refusal
        if (problem := password_problem(form)) is not None:
            return show(request, error=words(problem), status=400)
        hashed = await hash_password(form.secret("password"))
        account = await office.operators.set_password(
            visitor.account.id, hashed, visitor.operator, office.now()
        )
        session = await office.sessions.begin(account, office.now())
        return go(ACCOUNT, done="password", cookies=[visitor.session_cookie(session)])

    @post("/account/totp", opt={"role": Role.VIEWER})
    async def offer_totp(request: AnyRequest) -> Response[bytes]:
        form = await read_form(request)
        if (refusal := await refused(request, form)) is not None:
            return refusal
        return show(request, totp=_offer(visitor_of(request).account.email, pyotp.random_base32()))

    @post("/account/totp/confirm", opt={"role": Role.VIEWER})
    async def begin_totp(request: AnyRequest) -> Response[bytes]:
        form, visitor, words = await read_form(request), visitor_of(request), pages.words(request)
        if (refusal := await refused(request, form)) is not None:
            return refusal
        secret, code = form.text("secret"), form.text("code").replace(" ", "")
        step = _step_of(secret, code, int(office.now().timestamp()))
        if step is None:
            offer = _offer(visitor.account.email, secret) if _is_secret(secret) else None
            return show(request, error=words("account.code_wrong"), totp=offer, status=400)
        codes = tuple(f"{secrets.token_hex(3)}-{secrets.token_hex(3)}" for _ in range(RECOVERY_CODES))
        sealed = office.seal.close(TOTP_SEAL, secret)
        digests = [recovery_digest(one) for one in codes]
        await office.operators.set_totp(
            visitor.account.id, sealed, digests, visitor.operator, office.now(), step=step
        )
        if visitor.session is not None:  # the others had no second factor
            await office.sessions.end_others(visitor.session)
        return show(request, codes=codes, status=200)

    @post("/account/totp/end", opt={"role": Role.VIEWER})
    async def end_totp(request: AnyRequest) -> Response[bytes]:
        form, visitor = await read_form(request), visitor_of(request)
        if (refusal := await refused(request, form)) is not None:
            return refusal
        await office.operators.set_totp(visitor.account.id, None, (), visitor.operator, office.now())
        return go(ACCOUNT, done="saved")

    return [show_account, change_password, offer_totp, begin_totp, end_totp]


def _offer(email: str, secret: str) -> dict[str, str]:
    """What an authenticator app is shown; nothing is kept until a code of it has come back."""
    address = pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=ISSUER)
    return {"secret": secret, "picture": segno.make(address, micro=False).svg_data_uri(scale=5, border=2)}


def _is_secret(text: str) -> bool:
    return len(text) == 32 and set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def _step_of(secret: str, code: str, now: int) -> int | None:
    """The time step that a code belongs to; it counts as used, so that the code is good for this once."""
    if not _is_secret(secret):
        return None
    totp = pyotp.TOTP(secret)
    steps = (now // TOTP_SECONDS + shift for shift in TOTP_WINDOW)
    return next((step for step in steps if pyotp.utils.strings_equal(totp.generate_otp(step), code)), None)
