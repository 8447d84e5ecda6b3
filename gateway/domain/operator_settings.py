"""What owners set in the panel: the providers' keys, where alerts go, how long conversations are kept.

Secrets are here only as they are kept: sealed.
"""

from __future__ import annotations

import re
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


# --- as typed -------------------------------------------------------------------------------------------------------

_KEY = re.compile(r"[\x21-\x7e]{1,500}")
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"(?=.{1,189}\Z)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]{2,45}")
_NUMBER = re.compile(r"[0-9]{1,5}")
LOGIN_CHARACTERS = 254
"""Of the mail server's user and password."""


def read_provider_key(text: str) -> str:
    """Read a key that can be sent in a header."""
    key = text.strip()
    if not _KEY.fullmatch(key):
        raise ValueError("takes a key of printable ASCII characters, without blanks")
    return key


def read_recipients(text: str) -> tuple[str, ...]:
    """Read mail addresses between blanks or commas; nothing is nobody."""
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if len(found) > MOST_RECIPIENTS:
        raise ValueError(f"takes at most {MOST_RECIPIENTS} addresses")
    return tuple(read_address(one) for one in found)


def read_address(text: str) -> str:
    """Read one mail address, as mail servers take them."""
    address = text.strip()
    if not _ADDRESS.fullmatch(address):
        raise ValueError("takes a mail address")
    return address


def read_mail_host(text: str) -> str:
    """Read a mail server's name or address."""
    host = text.strip()
    if not _HOST.fullmatch(host):
        raise ValueError("takes the name of a server")
    return host


def read_port(text: str) -> int:
    """Read a port."""
    return _number(text, 65_535)


def read_conversation_days(text: str) -> int:
    """Read how many days conversations are kept."""
    return _number(text, LONGEST_CONVERSATION_DAYS)


def read_login(text: str) -> str:
    """Read the mail server's user, or its password, which may be empty."""
    if len(text) > LOGIN_CHARACTERS or not text.isprintable():
        raise ValueError(f"takes at most {LOGIN_CHARACTERS} printable characters")
    return text


def _number(text: str, most: int) -> int:
    if not _NUMBER.fullmatch(text.strip()) or not 1 <= int(text) <= most:
        raise ValueError(f"takes a whole number from 1 to {most}")
    return int(text)
