"""A provider's key changed while it works: the next call has it, and what is known is not asked for again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.ports import ProviderError
from gateway.providers import sdk_process
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from gateway.providers.sdk_process import Question, Sent
from gateway.providers.transport import Transport
from gateway.providers.upstream import STAND_IN


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    transport = Transport()
    await transport.open()
    yield transport
    await transport.aclose()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys with which an SDK was asked."""
    asked: list[str] = []
    ask = sdk_process.ask

    async def noting(module: str, question: Question) -> Sent:
        asked.append(question.key)
        return await ask(module, question)

    monkeypatch.setattr(sdk_process, "ask", noting)
    return asked


@pytest.mark.parametrize("kind", [Claude, OpenAI])
async def test_the_next_call_has_the_new_key_and_the_same_key_changes_nothing(
    transport: Transport, kind: type[Claude | OpenAI], asked: list[str]
) -> None:
    async def shown() -> str:
        return (await provider._upstream.outgoing()).headers["authorization"]

    provider = kind(transport, None)
    ready = [provider.ready]
    with pytest.raises(ProviderError):
        await shown()
    assert provider.use_key("uno")
    ready.append(provider.ready)
    assert [await shown(), await shown()] == ["Bearer uno", "Bearer uno"]
    assert not provider.use_key("uno")
    assert await shown() == "Bearer uno"
    assert provider.use_key("due")
    assert await shown() == "Bearer due"
    assert provider.use_key(None)
    ready.append(provider.ready)
    assert ready == [False, True, False]
    with pytest.raises(ProviderError):
        await shown()
    assert asked == [STAND_IN], "the SDK is asked once, and never given a key"
