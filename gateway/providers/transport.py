"""The one HTTP client under all providers: bytes out, bytes back, every failure a `ProviderError`.

It follows no redirect, caps no connections, reads no more than it says, and closing a reply closes its connection
at once.
"""

from __future__ import annotations

import asyncio
import functools
import io
import select
import time
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override
from yarl import URL

from gateway.providers import failures
from gateway.providers.posting import Post, Posted

if TYPE_CHECKING:
    import ssl
    from typing import Any

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

CONNECT_SECONDS = 5.0
MOST_ANSWER_BYTES = 32 * 1024 * 1024
MOST_ERROR_BYTES = 64 * 1024
_ERROR_BODY_SECONDS = 5.0
_IDLE_SECONDS = 30.0
"""How long an unused connection is kept."""
_STALE_AFTER_SECONDS = 1.0
"""No server closes a connection for having been idle before."""
_STALE_WITHIN_SECONDS = 2.0
"""A connection that the server had closed fails sooner than this; later it is a cut like any other."""
_LINGER_SECONDS = 1.0
"""How long the last bytes of a complete answer are waited for, so that its connection can be used again."""
MOST_HEADER_BYTES = 64 * 1024
LARGE_BODY_BYTES = 1024 * 1024
"""Beyond, a body is written in parts: handed over whole it would hold up the event loop."""

_used_before: ContextVar[float] = ContextVar("_used_before", default=0.0)
"""How many seconds ago the connection that this task was given was used last; zero for a new one."""


Response: TypeAlias = Posted | aiohttp.ClientResponse
"""A reply: by the short way, or by the whole client, which knows proxies and writes large bodies in parts."""


