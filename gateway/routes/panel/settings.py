"""Settings that owners change: providers' keys, where alerts go, how long conversations are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.chain.alerting import channels_of
from gateway.core import Office
from gateway.domain.alerts import Channel
from gateway.domain.notices import Delivery, read_public_url
from gateway.domain.operator_settings import (
    LONGEST_CONVERSATION_DAYS,
    KeptKey,
    MailServer,
    PanelSettings,
    Security,
    read_address,
    read_conversation_days,
    read_login,
    read_mail_host,
    read_port,
    read_provider_key,
    read_recipients,
)
from gateway.domain.operators import Role
from gateway.domain.secrets import new_signing_secret
from gateway.routes.panel.forms import Form, read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.operator_settings import opened_keys
from gateway.storage.refusals import RefusalError, UnknownError

SETTINGS = "/panel/settings"
PROVIDERS = {"claude": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
"""And the variable that goes before what is set here."""

AnyRequest = Request[Any, Any, Any]
Value = TypeVar("Value")


class ProviderLine(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a provider's key: never the key."""

    name: str
    variable: str
    given: bool
    kept: KeptKey | None
    opens: bool


class MailForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the mail server's form says, as typed; and which of its fields are wrong."""

    host: str = ""
    port: str = "587"
    security: str = Security.STARTTLS.value
    user: str = ""
    sender: str = ""
    wrong: tuple[str, ...] = ()


def settings_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    shown = _Shown(office, pages)

    @get("/settings", opt={"role": Role.OWNER})
    async def show_settings(request: AnyRequest) -> Response[bytes]:
        return await shown.page(request)

    return [
        show_settings,
        *_keys(office, pages, shown),
        *_alerts(office, pages, shown),
        *_mail(office, pages, shown),
        *_retention(office, pages, shown),
    ]


class _Shown:
    """The page, as it is shown after whatever was done."""

    def __init__(self, office: Office, pages: Pages) -> None:
        self._office = office
        self._pages = pages

    async def page(self, request: AnyRequest, *, status: int = 200, **more: object) -> Response[bytes]:
        """Give the page; `more` is what differs from what is set: an error, what was typed, a new secret."""
        settings = await self._office.settings.read()
        context = {
            "providers": self._providers(settings),
            "settings": settings,
            "recipients": "\n".join(settings.recipients),
            "alert_url": settings.alert_url or "",
            "mail": told(settings.mail),
            "securities": list(Security),
            "days": str(settings.conversation_days),
            "most_days": LONGEST_CONVERSATION_DAYS,
            "told_somehow": bool(channels_of(settings)),
            "tried": (),
            "new_secret": "",
            "wrong": (),
            **more,
        }
        return self._pages.page(request, "settings.html", context, status=status)

    def _providers(self, settings: PanelSettings) -> list[ProviderLine]:
        opened = opened_keys(settings, self._office.seal)
        return [
            ProviderLine(
                name=name,
                variable=variable,
                given=name in self._office.given_keys,
                kept=settings.keys.get(name),
                opens=opened.get(name) is not None,
            )
            for name, variable in PROVIDERS.items()
        ]


def _keys(office: Office, pages: Pages, shown: _Shown) -> list[Any]:
    @post("/settings/keys/{provider:str}", opt={"role": Role.OWNER})
    async def set_key(request: AnyRequest, provider: FromPath[str]) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        if provider not in PROVIDERS:
            raise UnknownError("there is no such provider")
        if form.text("action") == "remove":
            await office.settings.set_key(provider, None, by, office.now())
            return go(SETTINGS, done="saved")
        try:
            key = read_provider_key(form.text("key"))
        except ValueError:
            wrong = (f"key-{provider}",)
            return await shown.page(request, error=words("settings.key_wrong"), wrong=wrong, status=400)
        await office.settings.set_key(provider, key, by, office.now())
        return go(SETTINGS, done="saved")

    return [set_key]


