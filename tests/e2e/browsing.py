"""The panel in a real browser: Debian's Chromium, driven by Playwright; what its pages complain of, what axe finds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Response,
    async_playwright,
)

from tests.e2e.harness import REPOSITORY, Gateway
from tests.e2e.panel import PASSWORD
from tests.services import missing, require

AXE = REPOSITORY / "panel" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = {"serious", "critical"}


class Look(NamedTuple):
    """How a page is looked at."""

    name: str
    width: int
    height: int
    theme: str


DESK_LIGHT = Look("light", 1280, 900, "light")
DESK_DARK = Look("dark", 1280, 900, "dark")
PHONE = Look("phone", 390, 844, "light")


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """Chromium; without it the asking test is left out."""
    chromium = require("chromium")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


class Visitor:
    """A page, and everything it complained of since it was asked last."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("response", self._response)
        page.on("dialog", self._dialog)
        self.agreed = False
        """Whether the next question of the panel is answered with yes; any other dialog is a complaint."""

    async def go(self, path: str) -> None:
        await self.page.goto(self.address + path)

    async def login(self, email: str) -> None:
        await self.go("/panel/login")
        await self.page.fill("#f-email", email)
        await self.page.fill("#f-password", PASSWORD)
        await self.page.click(".main-button")
        await self.page.wait_for_url(self.address + "/panel")

    def content(self) -> None:
        """Fails if the page complained."""
        assert self.complaints == [], self.page.url
        self.complaints.clear()

    async def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(
            await self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    async def grave_faults(self) -> list[str]:
        """What axe finds in the page that keeps somebody out."""
        await self.page.evaluate(axe())
        found: Mapping[str, Any] = await self.page.evaluate(
            "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES
        )
        return [
            f"{fault['id']}: {fault['help']}: {node['html'][:200]}"
            for fault in found["violations"]
            if fault["impact"] in GRAVE
            for node in fault["nodes"]
        ]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.url}")

    async def _dialog(self, dialog: Dialog) -> None:
        if dialog.type == "confirm" and self.agreed:
            self.agreed = False
            await dialog.accept()
        else:
            self.complaints.append(f"{dialog.type}: {dialog.message}")
            await dialog.dismiss()


@asynccontextmanager
async def visitor(
    browser: Browser, gateway: Gateway, look: Look = DESK_LIGHT, *, scripts: bool = True
) -> AsyncIterator[Visitor]:
    """Somebody new, with a window like this."""
    context: BrowserContext = await browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme="dark" if look.theme == "dark" else "light",
        java_script_enabled=scripts,
        locale="it-IT",
        reduced_motion="reduce",
    )
    try:
        yield Visitor(await context.new_page(), gateway.address)
    finally:
        await context.close()


def axe() -> str:
    """The program that looks for what keeps people out. Without it the asking test is left out."""
    if not AXE.is_file():
        missing("axe-core", f"python {Path('deploy') / 'assets.py'} --dev")
    return AXE.read_text(encoding="utf-8")
