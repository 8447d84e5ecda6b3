"""Removing a project for good, from every store: what the command line and the panel do alike.

The workers learn of it first, so that no call is written under the name after it has gone; an interrupted removal is
completed by removing the project again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gateway.domain.clock import Clock
from gateway.domain.tenants import Operator
from gateway.ports import Gate, VectorIndex
from gateway.storage.nodes import Nodes
from gateway.storage.refusals import UnknownError
from gateway.storage.tenants import Tenants

LIVE_SECONDS = 15.0
"""A node heard of since then may still be serving."""
CHANGE_SECONDS = 2.0
"""Until every worker knows of a change."""


class Removal:
    """Removes projects."""

    def __init__(self, tenants: Tenants, nodes: Nodes, gate: Gate, index: VectorIndex, now: Clock) -> None:
        self._tenants = tenants
        self._nodes = nodes
        self._gate = gate
        self._index = index
        self._now = now

    async def remove(self, name: str, by: Operator) -> str:
        """Remove a project; gives the label that stands for it in the ledger.

        Raises:
            UnknownError: There is no such project; what an interrupted removal may have left of it is gone all the same.
            RefusalError: It belongs to the gateway.
            StoreAwayError: A store is away: nothing was begun, or it is completed by removing the project again.

        """
        # Nothing is begun that another store would keep from being finished.
        await self._gate.ping()
        await self._index.ping()
        if await self._nodes.live_nodes(LIVE_SECONDS):
            with suppress(UnknownError):
                if not (await self._tenants.get_project(name)).internal:
                    await self._tenants.disable_project(name, by, self._now())
                    await asyncio.sleep(CHANGE_SECONDS)
        try:
            label = await self._tenants.remove_project(name, by, self._now())
        except UnknownError:
            # Perhaps an earlier removal was interrupted between the stores.
            await self._forget(name)
            raise
        await self._forget(name)
        return label

    async def _forget(self, name: str) -> None:
        await self._index.forget_project(name)
        await self._gate.forget_project(name)