def _alerts(office: Office, pages: Pages, shown: _Shown) -> list[Any]:
    @post("/settings/recipients", opt={"role": Role.OWNER})
    async def set_recipients(request: AnyRequest) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        typed = form.text("recipients")
        try:
            recipients = read_recipients(typed)
        except ValueError:
            more = {
                "error": words("settings.recipients_wrong"),
                "recipients": typed,
                "wrong": ("recipients",),
            }
            return await shown.page(request, status=400, **more)
        await office.settings.set_recipients(recipients, by, office.now())
        return go(SETTINGS, done="saved")

    @post("/settings/webhook", opt={"role": Role.OWNER})
    async def set_webhook(request: AnyRequest) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        if form.text("action") == "remove":
            await office.settings.set_alert_url(None, "", by, office.now())
            return go(SETTINGS, done="saved")
        typed = form.text("url")
        try:
            url = read_public_url(typed, private=office.private_addresses)
        except ValueError:
            more = {"error": words("settings.url_wrong"), "alert_url": typed, "wrong": ("url",)}
            return await shown.page(request, status=400, **more)
        secret = new_signing_secret()
        await office.settings.set_alert_url(url, secret, by, office.now())
        return await shown.page(request, new_secret=secret)

    @post("/settings/test", opt={"role": Role.OWNER})
    async def try_out(request: AnyRequest) -> Response[bytes]:
        words, by = pages.words(request), visitor_of(request).operator
        settings = await office.settings.read()
        if not channels_of(settings):
            return await shown.page(request, error=words("settings.nowhere"), status=409)
        await office.audit.note(by, office.now(), "alerts.test", "alerts", "")
        return await shown.page(request, tried=_lines(await office.alerting.try_out(settings)))

    return [set_recipients, set_webhook, try_out]


def _mail(office: Office, pages: Pages, shown: _Shown) -> list[Any]:
    @post("/settings/mail", opt={"role": Role.OWNER})
    async def set_mail(request: AnyRequest) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        if form.text("action") == "remove":
            await office.settings.set_mail(None, by, office.now())
            return go(SETTINGS, done="saved")
        typed, server, password = read_mail(form)
        if server is None:
            return await shown.page(request, error=words("settings.mail_wrong"), mail=typed, status=400)
        if server.user and server.security is Security.NONE:
            return await shown.page(request, error=words("settings.mail_open"), mail=typed, status=400)
        try:
            await office.settings.set_mail(server, by, office.now(), password=password or msgspec.UNSET)
        except RefusalError:
            return await shown.page(request, error=words("settings.mail_again"), mail=typed, status=400)
        return go(SETTINGS, done="saved")

    return [set_mail]


def _retention(office: Office, pages: Pages, shown: _Shown) -> list[Any]:
    @post("/settings/retention", opt={"role": Role.OWNER})
    async def set_retention(request: AnyRequest) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        typed = form.text("days")
        try:
            days = read_conversation_days(typed)
        except ValueError:
            error = words("settings.days_wrong", most=LONGEST_CONVERSATION_DAYS)
            return await shown.page(request, error=error, days=typed, wrong=("days",), status=400)
        await office.settings.set_conversation_days(days, by, office.now())
        return go(SETTINGS, done="saved")

    return [set_retention]


def read_mail(form: Form) -> tuple[MailForm, MailServer | None, str]:
    """Read the mail server's form: as typed, with the names of wrong fields; as a server, unless there are any; its password."""
    wrong: list[str] = []

    def read(field: str, reader: Callable[[str], Value]) -> Value | None:
        try:
            return reader(form.text(field))
        except ValueError:
            wrong.append(field)
            return None

    password = form.secret("password")
    host, port, user = read("host", read_mail_host), read("port", read_port), read("user", read_login)
    sender, security = read("sender", read_address), read("security", Security)
    try:
        read_login(password)
    except ValueError:
        wrong.append("password")
    typed = MailForm(
        host=form.text("host"),
        port=form.text("port"),
        security=form.text("security"),
        user=form.text("user"),
        sender=form.text("sender"),
        wrong=tuple(wrong),
    )
    if wrong or host is None or port is None or user is None or sender is None or security is None:
        return typed, None, password
    return typed, MailServer(host=host, port=port, security=security, user=user, sender=sender), password


def told(server: MailServer | None) -> MailForm:
    """A mail server as its form shows it."""
    if server is None:
        return MailForm()
    return MailForm(
        host=server.host,
        port=str(server.port),
        security=server.security.value,
        user=server.user,
        sender=server.sender,
    )


def _lines(deliveries: Mapping[Channel, Delivery]) -> tuple[tuple[str, Delivery], ...]:
    return tuple((channel.value, delivery) for channel, delivery in deliveries.items())
