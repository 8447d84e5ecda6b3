"""What owners set in the panel: the providers' keys, where alerts go, how long conversations are kept.

Secrets are here only as they are kept: sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

CONVERSATION_DAYS = 180
"""How long conversations are kept unless an owner says otherwise."""
LONGEST_CONVERSATION_DAYS = 3_650
MOST_RECIPIENTS = 20
ENDING_CHARACTERS = 4
"""What is shown of a key that was set, of one that is long enough to hide the rest."""
SHORTEST_SHOWN_KEY = 20

MAIL_PASSWORD = "password of the mail server"  # noqa: S105 - what it is sealed for
ALERT_SECRET = "signature of alerts"  # noqa: S105 - likewise


class Security(StrEnum):
    """How the mail server is spoken to."""

    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"


class KeptKey(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's key that was set in the panel. `ending` is the little that is shown of it."""

    ending: str
    sealed: bytes
    set_at: datetime


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes mail from us, and whom it is from; `user` is empty where no login is asked for."""

    host: str
    port: int
    security: Security
    user: str = ""
    sender: str


class PanelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that owners have set.

    Attributes:
        keys: The providers' keys, by provider.
        conversation_days: How long a conversation is kept that nobody touches.
        recipients: Addresses that alerts are mailed to.
        mail_password: Sealed.
        alert_url: Where alerts are posted, or None.
        alert_secret: What signs them, sealed.

    """

    keys: Mapping[str, KeptKey] = {}
    conversation_days: int = CONVERSATION_DAYS
    recipients: tuple[str, ...] = ()
    mail: MailServer | None = None
    mail_password: bytes | None = None
    alert_url: str | None = None
    alert_secret: bytes | None = None

    @property
    def mails(self) -> bool:
        """Whether alerts can be mailed."""
        return self.mail is not None and bool(self.recipients)

    @property
    def posts(self) -> bool:
        """Whether alerts are posted to an address."""
        return self.alert_url is not None


def key_purpose(provider: str) -> str:
    """What a provider's key is sealed for."""
    return f"key of {provider}"


def ending_of(key: str) -> str:
    """The little that may be shown of a key."""
    return key[-ENDING_CHARACTERS:] if len(key) >= SHORTEST_SHOWN_KEY else ""
