"""Running scripts on a Redis server or cluster, with an end: an answer or `StoreAwayError` within two seconds.

Every script may be repeated, so a step whose connection was cut is tried once more on a new one: a restart of Redis
costs a reconnection and surfaces nowhere.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from redis.asyncio import RedisCluster
from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError
from redis.retry import Retry
from typing_extensions import override

from gateway.deadline import Patience
from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.redis.wire import Wire, Words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from gateway.keyvalue.redis.scripts import Call

ANSWER_SECONDS = 1.8
"""The time one step may take with everything: connecting, a second attempt, the answer."""
CLUSTER_SCHEME = "redis+cluster://"

_POOL_OPTIONS = ("max_connections", "timeout")
"""Options of a URL that mean nothing here: there is one connection."""
_SCAN_KEYS = "1000"
_CLUSTER_CONNECTIONS = 1_000
"""To each node. Far more than a process has calls at once: reaching it would look like an outage."""
_CLUSTER_SOCKET_SECONDS = 1.0

_TROUBLES = (TimeoutError, RedisError, RedisClusterException, OSError)


class Link(ABC):
    """A way to run scripts."""

    def __init__(self) -> None:
        self._patience = Patience(ANSWER_SECONDS)

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts in one round trip; their replies.

        Raises:
            StoreAwayError: Redis can't be reached, refuses, or is too slow; the scripts may have been run.

        """
        try:
            with self._patience():
                replies = await self._send(calls, by_digest=True)
                if any(map(_is_error, replies)):
                    await self._tell_bodies(calls, replies)
                return replies
        except _TROUBLES as error:
            raise self._away(error) from error

    @abstractmethod
    async def remove(self, prefix: str) -> None:
        """Delete every key that begins so, in as many round trips as it takes.

        Raises:
            StoreAwayError: As above; some keys may be gone.

        """

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def _send(self, calls: Sequence[Call], *, by_digest: bool) -> list[Any]:
        """Run scripts; a `ResponseError` is returned among the replies."""

    @abstractmethod
    def _suspect(self) -> None:
        """Take note that an answer did not come in time."""

    async def _tell_bodies(self, calls: Sequence[Call], replies: list[Any]) -> None:
        """Run anew, with their bodies, the scripts that the server does not know; their replies take the errors' places."""
        unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            again = await self._send([calls[index] for index in unknown], by_digest=False)
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        _raise_error(replies)

    async def _bounded(self, answer: Awaitable[list[Any]]) -> list[Any]:
        try:
            with self._patience():
                return await answer
        except _TROUBLES as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> StoreAwayError:
        if isinstance(error, TimeoutError):
            self._suspect()
            return StoreAwayError("Redis did not answer in time")
        return StoreAwayError(f"Redis can't be used: {error}")


class ServerLink(Link):
    """One server.

    Args:
        url: `redis://` or `rediss://`, with the options of redis-py.

    Raises:
        ValueError: The URL can't be understood.

    """

    def __init__(self, url: str) -> None:
        super().__init__()
        options: dict[str, Any] = dict(parse_url(url))
        for name in _POOL_OPTIONS:
            options.pop(name, None)
        try:
            # Never connected: the library's reading of the URL, its defaults and its TLS included.
            self._told = options.pop("connection_class", Connection)(**options)
        except TypeError as error:
            raise ValueError(f"the Redis URL has an option nobody knows: {error}") from None
        self._wire: Wire | None = None
        self._connecting = asyncio.Lock()

    @override
    async def remove(self, prefix: str) -> None:
        cursor: str | bytes = "0"
        while True:
            scan = ("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _SCAN_KEYS)
            [[cursor, keys]] = await self._bounded(self._command(scan))
            if keys:
                await self._bounded(self._command(("UNLINK", *keys)))
            if cursor == b"0":
                return

    @override
    async def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            await asyncio.sleep(0)  # the loop closes the socket in its next turn

    @override
    def _suspect(self) -> None:
        if self._wire is not None:
            self._wire.close()

    @override
    async def _send(self, calls: Sequence[Call], *, by_digest: bool) -> list[Any]:
        return await self._ask([call.words(by_digest=by_digest) for call in calls])

    async def _command(self, words: Words) -> list[Any]:
        replies = await self._ask([words])
        _raise_error(replies)
        return replies

    async def _ask(self, commands: Sequence[Words]) -> list[Any]:
        wire = self._wire
        if wire is None or not wire.is_open:
            wire = await self._connected()
        try:
            replies = await wire.ask(commands)
        except RedisConnectionError:
            replies = await (await self._connected()).ask(commands)
        if any(_is_error(reply) and str(reply).startswith("READONLY") for reply in replies):
            self._suspect()  # a former primary: its name may lead elsewhere by now
        return replies

    async def _connected(self) -> Wire:
        async with self._connecting:
            if self._wire is None or not self._wire.is_open:
                self._wire = await self._connect()
            return self._wire

    async def _connect(self) -> Wire:
        told = self._told
        tls = told.ssl_context.get() if isinstance(told, SSLConnection) else None
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(Wire, told.host, int(told.port), ssl=tls)
        greeting: list[Words] = []
        if told.password:
            greeting.append(("AUTH", *filter(None, (told.username,)), told.password))
        if told.db:
            greeting.append(("SELECT", str(told.db)))
        try:
            if greeting:
                _raise_error(await wire.ask(greeting))
        except BaseException:
            wire.close()
            raise
        return wire


class ClusterLink(Link):
    """A cluster, through the library's client: slots move, and it follows them.

    Args:
        url: `redis+cluster://`, with the options of redis-py; any one node.

    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._cluster = RedisCluster.from_url(
            "redis://" + url.removeprefix(CLUSTER_SCHEME),
            retry=Retry(NoBackoff(), 1),
            socket_timeout=_CLUSTER_SOCKET_SECONDS,
            socket_connect_timeout=_CLUSTER_SOCKET_SECONDS,
            max_connections=_CLUSTER_CONNECTIONS,
        )

    @override
    async def remove(self, prefix: str) -> None:
        await self._bounded(self._remove(prefix))

    @override
    async def close(self) -> None:
        await self._cluster.aclose()

    @override
    def _suspect(self) -> None:
        """Nothing to do: the library's client drops a connection that did not answer."""

    @override
    async def _send(self, calls: Sequence[Call], *, by_digest: bool) -> list[Any]:
        commands = (self._reply(call.words(by_digest=by_digest)) for call in calls)
        if len(calls) == 1:
            return [await next(commands)]
        return list(await asyncio.gather(*commands))

    async def _reply(self, words: Words) -> Any:
        try:
            return await self._cluster.execute_command(*words)
        except ResponseError as error:
            return error

    async def _remove(self, prefix: str) -> list[Any]:
        async for key in self._cluster.scan_iter(match=f"{prefix}*", count=int(_SCAN_KEYS)):
            await self._cluster.unlink(key)
        return []


def _is_error(reply: object) -> bool:
    return isinstance(reply, ResponseError)


def _raise_error(replies: Sequence[Any]) -> None:
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply


def open_link(url: str) -> Link:
    """The link for a `PEPPER_REDIS_URL`. Nothing is connected before the first use."""
    return ClusterLink(url) if url.startswith(CLUSTER_SCHEME) else ServerLink(url)
