"""Where a provider is asked and with which headers, learned once from its SDK instead of being written down here.

The SDK is given a stand-in for the key, whose place the key takes afterwards: another key asks no SDK again, and none
leaves this process but to the provider.
"""

from __future__ import annotations

import asyncio
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from gateway.providers import failures, sdk_process
from gateway.providers.sdk_process import Question, Sent
from gateway.providers.transport import Outgoing

STAND_IN = "the-key-stands-here"


class SdkRequest:
    """What an SDK sends with the stand-in as its key: asked once, by whoever needs it first.

    Args:
        sdk: The module whose process knows it.
        base_url: None is the SDK's choice.

    """

    def __init__(self, sdk: str, base_url: str | None) -> None:
        self._sdk = sdk
        self._question = Question(STAND_IN, base_url or None)
        self._asking: asyncio.Task[Sent] | None = None
        self._sent: Sent | None = None

    async def sent(self) -> Sent:
        """Give it.

        Raises:
            ProviderError: The SDK can't be asked.

        """
        if self._sent is not None:
            return self._sent
        asking = self._asking
        if asking is None:
            asking = self._asking = asyncio.create_task(sdk_process.ask(self._sdk, self._question))
            asking.add_done_callback(self._told)
        return await asyncio.shield(asking)  # others may wait for it too

    def _told(self, asking: asyncio.Task[Sent]) -> None:
        self._asking = None  # what failed is tried again by the next call
        if not asking.cancelled() and asking.exception() is None:
            self._sent = asking.result()


class Upstream:
    """One provider, asked with one key.

    Args:
        name: Prefix of the provider's variables in the environment.
        key: The API key; white space around it is not part of it.
        request: What its SDK sends.

    """

    def __init__(self, name: str, key: str | None, request: SdkRequest) -> None:
        self.key = key
        self._name = name
        self._sendable = (key or "").strip()
        self._request = request
        self._outgoing: Outgoing | None = None

    def with_key(self, key: str | None) -> Upstream:
        """Give the same provider, asked with another key."""
        return Upstream(self._name, key, self._request)

    @property
    def ready(self) -> bool:
        """Whether there is a key that can be sent."""
        key = self._sendable
        return bool(key) and key.isascii() and key.isprintable()

    async def outgoing(self) -> Outgoing:
        """Give address and headers of the hot call.

        Raises:
            ProviderError: There is no key, the base URL is none, or the SDK can't be asked.

        """
        if self._outgoing is None:
            if not self.ready:
                raise failures.not_configured(f"{self._name}_API_KEY")
            self._outgoing = self._addressed(await self._request.sent())
        return self._outgoing

    def _addressed(self, sent: Sent) -> Outgoing:
        url = None if sent.url is None else _address(sent.url)
        if url is None:
            raise failures.bad_address(f"{self._name}_BASE_URL")
        proxy = environment_proxy(url)
        if proxy and not proxy.startswith(("http://", "https://")):
            raise failures.bad_proxy()
        headers = {
            name: value.replace(STAND_IN, self._sendable)
            for name, value in sent.headers.items()
            if name != "content-length"  # of the empty request
        }
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
