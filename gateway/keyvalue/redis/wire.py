"""One connection to a Redis server, shared by all tasks of a loop.

What tasks ask in the same turn of the loop leaves in one write, and replies are handed out as they arrive: a tenth
of the processor time of a client that lends a connection to each caller (docs/performance.md).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, NoScriptError, ResponseError
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence

Words = tuple[str | bytes, ...]
"""A command and its arguments."""

_INCOMPLETE = object()


class Wire(asyncio.Protocol):
    """A connected transport that speaks Redis' protocol; made by the loop's `create_connection`."""

    def __init__(self) -> None:
        self._parser = hiredis.Reader(
            protocolError=InvalidResponse, replyError=_error_reply, notEnoughData=_INCOMPLETE
        )
        self._questions: deque[_Question] = deque()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, commands: Sequence[Words]) -> asyncio.Future[list[Any]]:
        """Send commands one after the other; the replies come, in which an error is a `ResponseError`.

        Raises:
            ConnectionError: Of redis, at once or when awaited: the connection is or was cut; the commands may have been
                carried out.

        """
        if not self.is_open:
            raise RedisConnectionError("the connection is closed")
        question = _Question(len(commands), self._loop.create_future())
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += [hiredis.pack_command(words) for words in commands]  # type: ignore[arg-type]  # any length
        self._questions.append(question)
        return question.answer

    def close(self) -> None:
        """Cut the connection: a server that is stuck would not say goodbye."""
        if self._transport is not None:
            self._transport.abort()

    def _send(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        if self._transport is not None and self.is_open:
            self._transport.write(data)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @override
    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        try:
            while (reply := self._parser.gets()) is not _INCOMPLETE:
                if self._questions[0].receive(reply):
                    self._questions.popleft()
        except (InvalidResponse, IndexError):
            # Not Redis, or more replies than questions: nothing on this connection can be trusted any more.
            self.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        error = RedisConnectionError(f"the connection was cut: {exc or 'closed by the server'}")
        while self._questions:
            self._questions.popleft().fail(error)


class _Question:
    """Commands that one task sent together."""

    __slots__ = ("_expected", "_replies", "answer")

    def __init__(self, expected: int, answer: asyncio.Future[list[Any]]) -> None:
        self.answer = answer
        self._expected = expected
        self._replies: list[Any] = []

    def receive(self, reply: Any) -> bool:
        """Take one reply; True with the last."""
        self._replies.append(reply)
        if len(self._replies) < self._expected:
            return False
        if not self.answer.done():  # a task that was cancelled waits no longer
            self.answer.set_result(self._replies)
        return True

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _error_reply(message: str) -> ResponseError:
    return NoScriptError(message) if message.startswith("NOSCRIPT") else ResponseError(message)
