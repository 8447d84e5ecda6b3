"""A provider's key changed while it works: the next call has it, a client is made anew only for another key."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.ports import ProviderError
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from gateway.providers.transport import Transport


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    transport = Transport()
    await transport.open()
    yield transport
    await transport.aclose()


@pytest.mark.parametrize("kind", [Claude, OpenAI])
async def test_another_key_makes_another_client_and_the_same_none(
    transport: Transport, kind: type[Claude | OpenAI]
) -> None:
    provider = kind(transport, None)
    ready = [provider.ready]
    with pytest.raises(ProviderError):
        await provider.sdk()
    provider.use_key("uno")
    ready.append(provider.ready)
    first = await provider.sdk()
    assert first.api_key == "uno"
    provider.use_key("uno")
    assert await provider.sdk() is first
    provider.use_key("due")
    second = await provider.sdk()
    assert (second.api_key, first.api_key) == ("due", "uno")
    provider.use_key(None)
    ready.append(provider.ready)
    assert ready == [False, True, False]
    with pytest.raises(ProviderError):
        await provider.sdk()
