"""What Claude answers, whole or streamed, as the domain's events; pure, and thinking is never passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.domain.events import Metered, ProviderEvent, Searched, Searching, Stop
from gateway.domain.usage import Usage
from gateway.providers import failures
from gateway.providers.claude.citations import Citations
from gateway.providers.claude.content import StreamedContent, sendable, whole_content
from gateway.providers.claude.search import SEARCH_TOOL
from gateway.providers.claude.wire import (
    Block,
    Counts,
    Delta,
    decoded_block,
    decoded_event,
    decoded_message,
)
from gateway.providers.failures import ErrorDetail
from gateway.providers.telling import Teller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.providers.shapes import Form

_STOPS = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}
"""Every other reason (a tool of ours, a pause when there is nothing to search) can't be."""
_PAUSE = "pause_turn"


class ClaudeReader:
    """Reads one answer: one reply, or several when Claude pauses to be asked to go on.

    Args:
        form: Of a forced shape.
        documents: Full names of the documents sent.
        searching: Whether Claude may search the web, and so pause.

    """

    def __init__(
        self, form: Form | None, *, documents: tuple[str, ...] = (), searching: bool = False
    ) -> None:
        self.complete = False
        self.paused = False
        """Whether the reply that is complete is to be continued, or concluded."""
        self.searched = 0
        """Searches that have ended, with whatever result."""
        self._searching = searching
        self._teller = Teller(form)
        self._citations = Citations(documents)
        self._content = StreamedContent()
        self._kept: list[str] = []
        """The text of replies that were not streamed: it is told at the end, so that before it all can be retried."""
        self._earlier = Usage()
        self._usage = Usage()
        self._found = 0
        self._started = False
        self._stop_reason: str | None = None

    @property
    def usage(self) -> Usage:
        """All replies together: each is billed for all that was sent."""
        return self._earlier + self._usage

    @property
    def content(self) -> tuple[dict[str, Any], ...]:
        """All that Claude has said and found so far, as it is sent back."""
        return sendable(self._content.blocks)

    def resume(self) -> None:
        """Get ready for the reply that continues a paused one."""
        self._earlier, self._usage, self._found = self.usage, Usage(), 0
        self.complete = self.paused = self._started = False
        self._stop_reason = None

    def conclude(self) -> Iterable[ProviderEvent]:
        """End a paused answer with what there is.

        Raises:
            ProviderError: There is no text.

        """
        return self._end(Stop.TRUNCATED)

    def whole(self, body: bytes) -> Iterable[ProviderEvent]:
        """Read a message.

        Raises:
            ProviderError: It is none, or no answer.

        """
        message, blocks = decoded_message(body)
        events: list[ProviderEvent] = []
        for block in blocks:
            if block.type == "text":
                self._citations.block(block.citations)
                self._kept.append(block.text or "")
        if self._searching:
            content = whole_content(message.content)
            self._content.blocks += content
            for block, given in zip(blocks, content, strict=True):
                events += (*_search_begun(given), *self._search_ended(block))
        # After the blocks: Claude's own count of the searches is the one that is billed.
        self._usage = message.usage.over(self._usage)
        self._stop_reason = message.stop_reason
        return (*events, *self._finish())

    def event(self, data: bytes) -> Iterable[ProviderEvent]:
        """Read one event; kinds that are not known say nothing.

        Raises:
            ProviderError: It tells an error, or ends what is no answer.

        """
        event = decoded_event(data)
        match event.type:
            case "content_block_delta" if event.delta:
                return self._delta(event.delta)
            case "content_block_start" if event.content_block:
                return self._block(event.content_block)
            case "content_block_stop" if self._searching:
                return _search_begun(self._content.stop())
            case "message_start" if event.message:
                self._started = True
                return self._metered(event.message.usage)
            case "message_delta":
                if event.delta and event.delta.stop_reason:
                    self._stop_reason = event.delta.stop_reason
                return self._metered(event.usage) if event.usage else ()
            case "message_stop":
                if not self._started:
                    raise failures.faulty("a stream that ends without having begun")
                return self._finish()
            case "error":
                raise failures.of_event(event.error or ErrorDetail())
            case _:
                return ()

    def end(self) -> Iterable[ProviderEvent]:
        """Read an end without `message_stop`.

        Raises:
            ProviderError: Always.

        """
        raise failures.faulty("a stream without its end")

    # Blocks

    def _block(self, raw: msgspec.Raw) -> Iterable[ProviderEvent]:
        block = decoded_block(raw)
        if self._searching:
            self._content.start(raw)
        if block.type == "text":
            self._citations.block(block.citations)
            return self._teller.piece(block.text or "")
        return self._search_ended(block) if self._searching else ()

    def _delta(self, delta: Delta) -> Iterable[ProviderEvent]:
        if self._searching:
            self._content.add(delta)
        if delta.type == "text_delta":
            return self._teller.piece(delta.text or "")
        if delta.type == "citations_delta":
            self._citations.add(delta.citation)
        return ()

    def _search_ended(self, block: Block) -> Iterable[ProviderEvent]:
        if block.type != "web_search_tool_result" or not block.tool_use_id:
            return ()
        self.searched += 1
        if not block.failed:
            self._found += 1
            # Until Claude gives its count: should the answer be cut, what it did has been told.
            searches = max(self._usage.searches, self._found)
            self._usage = msgspec.structs.replace(self._usage, searches=searches)
        return (Searched(block.tool_use_id), Metered(self.usage))

    # Ends

    def _metered(self, counts: Counts) -> Iterable[ProviderEvent]:
        self._usage = counts.over(self._usage)
        return (Metered(self.usage),)

    def _finish(self) -> Iterable[ProviderEvent]:
        if self._searching and self._stop_reason == _PAUSE:
            self.complete = self.paused = True
            return (Metered(self.usage),)
        stop = _STOPS.get(self._stop_reason or "")
        if stop is None:
            raise failures.faulty("a message that stopped for no reason, or for one that can't be")
        return self._end(stop)

    def _end(self, stop: Stop) -> Iterable[ProviderEvent]:
        text = self._teller.piece("".join(self._kept))
        events = (*text, *self._teller.end(stop, self.usage, self._citations.told))
        self.complete = True
        return events


def _search_begun(block: dict[str, Any]) -> Iterable[ProviderEvent]:
    """Tell a web search whose query is complete."""
    call = block.get("id")
    if (
        block.get("type") != "server_tool_use"
        or block.get("name") != SEARCH_TOOL
        or not isinstance(call, str)
    ):
        return ()
    given = block.get("input")
    query = given.get("query") if isinstance(given, dict) else None
    return (Searching(call, query if isinstance(query, str) else ""),)
