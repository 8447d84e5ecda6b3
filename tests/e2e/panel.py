"""The panel as a browser without JavaScript sees it: cookies, pages, forms with their tokens."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import httpx

from tests.e2e.harness import Gateway

PASSWORD = "una password lunga 1"
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


@asynccontextmanager
async def visiting(gateway: Gateway) -> AsyncIterator[Visit]:
    """Somebody who is not logged in."""
    async with httpx.AsyncClient(base_url=gateway.address, timeout=30) as client:
        yield Visit(client)


@asynccontextmanager
async def logged_in(gateway: Gateway, email: str, role: str = "owner") -> AsyncIterator[Visit]:
    """A person of this role, made for the occasion and logged in."""
    await asyncio.to_thread(add_person, gateway, email, role)
    async with visiting(gateway) as visit:
        answer = await visit.login(email)
        assert answer.status_code == 303, answer.text[:2000]
        yield visit


def text_of(page: str) -> str:
    """What a page says, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
