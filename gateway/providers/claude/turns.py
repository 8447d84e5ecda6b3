"""An answer that Claude pauses (`pause_turn`) while it searches the web, told as the one answer it is.

What Claude has said and found goes back unchanged and it is asked to go on, with what is left of its searches and its
tokens, so that all requests together stay within what one call may consume. When nothing is left the answer ends with
what there is.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from gateway.providers.claude.request import MessageRequest, continued_request
from gateway.providers.claude.search import search_tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.domain.calls import Search
    from gateway.domain.events import ProviderEvents
    from gateway.providers.claude.events import ClaudeReader

MOST_REQUESTS = 6
"""A model that pauses again and again without searching has to end some time."""


async def tell_turns(
    ask_once: Callable[[MessageRequest], ProviderEvents],
    request: MessageRequest,
    reader: ClaudeReader,
    search: Search,
) -> ProviderEvents:
    """Ask, and ask to go on as often as it takes.

    Raises:
        ProviderError: While iterating, at any point.

    """
    following = request
    for _ in range(MOST_REQUESTS):
        before = reader.usage.total_input
        async with aclosing(ask_once(following)) as events:
            async for event in events:
                yield event
        if not reader.paused:
            return
        continued = _continued(request, reader, search, reader.usage.total_input - before)
        if continued is None:
            break
        following = continued
        reader.resume()
    for event in reader.conclude():
        yield event


def _continued(
    request: MessageRequest, reader: ClaudeReader, search: Search, last_input: int
) -> MessageRequest | None:
    """Give the next request; None when it may not be made: what it sends again must fit what is reserved too.

    A search that failed may be missing from Claude's count and used up a turn all the same.
    """
    usage, content = reader.usage, reader.content
    left = search.most - max(usage.searches, reader.searched)
    if left < 1 or usage.total_input + last_input > search.most_input_tokens or not content:
        return None
    return continued_request(
        request, content, tokens=request.max_tokens - usage.output_tokens, tool=search_tool(search, left)
    )
