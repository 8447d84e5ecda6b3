"""OpenAI behind the port: one attempt per `stream`, asked over the shared transport as OpenAI's SDK would ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.providers.asking import ask
from gateway.providers.openai.batches import OpenAIBatches
from gateway.providers.openai.events import OpenAIReader
from gateway.providers.openai.request import chat_request
from gateway.providers.shapes import form_of
from gateway.providers.upstream import SdkRequest, Upstream

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.events import ProviderEvents
    from gateway.providers.transport import Transport

_SDK = "gateway.providers.openai.sdk"
_encode = msgspec.json.Encoder().encode


class OpenAI(OpenAIBatches):
    """OpenAI's models, or those of a server that speaks like it.

    Args:
        transport: Shared by all providers; opened and closed by who made it.
        key: `OPENAI_API_KEY`, or what an owner has set where there is none; nothing else is used instead.
        base_url: `OPENAI_BASE_URL`, with its `/v1`; None is the SDK's choice.

    """

    name = "openai"

    def __init__(self, transport: Transport, key: str | None, base_url: str | None = None) -> None:
        self._transport = transport
        self._upstream = Upstream("OPENAI", key, SdkRequest(_SDK, base_url))

    def use_key(self, key: str | None) -> bool:
        """Ask with this key from the next call on; running ones go on with theirs. False for the same key: nothing changes."""
        if key == self._upstream.key:
            return False
        self._upstream = self._upstream.with_key(key)
        return True

    @property
    def ready(self) -> bool:
        """Whether a usable key is configured."""
        return self._upstream.ready

    async def warm(self) -> None:
        """Ask the SDK now what it sends, so that the first call doesn't wait for it; without a key there is no need."""
        if self.ready:
            await self._upstream.outgoing()

    def stream(self, call: ModelCall, target: Target) -> ProviderEvents:
        """Ask once."""
        form = form_of(call.shape)

        def body() -> bytes:
            return _encode(chat_request(call, target, form))

        return ask(self._transport, self._upstream, body, OpenAIReader(form), streamed=call.watched)

    async def post(self, path: str, body: bytes) -> bytes:
        """Post JSON to another path of the API, once, and give the body of its 2xx reply.

        Raises:
            ProviderError: There was none.

        """
        outgoing = await self._upstream.outgoing()
        place = outgoing.url.parent.parent / path
        reply = await self._transport.post(msgspec.structs.replace(outgoing, url=place), body)
        whole = None
        try:
            whole = await reply.whole()
        finally:
            reply.close(complete=whole is not None)
        return whole