class Outgoing(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Where a provider is asked, and with which headers. Never printed: the key is among them."""

    url: URL
    headers: dict[str, str]
    proxy: str | None = None

    @override
    def __repr__(self) -> str:
        return "Outgoing(…)"


class Transport:
    """Owns every connection to the providers; `open` it in the running loop, `aclose` it once at the end."""

    def __init__(self, *, connect_seconds: float = CONNECT_SECONDS) -> None:
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_seconds, sock_connect=connect_seconds
        )
        self._session: aiohttp.ClientSession | None = None
        self._connector: aiohttp.BaseConnector | None = None
        self._posts: weakref.WeakKeyDictionary[Outgoing, Post] = weakref.WeakKeyDictionary()
        self._lingering: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Make the session; certificates are read in a thread."""
        certificates = await asyncio.to_thread(tls)
        self._connector = _Connector(limit=0, keepalive_timeout=_IDLE_SECONDS, ssl=certificates)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            max_line_size=MOST_HEADER_BYTES,
            max_field_size=MOST_HEADER_BYTES,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        for task in self._lingering:
            task.cancel()
        await asyncio.gather(*self._lingering, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def post(self, outgoing: Outgoing, body: bytes) -> Reply:
        """Send a JSON body and wait for the head of a 2xx reply.

        Raises:
            ProviderError: There was no reply, or one of another status.

        """
        response = await self._send(outgoing, body)
        if 200 <= response.status < 300:
            return Reply(response, self)
        try:
            start = await error_body(response)
        finally:
            response.close()
        raise failures.of_status(response.status, response.headers, start)

    async def _send(self, outgoing: Outgoing, body: bytes) -> Response:
        started = time.monotonic()
        result = await self._try_to_send(outgoing, body)
        if not isinstance(result, Exception):
            return result
        if _is_stale(result, started):
            # The server had closed the kept connection before it could read the request: nobody was asked yet.
            result = await self._try_to_send(outgoing, body)
            if not isinstance(result, Exception):
                return result
        # Raised here and not where it was caught: aiohttp's exceptions hold the headers, and the key with them.
        raise failures.of_connection(result)

    async def _try_to_send(
        self, outgoing: Outgoing, body: bytes
    ) -> Response | aiohttp.ClientError | HttpProcessingError | OSError:
        if self._session is None or self._connector is None:
            raise RuntimeError("the transport is not open")
        _used_before.set(0.0)
        try:
            if outgoing.proxy is None and len(body) < LARGE_BODY_BYTES:
                return await self._post(outgoing).send(self._connector, body)
            return await self._session.request(
                "POST",
                outgoing.url,
                data=io.BytesIO(body),
                headers=outgoing.headers,
                proxy=outgoing.proxy,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            return error

    def _post(self, outgoing: Outgoing) -> Post:
        post = self._posts.get(outgoing)
        if post is None:
            post = self._posts[outgoing] = Post(
                outgoing.url, outgoing.headers, timeout=self._timeout, longest_line=MOST_HEADER_BYTES
            )
        return post

    def linger(self, response: Response) -> None:
        """Wait in the background for the end of an answer that is complete."""
        task = asyncio.create_task(_linger(response))
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)
        # Also if the task is cancelled before it begins.
        task.add_done_callback(lambda _: response.close())


class Reply:
    """A 2xx reply whose body is still to be read."""

    def __init__(self, response: Response, transport: Transport) -> None:
        self._response = response
        self._transport = transport
        self._left = MOST_ANSWER_BYTES

    async def some(self) -> bytes:
        """Give what has arrived, waiting for something; empty at the end.

        Raises:
            ProviderError: The connection was cut, or the answer is too long.

        """
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            failure = failures.of_connection(error)
        except HttpProcessingError as error:
            failure = failures.faulty(f"the body can't be read ({type(error).__name__})")
        else:
            self._left -= len(chunk)
            if self._left < 0:
                raise failures.faulty(f"the answer is longer than {MOST_ANSWER_BYTES} bytes")
            return chunk
        raise failure

    async def whole(self) -> bytes:
        """Give the whole body.

        Raises:
            ProviderError: As `some`.

        """
        body = await self.some()
        if not self._response.content.at_eof():
            parts = [body]
            while part := await self.some():
                parts.append(part)
            body = b"".join(parts)
        return body

    def close(self, *, complete: bool) -> None:
        """Let go: a complete answer's connection is kept for the next call, any other is closed at once."""
        if complete and not self._response.closed:
            self._transport.linger(self._response)
        else:
            self._response.close()


class _Connector(aiohttp.TCPConnector):
    """Hands out no kept connection that is known to be closed, and notes when one was used last."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._handed_out: weakref.WeakKeyDictionary[ResponseHandler, float] = weakref.WeakKeyDictionary()

    @override
    async def connect(self, *request: Any, **more: Any) -> Connection:
        while True:
            connection = await super().connect(*request, **more)
            protocol = connection.protocol
            if protocol is None:
                return connection
            now = time.monotonic()
            used = self._handed_out.get(protocol)
            if used is not None and _has_something_to_read(connection.transport):
                connection.close()
                continue
            _used_before.set(0.0 if used is None else now - used)
            self._handed_out[protocol] = now
            return connection


def _has_something_to_read(transport: asyncio.Transport | None) -> bool:
    """Whether something has arrived on an idle connection that the event loop hasn't seen: nothing but its end can."""
    socket = transport.get_extra_info("socket") if transport else None
    descriptor = socket.fileno() if socket else -1
    if descriptor < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _is_stale(error: aiohttp.ClientError | HttpProcessingError | OSError, started: float) -> bool:
    """Whether a kept connection turned out to be closed: nothing was answered, and nobody has read the request."""
    if _used_before.get() < _STALE_AFTER_SECONDS or time.monotonic() - started > _STALE_WITHIN_SECONDS:
        return False
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Anything but the default text is the beginning of an answer.
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


async def error_body(response: Response) -> bytes:
    """Read the beginning of an error body; one that doesn't come or can't be read is as good as empty."""
    body = b""
    try:
        async with asyncio.timeout(_ERROR_BODY_SECONDS):
            while left := MOST_ERROR_BYTES - len(body):
                chunk = await response.content.read(left)
                if not chunk:
                    break
                body += chunk
    except (aiohttp.ClientError, HttpProcessingError, OSError):  # TimeoutError is an OSError
        pass
    return body


async def _linger(response: Response) -> None:
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while await response.content.readany():
                pass
    except (aiohttp.ClientError, HttpProcessingError, OSError):
        pass


@functools.cache
def tls() -> ssl.SSLContext:
    """Make the TLS settings the SDKs use, certificates included."""
    import httpx2  # noqa: PLC0415 - slow; the start has this done in a thread

    return httpx2.create_ssl_context()
