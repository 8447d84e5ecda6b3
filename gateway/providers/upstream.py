"""Where a provider is asked and with which headers, learned once from its SDK instead of being written down here."""

from __future__ import annotations

import asyncio
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from gateway.providers import failures, sdk_process
from gateway.providers.sdk_process import Question
from gateway.providers.transport import Outgoing


class Upstream:
    """One provider, and the key it is asked with.

    Args:
        name: Prefix of the provider's variables in the environment.
        key: The API key; white space around it is not part of it.
        base_url: None is the SDK's choice.
        sdk: The module whose process knows what the SDK sends.

    """

    def __init__(self, name: str, key: str | None, base_url: str | None, sdk: str) -> None:
        self._name = name
        self._key = (key or "").strip()
        self._base_url = base_url or None
        self._sdk = sdk
        self._learning: asyncio.Task[Outgoing] | None = None
        self._outgoing: Outgoing | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a key that can be sent."""
        return bool(self._key) and self._key.isascii() and self._key.isprintable()

    async def outgoing(self) -> Outgoing:
        """Give address and headers of the hot call.

        Raises:
            ProviderError: There is no key, the base URL is none, or the SDK can't be asked.

        """
        if self._outgoing is not None:
            return self._outgoing
        if not self.ready:
            raise failures.not_configured(f"{self._name}_API_KEY")
        learning = self._learning
        if learning is None:
            learning = self._learning = asyncio.create_task(self._learn())
            learning.add_done_callback(self._learned)
        return await asyncio.shield(learning)  # others may wait for it too

    async def _learn(self) -> Outgoing:
        sent = await sdk_process.ask(self._sdk, Question(self._key, self._base_url))
        url = None if sent.url is None else _address(sent.url)
        if url is None:
            raise failures.bad_address(f"{self._name}_BASE_URL")
        proxy = environment_proxy(url)
        if proxy and not proxy.startswith(("http://", "https://")):
            raise failures.bad_proxy()
        # The length belongs to the empty request.
        headers = {name: value for name, value in sent.headers.items() if name != "content-length"}
        return Outgoing(url=url, headers=headers, proxy=proxy)

    def _learned(self, learning: asyncio.Task[Outgoing]) -> None:
        self._learning = None  # what failed is tried again by the next call
        if not learning.cancelled() and learning.exception() is None:
            self._outgoing = learning.result()


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
