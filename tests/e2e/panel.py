"""The panel as a browser without JavaScript sees it: cookies, pages, forms with their tokens."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx
from markupsafe import escape
from typing_extensions import override

from gateway.domain.operators import Role
from gateway.storage.operators import Operators
from gateway.storage.passwords import hash_password
from gateway.storage.refusals import DuplicateError
from tests.e2e.desk import TESTER
from tests.e2e.harness import Gateway

PASSWORD = "una password lunga 1"
_hashes: list[str] = []
_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


class Visit:
    """Somebody in front of the panel."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(path)

    async def post(
        self, path: str, fields: Mapping[str, Any] | None = None, *, page: str | None = None, **more: Any
    ) -> httpx.Response:
        """Send a form as the page at `page` (or a page that everybody has) would."""
        token = await self.token(page or "/panel/login")
        return await self.client.post(path, data={"csrf": token, **(fields or {})}, **more)

    async def token(self, page: str) -> str:
        """The token of a page's forms."""
        shown = await self.client.get(page, follow_redirects=True)
        found = _TOKEN.search(shown.text)
        assert found is not None, shown.text[:2000]
        return found[1]

    async def login(self, email: str, password: str = PASSWORD, code: str = "") -> httpx.Response:
        return await self.post("/panel/login", {"email": email, "password": password, "code": code})


def add_person(gateway: Gateway, email: str, role: str = "owner", password: str = PASSWORD) -> None:
    """Let a person in, as an operator does on the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "admin", "add", email, "--role", role, "--password-stdin"],
        env=gateway.variables(),
        cwd=gateway.working_folder,
        input=password + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def let_in(gateway: Gateway, email: str, role: str = "owner") -> None:
    """Let a person in, straight in the stores; who is there already begins anew."""
    operators, now = Operators(gateway.desk.database), datetime.now(UTC)
    hashed = await _hashed()
    try:
        await operators.add(email, Role(role), TESTER, now, password=hashed)
    except DuplicateError:
        found = await operators.credentials(email)
        assert found is not None
        await operators.set_password(found.account.id, hashed, TESTER, now)
        await operators.change(found.account.id, TESTER, now, role=Role(role), active=True)


@asynccontextmanager
async def visiting(gateway: Gateway) -> AsyncIterator[Visit]:
    """Somebody who is not logged in."""
    async with httpx.AsyncClient(base_url=gateway.address, timeout=30) as client:
        yield Visit(client)


@asynccontextmanager
async def logged_in(gateway: Gateway, email: str, role: str = "owner") -> AsyncIterator[Visit]:
    """A person of this role, made for the occasion and logged in."""
    await let_in(gateway, email, role)
    async with visiting(gateway) as visit:
        answer = await visit.login(email)
        assert answer.status_code == 303, answer.text[:2000]
        yield visit


async def _hashed() -> str:
    """The hash of everybody's password, made once: each takes a while."""
    if not _hashes:
        _hashes.append(await hash_password(PASSWORD))
    return _hashes[0]


def text_of(page: str) -> str:
    """What a page says, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{7*7}}",
    "javascript:alert(1)",
)
"""Texts that a page must show and never obey."""


class _Watch(HTMLParser):
    """Whatever of a page a browser would do something with."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "script" and not (told.get("src") or "").startswith("/panel/static/"):
            self.found.append(f"a script: {attrs}")
        if tag in {"style", "iframe", "object", "embed", "svg"}:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.found.append(f"{name}={value}")
            if name in {"href", "src", "action", "formaction"} and not re.match(
                r"(/(?!/)|#|\?|data:image/svg)", value or ""
            ):
                self.found.append(f"{name}={value}")


def inert(page: httpx.Response) -> str:
    """A page's HTML, in which nothing was smuggled that a browser would run, load or follow."""
    watch = _Watch()
    watch.feed(page.text)
    assert watch.found == [], page.url
    return page.text


def shown(text: str) -> str:
    """A text as it stands in a page."""
    return str(escape(text))
