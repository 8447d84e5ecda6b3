"""Where a provider is asked and with which headers, learned once from its SDK instead of being written down here.

The SDK is imported in a thread at the first call (or by `warm`), asked to send an empty request into a client that
reaches nobody, and what it would have sent is kept: its URL, its key, its version and its other headers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from gateway.providers import failures
from gateway.providers.transport import Outgoing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2

Sdk = TypeVar("Sdk")


class Upstream(Generic[Sdk]):
    """One provider's SDK client and what it sends.

    Args:
        name: Prefix of the provider's variables in the environment.
        key: The API key; white space around it is not part of it.
        make: Imports the SDK and makes its client; called in a thread.
        send: Has that client send an empty request through the given HTTP client.

    """

    def __init__(
        self,
        name: str,
        key: str | None,
        make: Callable[[str], Sdk],
        send: Callable[[Sdk, httpx2.AsyncClient], Awaitable[object]],
    ) -> None:
        self._name = name
        self._key = (key or "").strip()
        self._make = make
        self._send = send
        self._lock = asyncio.Lock()
        self._sdk: Sdk | None = None
        self._outgoing: Outgoing | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a key that can be sent."""
        return bool(self._key) and self._key.isascii() and self._key.isprintable()

    async def sdk(self) -> Sdk:
        """Give the SDK's client, for what is not hot.

        Raises:
            ProviderError: There is no key.

        """
        if not self.ready:
            raise failures.not_configured(f"{self._name}_API_KEY")
        async with self._lock:
            if self._sdk is None:
                self._sdk = await asyncio.to_thread(self._make, self._key)
            return self._sdk

    async def outgoing(self) -> Outgoing:
        """Give address and headers of the hot call.

        Raises:
            ProviderError: There is no key, or the base URL is none.

        """
        if self._outgoing is None:
            self._outgoing = await self._observe(await self.sdk())
        return self._outgoing

    async def _observe(self, sdk: Sdk) -> Outgoing:
        import httpx2  # noqa: PLC0415 - imported by the SDK already

        seen: list[httpx2.Request] = []

        def note(request: httpx2.Request) -> httpx2.Response:
            seen.append(request)
            return httpx2.Response(200, json={})

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(note), trust_env=False) as nowhere:
            await self._send(sdk, nowhere)
        url = _address(str(seen[0].url))
        if url is None:
            raise failures.bad_address(f"{self._name}_BASE_URL")
        proxy = environment_proxy(url)
        if proxy and not proxy.startswith(("http://", "https://")):
            raise failures.bad_proxy()
        headers = dict(seen[0].headers)
        # The length belongs to the empty request.
        del headers["content-length"]
        return Outgoing(url=url, headers=headers, proxy=proxy)


def _address(text: str) -> URL | None:
    try:
        url = URL(text, encoded=True)
        # A port that is none is noticed only here.
        return url if url.scheme in {"http", "https"} and url.host else None
    except ValueError:
        return None


def environment_proxy(url: URL) -> str | None:
    """Give the proxy that the environment (or the system) names for an address, as the SDKs' own client does."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or (url.host and proxy_bypass(url.host)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
