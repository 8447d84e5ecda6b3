"""The providers' keys: the environment's, or what an owner has set in the panel where it has none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from gateway.domain.operator_settings import PanelSettings
from gateway.ports import ProviderError
from gateway.settings import Settings
from gateway.storage.operator_settings import opened_keys
from gateway.storage.sealing import Seal

log = logging.getLogger(__name__)


class Keyed(Protocol):
    """A provider that is asked with a key."""

    name: str

    def use_key(self, key: str | None) -> bool:
        """Ask with this key from the next call on; False if it is the same."""
        ...

    async def warm(self) -> None:
        """Load what the first call would wait for.

        Raises:
            ProviderError: It can't be asked; the next call says so.

        """
        ...


class ProviderKeys:
    """Gives the providers their keys, at the start and whenever an owner changes one."""

    def __init__(self, settings: Settings, seal: Seal, *providers: Keyed) -> None:
        given = keys_of_environment(settings)
        self._seal = seal
        self._providers = providers
        self._without = tuple(one for one in providers if not given[one.name])
        self._unreadable: frozenset[str] = frozenset()
        self._news = asyncio.Event()
        self._read = False

    def adopt(self, settings: PanelSettings) -> None:
        """Take over what is set in the panel now; a key that does not open is none, and said in the log."""
        keys = opened_keys(settings, self._seal)
        unreadable = frozenset(provider for provider, key in keys.items() if key is None)
        for name in sorted(unreadable - self._unreadable):
            log.warning("the key of %s that was set in the panel does not open: set it again", name)
        self._unreadable = unreadable
        changed = [provider.use_key(keys.get(provider.name)) for provider in self._without]
        if any(changed) or not self._read:
            self._read = True
            self._news.set()

    async def keep_warm(self, loaded: Callable[[], None]) -> None:
        """Warm the providers whenever one may have got a key, until cancelled; `loaded` is told after the first time."""
        while True:
            await self._news.wait()
            self._news.clear()
            # What can't be asked says so at the next call.
            await asyncio.gather(*(_warmed(provider) for provider in self._providers))
            loaded()
            loaded = _nothing


async def _warmed(provider: Keyed) -> None:
    with suppress(ProviderError):
        await provider.warm()


def _nothing() -> None:
    """What there is to say after the first time."""


def keys_of_environment(settings: Settings) -> Mapping[str, str | None]:
    """Give the keys that the environment holds, by provider."""
    return {"claude": settings.anthropic_key, "openai": settings.openai_key}


def keys_in_force(settings: Settings, panel: PanelSettings, seal: Seal) -> Mapping[str, str | None]:
    """Give each provider's key as calls use it: the environment's goes first."""
    set_in_panel = opened_keys(panel, seal)
    return {
        provider: key or set_in_panel.get(provider) for provider, key in keys_of_environment(settings).items()
    }
