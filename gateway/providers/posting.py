"""Posting over aiohttp's connections, with all that does not change from one request to the next made beforehand.

What goes over the wire is what aiohttp's session would send, byte for byte but for the order of the headers; its pool, its
parser and its exceptions are used as they are. A third of a call's price at the session is saved.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.helpers import TimerNoop
from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.connector import Connection
    from multidict import CIMultiDictProxy
    from yarl import URL

_NOT_IN_A_HEAD = frozenset("\r\n\0")


class Posted:
    """The head of a reply, and its body as it comes; the connection is given back when that has ended."""

    def __init__(
        self,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
        connection: Connection,
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        self.closed = False
        self._connection = connection
        content.on_eof(self._ended)

    def close(self) -> None:
        """Close the connection, unless it was given back."""
        if not self.closed:
            self.closed = True
            self._connection.close()

    def _ended(self) -> None:
        if not self.closed:
            self.closed = True
            self._connection.release()


class Post:
    """Requests to one address, without a proxy.

    Args:
        url: The address.
        headers: Of each request.
        longest_line: Bytes that a line of a reply's head may have.

    Raises:
        ValueError: The address or a header holds what no head can.

    """

    def __init__(
        self, url: URL, headers: Mapping[str, str], *, timeout: aiohttp.ClientTimeout, longest_line: int
    ) -> None:
        self._timeout = timeout
        self._longest_line = longest_line
        self._pattern = aiohttp.ClientRequest(
            "POST", url, headers=CIMultiDict(headers), data=b"{}", loop=asyncio.get_running_loop()
        )
        """Never sent: it says which connection is wanted, and what aiohttp adds to the headers."""
        lines = [f"POST {url.raw_path_qs} HTTP/1.1"]
        lines += [
            f"{name}: {value}"
            for name, value in self._pattern.headers.items()
            if name.lower() != "content-length"
        ]
        if any(_NOT_IN_A_HEAD.intersection(line) for line in lines):
            raise ValueError("a line of a request's head would be two")
        self._head = "\r\n".join((*lines, "Content-Length: ")).encode()

    async def send(self, connector: aiohttp.BaseConnector, body: bytes) -> Posted:
        """Send a body and wait for the head of the reply.

        Raises:
            ClientError, OSError: There was none.

        """
        try:
            connection = await connector.connect(self._pattern, traces=[], timeout=self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        try:
            return await self._exchange(connection, body)
        except BaseException:
            connection.close()
            raise

    async def _exchange(self, connection: Connection, body: bytes) -> Posted:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            raise aiohttp.ClientConnectionResetError("the connection was lost before it was used")
        protocol.set_response_params(
            timer=TimerNoop(),
            read_until_eof=True,
            max_line_size=self._longest_line,
            max_field_size=self._longest_line,
        )
        transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        while True:
            message, content = await protocol.read()
            if not 100 <= message.code < 200:  # those only announce
                return Posted(message.code, message.headers, content, connection)
