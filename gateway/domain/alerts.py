"""Alerts: what the people who run Pepper are told at once, each thing once a day on each way."""

from __future__ import annotations

import hashlib
from datetime import date, datetime, timedelta
from enum import StrEnum

import msgspec

NEAR_PERCENT = 80
"""Of a day's cap."""
SUBJECT_CHARACTERS = 128
AFTER_SECONDS = (0, 60, 360, 2_160, 9_360)
"""When each attempt is due, from the moment something was noticed; then the alert is given up."""


class AlertKind(StrEnum):
    """What has happened. The values stand on the wire and in the database."""

    CAP_NEAR = "tetto_80"
    CAP_REACHED = "tetto_100"
    CIRCUIT = "circuito_aperto"
    TEST = "prova"


class Channel(StrEnum):
    """How somebody is told."""

    MAIL = "mail"
    WEBHOOK = "webhook"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell.

    Attributes:
        subject: The project; or provider and model, with a slash between.
        day: The day of the gateway's time zone.
        spent: Micro-dollars that the project has spent that day.
        cap: Micro-dollars that it may spend.

    """

    kind: AlertKind
    subject: str
    day: date
    at: datetime
    spent: int = 0
    cap: int = 0

    @property
    def id(self) -> str:
        """The same at every attempt: `all_` and 24 hexadecimal characters."""
        named = f"{self.day}\n{self.kind}\n{self.subject}"
        if self.kind is AlertKind.TEST:
            named += f"\n{self.at.isoformat()}"
        return f"all_{hashlib.sha256(named.encode()).hexdigest()[:24]}"


class Letter(msgspec.Struct, frozen=True):
    """A mail's subject, of one line, and its plain text."""

    subject: str
    text: str


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One alert on one way, not told yet. `attempts` were made."""

    day: date
    kind: AlertKind
    channel: Channel
    subject: str
    at: datetime
    attempts: int

    @property
    def key(self) -> str:
        """Names it among all."""
        return f"{self.day} {self.kind} {self.channel} {self.subject}"

    def is_due(self, now: datetime) -> bool:
        """Whether it is to be tried now."""
        return self.attempts < len(AFTER_SECONDS) and now >= self.at + timedelta(
            seconds=AFTER_SECONDS[self.attempts]
        )

    @property
    def last(self) -> bool:
        """Whether no attempt follows the next one."""
        return self.attempts + 1 >= len(AFTER_SECONDS)


def reached(spent: int, cap: int | None) -> AlertKind | None:
    """Which part of the day's cap is reached, the larger one only; None of a project without a cap, or with none to spend."""
    if not cap:
        return None
    if spent >= cap:
        return AlertKind.CAP_REACHED
    return AlertKind.CAP_NEAR if spent * 100 >= cap * NEAR_PERCENT else None
