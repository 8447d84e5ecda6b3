"""Telling a project's own address that its deferred work has ended. Without such an address nothing here asks anybody.

One process does it for all nodes: it asks the providers about running batches, as a caller who collects would, and
brings every notice to its address until that says yes or the notice is given up. A notice stands in the database from
the moment its batch ends, so a process that dies loses none; it may be told twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from gateway.chain.batch_closing import KEPT, POLL_SECONDS, Closing
from gateway.chain.current import Current
from gateway.chain.duty import Duty
from gateway.chain.errands import Errands
from gateway.domain.batches import Batch
from gateway.domain.calls import Attempt, CallRecord, Outcome
from gateway.domain.clock import Clock
from gateway.domain.errors import Failure, StoreAwayError
from gateway.domain.notices import UNREADABLE_SECRET, Delivery, Notice, next_attempt, secret_purpose
from gateway.notices.courier import Courier
from gateway.storage.batches import Batches
from gateway.storage.notices import Notices
from gateway.storage.sealing import Seal, SealBrokenError

DUTY = "notices"
RECIPE = "avviso"
"""What stands for the recipe, and for the provider, in a notice's ledger rows."""
LONGEST_PAUSE_SECONDS = 300
PAUSE_BY_AGE = 30
"""A provider is asked about a batch after a thirtieth of the batch's age, within 20 seconds and 5 minutes."""
ASKED_AT_ONCE = 4
"""Results may be large."""
TOLD_AT_ONCE = 32

log = logging.getLogger(__name__)


class Notifying:
    """Asks and tells."""

    def __init__(
        self,
        *,
        current: Current,
        duty: Duty,
        closing: Closing,
        batches: Batches,
        notices: Notices,
        courier: Courier,
        encode: Callable[[Notice], bytes],
        seal: Seal,
        zone: ZoneInfo,
        now: Clock,
    ) -> None:
        self._current = current
        self._duty = duty
        self._closing = closing
        self._batches = batches
        self._notices = notices
        self._courier = courier
        self._encode = encode
        self._seal = seal
        self._zone = zone
        self._now = now
        self._asking = Errands("notices", ASKED_AT_ONCE)
        self._telling = Errands("notices", TOLD_AT_ONCE)

    async def work(self) -> None:
        """Begin what is due, if it is this process's to do. Called every second; waits for no provider and no address."""
        if not self._current.healthy:
            return
        projects = self._current.snapshot.notified
        if not projects or not await self._duty.is_mine():
            return
        now = self._now()
        await self._begin_asking(projects, now)
        for notice in await self._notices.due(projects, now):
            # One at a time for each project: a receiver that is slow keeps its own notices waiting.
            self._telling.begin(notice.project, partial(self._tell, notice))

    async def forget_old(self) -> None:
        """Delete notices as old as batches get."""
        await self._notices.delete_older_than(self._now() - KEPT)

    async def stop(self) -> None:
        """Break off what is under way, and leave the rest to another process."""
        await self._asking.stop()
        await self._telling.stop()
        with suppress(StoreAwayError):
            await self._duty.leave()

    async def _begin_asking(self, projects: Collection[str], now: datetime) -> None:
        for batch in await self._batches.running(projects, now - timedelta(seconds=POLL_SECONDS)):
            if (batch.polled_at or batch.created_at) + pause_for(now - batch.created_at) <= now:
                self._asking.begin(batch.number, partial(self._ask, batch))

    async def _ask(self, batch: Batch) -> None:
        self._current.require_database()
        with suppress(Failure):  # the log knows of it, and the next turn comes
            await self._closing.look(batch)

    async def _tell(self, notice: Notice) -> None:
        address = await self._notices.address(notice.project)
        if address is None:
            return
        url, sealed = address
        try:
            secret = self._seal.open(secret_purpose(notice.project), sealed)
        except SealBrokenError:
            delivery = Delivery(outcome=UNREADABLE_SECRET)
        else:
            delivery = await self._courier.deliver(url, secret, notice.id, self._encode(notice))
        now = self._now()
        again = None if delivery.delivered else next_attempt(now, notice.attempts + 1)
        if not delivery.delivered:
            last = "" if again else ", given up"
            log.warning(
                "a notice was not delivered (%s)%s", delivery.outcome, last, extra={"code": notice.id}
            )
        record = self._record(notice, delivery, now)
        await self._notices.told(notice, delivery, record, at=now, again=again)

    def _record(self, notice: Notice, delivery: Delivery, now: datetime) -> CallRecord:
        """The ledger row of an attempt: it costs nothing."""
        attempt = Attempt(
            provider=RECIPE, model="", outcome=delivery.outcome, duration_ms=delivery.duration_ms
        )
        return CallRecord(
            request_id=f"{notice.id}.{notice.attempts + 1}",
            project=notice.project,
            day=now.astimezone(self._zone).date(),
            started_at=now,
            recipe=RECIPE,
            recipe_version=0,
            outcome=Outcome.NOTIFIED if delivery.delivered else Outcome.NOT_NOTIFIED,
            provider=RECIPE,
            attempts=(attempt,),
            duration_ms=delivery.duration_ms,
            batch=notice.batch,
        )


def pause_for(age: timedelta) -> timedelta:
    """How long a provider is left alone about a batch of this age."""
    seconds = age.total_seconds() / PAUSE_BY_AGE
    return timedelta(seconds=min(max(seconds, POLL_SECONDS), LONGEST_PAUSE_SECONDS))
