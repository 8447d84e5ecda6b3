"""Claude behind the port: one attempt per `stream`, asked over the shared transport as Anthropic's SDK would ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.providers.asking import ask
from gateway.providers.claude.batches import ClaudeBatches
from gateway.providers.claude.blocks import document_names
from gateway.providers.claude.events import ClaudeReader
from gateway.providers.claude.request import MessageRequest, message_request
from gateway.providers.claude.search import search_of
from gateway.providers.claude.turns import tell_turns
from gateway.providers.shapes import form_of
from gateway.providers.upstream import SdkRequest, Upstream

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.events import ProviderEvents
    from gateway.providers.transport import Transport

_SDK = "gateway.providers.claude.sdk"
_encode = msgspec.json.Encoder().encode


class Claude(ClaudeBatches):
    """Anthropic's models.

    Args:
        transport: Shared by all providers; opened and closed by who made it.
        key: `ANTHROPIC_API_KEY`, or what an owner has set where there is none; nothing else in the environment or on
            the disk is used instead.
        base_url: `ANTHROPIC_BASE_URL`; None is the SDK's choice.

    """

    name = "claude"

    def __init__(self, transport: Transport, key: str | None, base_url: str | None = None) -> None:
        self._transport = transport
        self._upstream = Upstream("ANTHROPIC", key, SdkRequest(_SDK, base_url))

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
        """Ask once; an answer that Claude pauses is continued."""
        form = form_of(call.shape)
        search = search_of(call)
        upstream = self._upstream  # also for the turns that follow a pause
        reader = ClaudeReader(form, documents=document_names(call), searching=search is not None)

        def ask_once(request: MessageRequest) -> ProviderEvents:
            return ask(self._transport, upstream, lambda: _encode(request), reader, streamed=call.watched)

        request = message_request(call, target, form)
        return ask_once(request) if search is None else tell_turns(ask_once, request, reader, search)
