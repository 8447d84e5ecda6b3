"""Telling the people who run Pepper what they must know at once: a cap nearly or wholly spent, a model that is away.

Every process notes what it sees of its own circuits; one of them looks at the spending and tells, for all nodes. Without
an address nothing is noted. No call ever waits for it, and what can't be delivered is tried again a few times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from gateway.chain.circuit import Circuits
from gateway.chain.current import Current
from gateway.chain.duty import Duty
from gateway.chain.errands import Errands
from gateway.domain.alerts import Alert, AlertKind, Channel, Letter, Pending, reached
from gateway.domain.clock import Clock
from gateway.domain.errors import StoreAwayError
from gateway.domain.notices import UNREADABLE_SECRET, Delivery
from gateway.domain.operator_settings import ALERT_SECRET, MAIL_PASSWORD, PanelSettings
from gateway.domain.sandbox import SANDBOX_PROVIDER
from gateway.notices.courier import Courier
from gateway.notices.mail import Postman
from gateway.storage.alerts import Alerts
from gateway.storage.reports import Reports
from gateway.storage.sealing import Seal, SealBrokenError

DUTY = "alerts"
WORK_SECONDS = 2.0
TOLD_AT_ONCE = 8
KEPT = timedelta(days=30)
"""How long it is remembered what was told."""
TEST_SUBJECT = "pannello"

log = logging.getLogger(__name__)


class Alerting:
    """Notices and tells."""

    def __init__(
        self,
        *,
        current: Current,
        duty: Duty,
        circuits: Circuits,
        alerts: Alerts,
        reports: Reports,
        courier: Courier,
        postman: Postman,
        encode: Callable[[Alert], bytes],
        write: Callable[[Alert], Letter],
        seal: Seal,
        zone: ZoneInfo,
        now: Clock,
    ) -> None:
        self._current = current
        self._duty = duty
        self._circuits = circuits
        self._alerts = alerts
        self._reports = reports
        self._courier = courier
        self._postman = postman
        self._encode = encode
        self._write = write
        self._seal = seal
        self._zone = zone
        self._now = now
        self._telling = Errands("alerts", TOLD_AT_ONCE)
        self._noted: set[tuple[date, AlertKind, str, Channel]] = set()
        """What this process knows to be in the database."""
        self._told: set[str] = set()
        """What was told while the database could not be told so."""

    async def work(self) -> None:
        """Note what there is to tell and begin to tell what is due. Called every few seconds; waits for no server."""
        if not self._current.healthy:
            return
        channels = channels_of(self._current.snapshot.settings)
        if not channels:
            return
        now = self._now()
        day = now.astimezone(self._zone).date()
        self._noted = {one for one in self._noted if one[0] >= day}
        for provider, model in self._circuits.open_ones():
            if provider != SANDBOX_PROVIDER:
                await self._note(AlertKind.CIRCUIT, f"{provider}/{model}", day, channels, now)
        if not await self._duty.is_mine():
            return
        await self._look_at_spending(day, channels, now)
        for pending in await self._alerts.pending(day - timedelta(days=1)):
            if pending.channel in channels and pending.is_due(now):
                self._telling.begin(pending.key, partial(self._tell, pending))

    async def try_out(self, settings: PanelSettings) -> Mapping[Channel, Delivery]:
        """Send a test on every way that is set, now; gives what came of each."""
        now = self._now()
        day = now.astimezone(self._zone).date()
        alert = Alert(kind=AlertKind.TEST, subject=TEST_SUBJECT, day=day, at=now)
        return {channel: await self._deliver(settings, channel, alert) for channel in channels_of(settings)}

    async def forget_old(self) -> None:
        """Forget what was told long ago."""
        await self._alerts.forget((self._now() - KEPT).date())

    async def stop(self) -> None:
        """Break off what is under way, and leave the rest to another process."""
        await self._telling.stop()
        with suppress(StoreAwayError):
            await self._duty.leave()

    async def _look_at_spending(self, day: date, channels: Collection[Channel], now: datetime) -> None:
        projects = self._current.snapshot.projects
        if not any(project.daily_budget for project in projects.values()):
            return
        for spending in await self._reports.spending(day, day):
            project = projects.get(spending.project)
            kind = reached(spending.settled, project.daily_budget) if project else None
            if kind is not None:
                await self._note(kind, spending.project, day, channels, now)

    async def _note(
        self, kind: AlertKind, subject: str, day: date, channels: Collection[Channel], now: datetime
    ) -> None:
        fresh = [one for one in channels if (day, kind, subject, one) not in self._noted]
        if fresh:
            await self._alerts.note(kind, subject, day, fresh, now)
            self._noted.update((day, kind, subject, one) for one in fresh)

    async def _tell(self, pending: Pending) -> None:
        if pending.key not in self._told:
            alert = await self._alert(pending)
            if alert is None:
                await self._alerts.give_up(pending)
                return
            if not await self._alerts.take(pending):
                return
            delivery = await self._deliver(self._current.snapshot.settings, pending.channel, alert)
            if not delivery.delivered:
                last = ", given up" if pending.last else ""
                log.warning(
                    "an alert was not delivered by %s (%s)%s",
                    pending.channel,
                    delivery.outcome,
                    last,
                    extra={"code": alert.id},
                )
                return
            self._told.add(pending.key)
        await self._alerts.told(pending, self._now())
        self._told.discard(pending.key)

    async def _alert(self, pending: Pending) -> Alert | None:
        """What is to be told, with the amounts of now; None when it isn't true any more."""
        alert = Alert(kind=pending.kind, subject=pending.subject, day=pending.day, at=pending.at)
        if pending.kind is AlertKind.CIRCUIT:
            return alert
        project = self._current.snapshot.projects.get(pending.subject)
        if project is None or not project.daily_budget:
            return None
        found = await self._reports.spending(pending.day, pending.day)
        spent = next((one.settled for one in found if one.project == pending.subject), 0)
        return Alert(
            kind=alert.kind,
            subject=alert.subject,
            day=alert.day,
            at=alert.at,
            spent=spent,
            cap=project.daily_budget,
        )

    async def _deliver(self, settings: PanelSettings, channel: Channel, alert: Alert) -> Delivery:
        try:
            if channel is Channel.MAIL:
                return await self._mail(settings, alert)
            return await self._post(settings, alert)
        except SealBrokenError:
            return Delivery(outcome=UNREADABLE_SECRET)

    async def _mail(self, settings: PanelSettings, alert: Alert) -> Delivery:
        if settings.mail is None:
            raise ValueError("there is no mail server")
        sealed = settings.mail_password
        password = None if sealed is None else self._seal.open(MAIL_PASSWORD, sealed)
        return await self._postman.deliver(
            settings.mail,
            password,
            settings.recipients,
            self._write(alert),
            name=alert.id,
            at=alert.at.astimezone(self._zone),
        )

    async def _post(self, settings: PanelSettings, alert: Alert) -> Delivery:
        if settings.alert_url is None or settings.alert_secret is None:
            raise ValueError("there is no address for alerts")
        secret = self._seal.open(ALERT_SECRET, settings.alert_secret)
        return await self._courier.deliver(settings.alert_url, secret, alert.id, self._encode(alert))


def channels_of(settings: PanelSettings) -> tuple[Channel, ...]:
    """On which ways alerts are told."""
    ways = ((Channel.MAIL, settings.mails), (Channel.WEBHOOK, settings.posts))
    return tuple(channel for channel, used in ways if used)
