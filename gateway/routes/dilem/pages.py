"""What Dilem publishes, served: whole, from memory, for anybody's page and any cache."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send
from msgspec import Struct

from gateway.dilem import errors
from gateway.dilem.content.publication import HTML, Document, publication
from gateway.dilem.content.site import API_CATALOG, Site
from gateway.dilem.errors import DilemFailure
from gateway.dilem.policy import Policy
from gateway.routes.dilem.responses import answered, refused
from gateway.routes.exchange import BodyBudget, Exchange

ALLOW = "GET, HEAD, OPTIONS"
MAX_AGE = 3600
"""Seconds for which a cache need not ask again."""
_HEADERS = (
    (b"cache-control", f"public, max-age={MAX_AGE}".encode()),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag"),
    (b"x-content-type-options", b"nosniff"),
)
_PREFLIGHT = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_PAGE_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
)
_MARKDOWN, _HTML = "text/markdown", "text/html"
_TAG = re.compile(r'(?:W/)?("[^"]*")')
_QUALITY = re.compile(r"\s*q\s*=\s*(.*?)\s*", re.IGNORECASE)


class Edition(Struct, frozen=True):
    """A document as it is sent; `tag` is its strong entity tag."""

    body: bytes
    tag: str


class Pages:
    """The documents of one process, each made when it is first asked for."""

    def __init__(self, policy: Policy, bodies: BodyBudget) -> None:
        self._policy = policy
        self._bodies = bodies
        self._documents = publication(Site(policy.base_url))
        self._editions: dict[str, Edition] = {}

    def handler(self) -> ASGIRouteHandler:
        """Give the handler of all their addresses."""

        @asgi(list(self._documents), name="dilem pages", copy_scope=False)
        async def handler(scope: Scope, receive: Receive, send: Send) -> None:
            await self(scope, receive, send)

        return handler

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one exchange."""
        exchange = Exchange(scope, receive, send, self._bodies)
        # Litestar takes a slash more or less at the end for the same.
        document = self._documents.get(exchange.path) or self._documents.get(f"{exchange.path}/")
        await answered(
            exchange,
            route=document.route if document else "dilem pages",
            handle=lambda: self._serve(exchange, document),
            refuse=refused,
        )

    async def _serve(self, exchange: Exchange, document: Document | None) -> None:
        if document is None or (self._policy.private and exchange.is_forwarded):
            raise DilemFailure(errors.NOT_FOUND)
        if exchange.method == "OPTIONS":
            await _bare(exchange, 204, *_PREFLIGHT)
        elif exchange.method not in {"GET", "HEAD"}:
            raise DilemFailure(errors.METHOD_NOT_ALLOWED, allow=ALLOW)
        elif exchange.path not in self._documents:
            await _bare(exchange, 308, *_HEADERS, (b"location", f"{exchange.path}/".encode("ascii")))
        else:
            await self._send(exchange, document)

    async def _send(self, exchange: Exchange, document: Document) -> None:
        path = exchange.path
        headers = [*_HEADERS]
        if document.markdown:
            headers.append((b"vary", b"Accept"))
            if prefers_markdown(exchange.header_values(b"accept")):
                path = document.markdown
                document = self._documents[path]
                headers.append((b"content-location", path.encode()))
        if document.media_type == HTML:
            headers.extend(_PAGE_HEADERS)
        if path == API_CATALOG:
            link = f'<{self._policy.base_url}{API_CATALOG}>; rel="api-catalog"'
            headers.append((b"link", link.encode()))
        edition = await self._edition(path, document)
        headers.append((b"etag", edition.tag.encode()))
        if _is_known(exchange, edition.tag):
            await _bare(exchange, 304, *headers)
        else:
            await exchange.reply(200, edition.body, *headers, kind=document.media_type)

    async def _edition(self, path: str, document: Document) -> Edition:
        found = self._editions.get(path)
        if found is None:
            body = await asyncio.to_thread(document.make)
            found = Edition(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
            self._editions[path] = found
        return found


def prefers_markdown(values: list[str]) -> bool:
    """Whether an `Accept` header names Markdown, and wants it no less than HTML."""
    qualities: dict[str, float] = {}
    for each in ",".join(values).split(","):
        kind, *parameters = each.split(";")
        found = (_QUALITY.fullmatch(parameter) for parameter in parameters)
        quality = next((_number(match[1]) for match in found if match), 1.0)
        qualities[kind.strip().lower()] = quality
    wished = qualities.get(_MARKDOWN, 0.0)
    html = qualities.get(_HTML, qualities.get("text/*", qualities.get("*/*", 0.0)))
    return wished > 0 and wished >= html


def _number(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        return 0.0


def _is_known(exchange: Exchange, tag: str) -> bool:
    """Whether the caller has this edition."""
    values = exchange.header_values(b"if-none-match")
    return any(value.strip() == "*" or tag in _TAG.findall(value) for value in values)


async def _bare(exchange: Exchange, status: int, *headers: tuple[bytes, bytes]) -> None:
    """Answer with headers alone."""
    await exchange.start(status, *headers)
    await exchange.send_body(b"", more=False)
