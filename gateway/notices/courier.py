"""Carries a notice to a project's address, once: no redirect, no proxy, no second look-up of the name.

What is connected to is the very address that was checked, so a name that changes its mind between the two (DNS
rebinding) leads nowhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override
from yarl import URL

from gateway.domain.notices import Delivery
from gateway.notices.addresses import is_public
from gateway.notices.signature import signature

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

ANSWER_SECONDS = 9.0
"""For name, connection, request and the head of the answer."""
LINGER_SECONDS = 1.0
"""For the beginning of its body, so that the receiver can finish."""
MOST_BODY_BYTES = 4096
RESOLVERS = 4
"""Threads that look names up: a name server that is silent holds up no more than these."""

UNKNOWN_NAME = "nome_sconosciuto"
FORBIDDEN = "indirizzo_vietato"
TIMED_OUT = "tempo_scaduto"
UNREACHABLE = "irraggiungibile"
UNTRUSTED = "certificato"
FAULTY = "guasto"

Address: TypeAlias = tuple[socket.AddressFamily, str]

log = logging.getLogger(__name__)


class _RefusedError(Exception):
    """The address is not asked; `str()` is the outcome."""


class Courier:
    """Sends notices."""

    def __init__(self, tls: Callable[[], ssl.SSLContext], *, private: bool = False) -> None:
        """Send nothing yet.

        Args:
            tls: Gives the certificates to trust; may be slow.
            private: Whether plain http and addresses of this machine and its network are allowed.

        """
        self._tls = tls
        self._private = private
        self._resolvers = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="notices")

    async def aclose(self) -> None:
        """Let go of the threads."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def deliver(self, url: str, secret: str, notice: str, body: bytes) -> Delivery:
        """Try once to bring a notice to an address; any 2xx is success. Takes 10 seconds at most.

        Args:
            url: Where to.
            secret: What it is signed with.
            notice: Its id, the same at every attempt.
            body: JSON.

        """
        began = time.monotonic()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Pepper",
            "Accept-Encoding": "identity",
            "X-Pepper-Avviso": notice,
            "X-Pepper-Firma": signature(secret, int(time.time()), body),
        }
        outcome = await self._outcome(URL(url, encoded=True), headers, body)
        delivered = outcome.isdigit() and HTTPStatus.OK <= int(outcome) < HTTPStatus.MULTIPLE_CHOICES
        took = round((time.monotonic() - began) * 1000)
        return Delivery(outcome=outcome, delivered=delivered, duration_ms=took)

    async def _outcome(self, url: URL, headers: dict[str, str], body: bytes) -> str:
        try:
            async with asyncio.timeout(ANSWER_SECONDS) as patience:
                addresses = await self._addresses(url)
                certificates = await asyncio.to_thread(self._tls)
                async with _session(addresses, certificates) as session:
                    response = await session.post(url, data=body, headers=headers, allow_redirects=False)
                    patience.reschedule(None)
                    await _linger(response)
                    return str(response.status)
        except _RefusedError as refused:
            return str(refused)
        except TimeoutError:
            return TIMED_OUT
        except aiohttp.ClientSSLError:
            return UNTRUSTED
        except (aiohttp.ClientConnectionError, OSError):
            return UNREACHABLE
        except (aiohttp.ClientError, HttpProcessingError, ValueError) as error:
            log.info("a notice met no HTTP: %s", type(error).__name__)
            return FAULTY

    async def _addresses(self, url: URL) -> Sequence[Address]:
        """Where the name leads, all of it checked.

        Raises:
            _RefusedError: Nowhere, or where it must not.

        """
        host, port = url.raw_host or "", url.port
        if url.scheme != "https" and not self._private:
            raise _RefusedError(FORBIDDEN)
        found = _literal(host) or await self._resolved(host, port)
        if not self._private and not all(is_public(address) for _, address in found):
            raise _RefusedError(FORBIDDEN)
        return found

    async def _resolved(self, host: str, port: int | None) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._resolvers, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            )
        except (OSError, UnicodeError):
            raise _RefusedError(UNKNOWN_NAME) from None
        wanted = (socket.AF_INET, socket.AF_INET6)
        addresses = tuple((family, str(at[0])) for family, _, _, _, at in found if family in wanted)
        if not addresses:
            raise _RefusedError(UNKNOWN_NAME)
        return addresses


class _Known(AbstractResolver):
    """Gives the addresses that were checked, whatever is asked."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=_NUMERIC)
            for kind, address in self._addresses
        ]

    @override
    async def close(self) -> None:
        pass


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


def _session(addresses: Sequence[Address], certificates: ssl.SSLContext) -> aiohttp.ClientSession:
    """A client for one request: neither cookies nor connections are kept."""
    connector = aiohttp.TCPConnector(
        resolver=_Known(addresses), use_dns_cache=False, ssl=certificates, force_close=True, limit=1
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    )


async def _linger(response: aiohttp.ClientResponse) -> None:
    """Read the beginning of a body that nobody wants, so that who writes it isn't cut in the middle; then hang up."""
    left = MOST_BODY_BYTES
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0 and (some := await response.content.read(left)):
                left -= len(some)
    except (aiohttp.ClientError, HttpProcessingError, OSError):  # TimeoutError is an OSError
        pass
    finally:
        response.close()


def _literal(host: str) -> Sequence[Address] | None:
    """The address that a host is, written in digits."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return ((socket.AF_INET if found.version == 4 else socket.AF_INET6, host),)
