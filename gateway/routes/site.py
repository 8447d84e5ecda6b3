"""The documentation, at `/docs`: static files that `make` built from docs/, each page also as Markdown for agents."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path, PurePosixPath

from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from gateway.domain.errors import UNKNOWN_ADDRESS, Failure
from gateway.routes.exchange import BodyBudget, Exchange
from gateway.routes.responses import answered

PATH = "/docs"
MAX_AGE = 300
"""Seconds for which a browser need not ask again."""
POLICY = (
    # The theme starts itself with a few lines in its pages, and the viewer of the API styles itself.
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", f"public, max-age={MAX_AGE}".encode()),
    (b"vary", b"Accept-Encoding"),
)
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".php": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".py": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
    ".xml": "application/xml",
}
MISSING = "404.html"
PACKED = ".gz"
"""Ending of what was compressed beside a file when the site was built."""
_GZIP = re.compile(r"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*(?P<quality>[0-9.]+)\s*)?(?=,|$)", re.IGNORECASE)


def site_folder() -> Path:
    """Where the built pages are: inside the package, or in a checkout's build folder."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "site"
    return installed if installed.is_dir() else package.parent / "build" / "docs"


def site_handlers(folder: Path, bodies: BodyBudget) -> list[ASGIRouteHandler]:
    """Give the handler of the pages; none if they were not built."""
    site = Site(folder)
    if not site.files:
        return []

    @asgi(PATH, is_mount=True, name=PATH, copy_scope=False)
    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, bodies)
        await answered(exchange, route=PATH, allow="GET, HEAD", handle=partial(Site.serve, site))

    return [handler]


class Site:
    """The files as they were when the process began: what is not among them is not there, however it is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files = frozenset(
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        )

    async def serve(self, exchange: Exchange) -> None:
        """Serve a file; a page's address ends with a slash, or its links would lead astray."""
        if exchange.path != PATH and not exchange.path.startswith(f"{PATH}/"):  # the mount takes /docsx too
            raise Failure(UNKNOWN_ADDRESS)
        name = exchange.path.removeprefix(PATH).removeprefix("/")
        if exchange.path == PATH or f"{name}/index.html" in self.files:
            query = b"?" + exchange.query if exchange.query else b""
            where = f"{PATH}/{name}/" if name else f"{PATH}/"
            await _bare(exchange, 308, (b"location", where.encode() + query))
            return
        if not name or name.endswith("/"):
            name += "index.html"
        if name in self.files and not name.endswith(PACKED):
            await self._send(exchange, name, 200)
        else:
            await self._send(exchange, MISSING, 404)

    async def _send(self, exchange: Exchange, name: str, status: int) -> None:
        kind = KINDS.get(PurePosixPath(name).suffix, "application/octet-stream")
        headers = list(HEADERS)
        if name + PACKED in self.files and takes_gzip(exchange):
            headers.append((b"content-encoding", b"gzip"))
            name += PACKED
        tag, body = await asyncio.to_thread(_read, self._folder / name)
        headers.append((b"etag", tag.encode()))
        if status == 200 and tag in ", ".join(exchange.header_values(b"if-none-match")):
            await _bare(exchange, 304, *headers)
        else:
            await exchange.reply(status, body, *headers, kind=kind)


def takes_gzip(exchange: Exchange) -> bool:
    """Whether the caller says that it can unpack."""
    found = _GZIP.search(", ".join(exchange.header_values(b"accept-encoding")))
    return found is not None and found["quality"] not in {"0", "0.0", "0.00", "0.000"}


def _read(path: Path) -> tuple[str, bytes]:
    """Give a file's entity tag and its bytes."""
    state = path.stat()
    return f'"{state.st_mtime_ns:x}-{state.st_size:x}{path.suffix}"', path.read_bytes()


async def _bare(exchange: Exchange, status: int, *headers: tuple[bytes, bytes]) -> None:
    """Reply without a body."""
    length = () if status == 304 else ((b"content-length", b"0"),)
    await exchange.start(status, *headers, *length)
    await exchange.send_body(b"", more=False)
