"""One HTTP exchange on bare ASGI: headers and body in, one reply out, each within its limits.

The addresses on the hot path are ASGI handlers: they need the order of checks of the contract (the key before the
body), bodies bounded while they arrive, and streams that notice a caller who leaves.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import unquote

from gateway.deadline import Patience
from gateway.domain.errors import (
    BODY_TOO_SLOW,
    CONTENT_TOO_LARGE,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    STORE_UNAVAILABLE,
    UNAUTHORIZED,
    Failure,
)
from gateway.wire.mistakes import compressed
from gateway.wire.replies import encode_failure

ONE_KIB = 1024
ONE_MIB = 1024 * ONE_KIB
BODY_SECONDS = 60.0
BODY_PATIENCE = Patience(BODY_SECONDS)
BODIES_IN_FLIGHT = 512 * ONE_MIB
FULL_RETRY_AFTER = 5
LINGER_SECONDS = 30.0
LINGER_IDLE_SECONDS = 2.0
"""How long the rest of a body that nobody wants is let in: a connection closed on it would take the reply along."""
EXPECTING_IDLE_SECONDS = 0.25
"""The same for a caller who announced a body: most wait to be let on, and send nothing after a refusal."""

CODINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"})
"""Content codings that would make a body something else; old clients also write `Content-Encoding: UTF-8`."""

JSON_TYPE = "application/json"

FORWARDING_HEADERS = (
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
    b"forwarded",
    b"via",
)
"""Set by whoever stands between a caller and this machine."""


class CallerLeft(Exception):  # noqa: N818 - an event, not an error
    """The caller closed the connection before the request was whole."""


class BodyBudget:
    """Bytes of bodies held by this worker, all exchanges together."""

    def __init__(self, limit: int = BODIES_IN_FLIGHT) -> None:
        self._limit = limit
        self.held = 0

    def take(self, size: int) -> None:
        """Hold so many bytes more.

        Raises:
            Failure: 503, when the worker holds too many already.

        """
        if self.held + size > self._limit:
            raise Failure(
                STORE_UNAVAILABLE, retry_after=FULL_RETRY_AFTER, reason="too many bytes of bodies in flight"
            )
        self.held += size

    def give_back(self, size: int) -> None:
        """Let go of so many bytes."""
        self.held -= size


def new_request_id() -> str:
    """Make a request id: time first, so that ledgers grow at their end, then 64 random bits."""
    # Not a secret, and the generator is seeded anew in each worker: asking the kernel each time costs a system call.
    return f"req_{int(time.time() * 1000):011x}{random.getrandbits(64):016x}"


class Exchange:
    """One request and its reply. Use as a context manager: leaving it gives the body's bytes back."""

    def __init__(self, scope: Mapping[str, Any], receive: Any, send: Any, bodies: BodyBudget) -> None:
        self.method: str = scope["method"]
        self.request_id = new_request_id()
        self.arrived = time.monotonic()
        self.status = 0
        self.linger_seconds = LINGER_SECONDS
        self._scope = scope
        self._headers: defaultdict[bytes, list[str]] = defaultdict(list)
        for name, value in scope["headers"]:
            self._headers[name.lower()].append(value.decode("latin-1"))
        self._receive = receive
        self._send = send
        self._bodies = bodies
        self._held = 0
        self._begun = False
        self._whole = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what the body held."""
        self._give_back()

    @property
    def path(self) -> str:
        """What is asked for, decoded."""
        return unquote(self._scope.get("raw_path", b"").decode("latin-1"))

    @property
    def query(self) -> bytes:
        """What follows the question mark, as sent."""
        query: bytes = self._scope.get("query_string", b"")
        return query

    @property
    def client(self) -> str | None:
        """Address of whoever connected."""
        client: str | None = (self._scope.get("client") or (None,))[0]
        return client

    def header_values(self, name: bytes) -> list[str]:
        """All values of a header (lower-case name), as sent."""
        return self._headers.get(name, [])

    @property
    def is_forwarded(self) -> bool:
        """Whether somebody passed the request on."""
        return any(self.header_values(name) for name in FORWARDING_HEADERS)

    def require_method(self, *allowed: str) -> None:
        """Refuse other methods with 405."""
        if self.method not in allowed:
            raise Failure(METHOD_NOT_ALLOWED, f"Questo indirizzo accetta solo {', '.join(allowed)}.")

    def require_declared_size(self, limit: int) -> None:
        """Refuse a body that says itself that it is too large, before anything of it is read."""
        for value in self.header_values(b"content-length"):
            if value.isdecimal() and (len(value) > 15 or int(value) > limit):
                raise _too_large(limit)

    def project_key(self) -> str:
        """The one X-Pepper-Key header.

        Raises:
            Failure: 401, when there is none or more than one.

        """
        keys = self.header_values(b"x-pepper-key")
        if len(keys) != 1 or not keys[0]:
            raise Failure(UNAUTHORIZED)
        return keys[0]

    async def body(self, limit: int, patience: Patience = BODY_PATIENCE) -> bytes:
        """Read the body: at most `limit` bytes, for so long as somebody has patience.

        Raises:
            Failure: 400 when it is compressed, 413, 408, or 503 when the worker holds too many bodies.
            CallerLeft: The connection closed before the end.

        """
        self._refuse_compressed()
        chunks: list[bytes] = []
        try:
            with patience():
                await self._read(chunks, limit)
        except (Failure, CallerLeft, TimeoutError) as error:
            # Let go now and not when the refusal has been told: the rest of the body may take its time.
            chunks.clear()
            self._give_back()
            raise (Failure(BODY_TOO_SLOW) if isinstance(error, TimeoutError) else error) from None
        return b"".join(chunks)

    def _refuse_compressed(self) -> None:
        for value in self.header_values(b"content-encoding"):
            for coding in value.split(","):
                if coding.strip().lower() in CODINGS:
                    raise Failure(INVALID_REQUEST, compressed(coding.strip().lower()))

    async def _read(self, chunks: list[bytes], limit: int) -> None:
        size = 0
        while not self._whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerLeft
            self._begun = True
            self._whole = not message.get("more_body", False)
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            self._bodies.take(len(chunk))
            self._held += len(chunk)
            chunks.append(chunk)

    def _give_back(self) -> None:
        self._bodies.give_back(self._held)
        self._held = 0

    async def gone(self) -> None:
        """Return when the caller has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reply(
        self, status: int, body: bytes, *headers: tuple[bytes, bytes], kind: str = JSON_TYPE
    ) -> None:
        """Send a whole reply; a HEAD gets the headers alone."""
        length = str(len(body)).encode()
        await self.start(status, (b"content-type", kind.encode()), (b"content-length", length), *headers)
        if self.method == "HEAD":
            body = b""
        if body and self._body_follows:
            # The last byte waits: with the reply whole the server would close on what still comes.
            await self.send_body(body[:-1], more=True)
            await self._linger()
            body = body[-1:]
        await self.send_body(body, more=False)

    @property
    def _body_follows(self) -> bool:
        """Whether something of the request's body is still under way."""
        if self._whole:
            return False
        return self.header_values(b"content-length") not in ([], ["0"]) or bool(
            self.header_values(b"transfer-encoding")
        )

    async def _linger(self) -> None:
        """Let the rest of the body come and go, for a while."""
        waits = not self._begun and bool(self.header_values(b"expect"))
        idle = EXPECTING_IDLE_SECONDS if waits else LINGER_IDLE_SECONDS
        try:
            async with asyncio.timeout(self.linger_seconds):
                while not self._whole:
                    async with asyncio.timeout(idle):
                        message = await self._receive()
                    idle = LINGER_IDLE_SECONDS
                    if message["type"] == "http.disconnect":
                        return
                    self._whole = not message.get("more_body", False)
        except TimeoutError:
            return

    async def fail(self, failure: Failure, *, allow: str | None = None) -> None:
        """Send an error reply."""
        headers = []
        if failure.retry_after is not None:
            headers.append((b"retry-after", str(failure.retry_after).encode()))
        if allow is not None:
            headers.append((b"allow", allow.encode()))
        await self.reply(failure.fault.status, encode_failure(failure), *headers)

    async def start(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        """Send status and headers."""
        self.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, (b"x-request-id", self.request_id.encode())],
            }
        )

    async def send_body(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body; waits while the caller reads slowly."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _too_large(limit: int) -> Failure:
    return Failure(CONTENT_TOO_LARGE, f"Il corpo della richiesta supera {limit // ONE_KIB} KiB.")
