"""The protocol's server in a process: loaded with the first call, because its library takes a second of processor time
and some 20 MB that a gateway whose agents speak REST need not pay; alive until the application stops.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gateway.routes.dilem.mcp.calls import Calls

if TYPE_CHECKING:
    from gateway.routes.dilem.mcp.protocol import Protocol

PROTOCOL = "gateway.routes.dilem.mcp.protocol"

log = logging.getLogger(__name__)


class Running:
    """One protocol server, started when it is wanted, and again should it ever end by itself."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Protocol] | None = None

    @asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """Within the application's life: at its end the server ends."""
        try:
            yield
        finally:
            self._stop.set()
            if self._task is not None:
                await asyncio.wait({self._task})

    async def protocol(self) -> Protocol:
        """Give the running server."""
        if self._ready is None or self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._live(self._ready))
            self._task.add_done_callback(self._ended)
        # A caller who gives up must not take the others' server along.
        return await asyncio.shield(self._ready)

    async def _live(self, ready: asyncio.Future[Protocol]) -> None:
        module = await asyncio.to_thread(importlib.import_module, PROTOCOL)
        protocol: Protocol = module.Protocol(self._calls)
        async with protocol.running():
            ready.set_result(protocol)
            await self._stop.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("the protocol's server ended", exc_info=error)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error or asyncio.CancelledError())
