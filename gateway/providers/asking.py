"""One request to a provider, the same for all that speak HTTP: ask, read, tell, let go.

What the provider says about consumption is told even when the answer turns out to be none; the connection is gone
when the sequence is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.domain.events import Metered
from gateway.domain.usage import Usage
from gateway.ports import ProviderError
from gateway.providers.sse import EventParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.domain.events import ProviderEvent, ProviderEvents
    from gateway.providers.transport import Transport
    from gateway.providers.upstream import Upstream


class Reader(Protocol):
    """Understands the replies of one provider; pure, and right about `usage` whenever it raises."""

    @property
    def usage(self) -> Usage:
        """What the attempt has consumed so far."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the reply has been read to its end."""
        ...

    def whole(self, body: bytes) -> Iterable[ProviderEvent]:
        """Read a reply that was not streamed.

        Raises:
            ProviderError: It is no answer.

        """
        ...

    def event(self, data: bytes) -> Iterable[ProviderEvent]:
        """Read the data of one event of a stream.

        Raises:
            ProviderError: It tells an error, or is none.

        """
        ...

    def end(self) -> Iterable[ProviderEvent]:
        """Read the end of a stream that came before the reply was complete.

        Raises:
            ProviderError: It came too early.

        """
        ...


async def ask(
    transport: Transport,
    upstream: Upstream,
    body: Callable[[], bytes],
    reader: Reader,
    *,
    streamed: bool,
) -> ProviderEvents:
    """Send a request once and tell what comes of it.

    Args:
        transport: Sends it.
        upstream: Where to.
        body: Makes the request's body, which may be large: it is made last and let go of first.
        reader: Understands the reply.
        streamed: Whether the reply comes in events.

    Raises:
        ProviderError: While iterating, at any point.

    """
    outgoing = await upstream.outgoing()
    reply = await transport.post(outgoing, body())
    metered = Usage()
    try:
        if not streamed:
            for event in reader.whole(await reply.whole()):
                yield event
            return
        parser = EventParser()
        while not reader.complete:
            chunk = await reply.some()
            if not chunk:
                for event in reader.end():
                    yield event
                return
            for data in parser.feed(chunk):
                for event in reader.event(data):
                    yield event
                    if isinstance(event, Metered):
                        metered = event.usage
    except ProviderError:
        if reader.usage != metered:
            yield Metered(reader.usage)
        raise
    finally:
        reply.close(complete=reader.complete)
