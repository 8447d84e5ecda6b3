"""What a provider is asked now and then: each request over a connection of its own, so that nothing is sent twice.

A kept connection that the server has just closed can't be told from one whose server took the request and died; on a
fresh one whatever was not sent is known not to have been. Limits and failures are those of the hot calls.
"""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Literal, TypeVar

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from gateway.providers import failures
from gateway.providers.transport import (
    CONNECT_SECONDS,
    LARGE_BODY_BYTES,
    MOST_ANSWER_BYTES,
    MOST_HEADER_BYTES,
    error_body,
    tls,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.ports import ProviderError
    from gateway.providers.transport import Outgoing

STATE_SECONDS = 15.0
"""For asking how something is."""
RESULT_SECONDS = 60.0
SUBMIT_SECONDS = 60.0
MOST_SUBMIT_SECONDS = 120.0
"""What is handed in gets a second more for each MiB, but no more than this."""
MOST_LINE_BYTES = MOST_ANSWER_BYTES

T = TypeVar("T")


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        body: JSON, or a form.
        accept: The media type, where it is not JSON.

    """

    method: Literal["GET", "POST"] = "GET"
    url: URL
    body: bytes | aiohttp.FormData | None = None
    accept: str = "application/json"
    seconds: float = STATE_SECONDS


def submit_seconds(size: int) -> float:
    """How long so many bytes may take to be handed in."""
    return min(SUBMIT_SECONDS + size // (1024 * 1024), MOST_SUBMIT_SECONDS)


async def run(
    errand: Errand, outgoing: Outgoing, read: Callable[[aiohttp.ClientResponse], Awaitable[T]]
) -> T:
    """Send a request once and read its 2xx reply.

    Args:
        errand: What is asked.
        outgoing: The provider's headers and proxy.
        read: Reads the body, or as much of it as is wanted.

    Raises:
        ProviderError: There was no reply in time, one of another status, or one that could not be read.

    """
    failure: ProviderError
    try:
        async with (
            asyncio.timeout(errand.seconds),
            _session() as session,
            session.request(
                errand.method,
                errand.url,
                data=sendable(errand.body) if isinstance(errand.body, bytes) else errand.body,
                headers=_headers(errand, outgoing),
                proxy=outgoing.proxy,
                allow_redirects=False,
            ) as response,
        ):
            if 200 <= response.status < 300:
                return await read(response)
            failure = failures.of_status(response.status, response.headers, await error_body(response))
            # Who sends elsewhere has taken nothing.
            failure.sent = not 300 <= response.status < 400
    except aiohttp.ClientError as error:
        failure = failures.of_connection(error)
    except HttpProcessingError as error:
        failure = failures.faulty(f"the body can't be read ({type(error).__name__})")
    except TimeoutError:
        failure = failures.late()
    except OSError as error:
        failure = failures.of_connection(error)
    # Raised here and not where it was caught: aiohttp's exceptions hold the headers, and the key with them.
    raise failure


async def read_whole(response: aiohttp.ClientResponse) -> bytes:
    """Give the whole body.

    Raises:
        ProviderError: It is too long.

    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MOST_ANSWER_BYTES:
            raise failures.faulty(f"the answer is longer than {MOST_ANSWER_BYTES} bytes")
    return bytes(body)


async def read_lines(response: aiohttp.ClientResponse, take: Callable[[bytes], bool]) -> None:
    """Hand over line by line; blank ones are none.

    Args:
        response: Its body is read.
        take: Whether more is wanted.

    Raises:
        ProviderError: A line is too long.

    """
    parts: list[bytes] = []
    held = 0
    async for chunk in response.content.iter_any():
        first, *others = chunk.split(b"\n")
        parts.append(first)
        held += len(first)
        for begun in others:
            line = b"".join(parts)
            parts, held = [begun], len(begun)
            if line.strip() and not take(line):
                return
        if held > MOST_LINE_BYTES:
            raise failures.faulty(f"a line is longer than {MOST_LINE_BYTES} bytes")
    line = b"".join(parts)
    if line.strip():
        take(line)


def decoded(decode: Callable[[bytes], T], body: bytes, what: str) -> T:
    """Read JSON of a known shape.

    Raises:
        ProviderError: It is none; `what` says what it should have been.

    """
    try:
        return decode(body)
    except msgspec.DecodeError:
        pass
    # Raised outside the handler: the decoder's words may quote the body.
    raise failures.faulty(f"a reply that is no {what}")


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, ssl=tls()),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS),
        max_line_size=MOST_HEADER_BYTES,
        max_field_size=MOST_HEADER_BYTES,
    )


def _headers(errand: Errand, outgoing: Outgoing) -> dict[str, str]:
    """As the SDK would send them, but for what belongs to the hot call's body."""
    headers = {name: value for name, value in outgoing.headers.items() if name.lower() != "content-type"}
    if isinstance(errand.body, bytes):
        headers["content-type"] = "application/json"
    return headers | {"accept": errand.accept, "connection": "close"}


def sendable(body: bytes) -> bytes | io.BytesIO:
    """A large body is written in parts: handed over whole it would hold up the event loop."""
    return body if len(body) < LARGE_BODY_BYTES else io.BytesIO(body)
