"""Who judges the daily caps: the gate, or the database for a while after the gate was lost.

The gate's totals cannot be believed after an outage (settlements are missing in them), and two judges at once would
let a day's spending pass the cap. So the database rules for one lease from the moment any process lost the gate: the
reign stands in the database, every process sees it within a second, writes its living reservations there, and no
capped call is admitted before all had that second. Each reign has a number, the epoch: totals and reservations in
the gate carry it, so that what the gate knew before is never used again.
"""

from __future__ import annotations

import time

from gateway.domain.errors import StoreAwayError
from gateway.ports import RESERVATION_SECONDS
from gateway.storage.configuration import Installation
from gateway.storage.nodes import Nodes

SETTLING_SECONDS = 2.5
"""From the beginning of a reign until capped calls are admitted: all processes have written their reservations."""
UNKNOWN_EPOCH = -1
RENEW_WHEN_LEFT = RESERVATION_SECONDS / 2


class BudgetJudge:
    """This process's view of who judges."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.epoch = UNKNOWN_EPOCH
        self._until = 0.0
        self._began = 0.0

    @property
    def in_database(self) -> bool:
        """Whether the database judges now."""
        return time.monotonic() < self._until

    @property
    def settling(self) -> float:
        """Seconds until capped calls may be admitted in this reign; zero or less when they may."""
        return self._began + SETTLING_SECONDS - time.monotonic()

    def adopt(self, installation: Installation) -> bool:
        """Take over what the database says; True when a new reign has begun."""
        now = time.monotonic()
        left = 0.0
        if installation.database_until is not None:
            left = (installation.database_until - installation.now).total_seconds()
        self._until = now + left
        if installation.budget_epoch == self.epoch:
            return False
        first_sight, self.epoch = self.epoch == UNKNOWN_EPOCH, installation.budget_epoch
        if not first_sight and left > 0:
            self._began = now
        return not first_sight

    async def gate_lost(self) -> bool:
        """Begin or prolong the database's reign; True when a new one has begun.

        Raises:
            StoreAwayError: The database is away too: nobody can judge.

        """
        if self._until - time.monotonic() > RENEW_WHEN_LEFT:
            return False
        try:
            return self.adopt(await self._nodes.begin_database_reign(RESERVATION_SECONDS))
        except StoreAwayError:
            self._until = 0.0
            raise
