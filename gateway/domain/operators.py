"""Who administers Pepper in the panel: people with a role."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

import msgspec

EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}")
MINIMUM_PASSWORD = 12
MAXIMUM_PASSWORD = 256
"""Characters: a longer one would only make hashing slow."""


class Role(StrEnum):
    """What a person may do: see everything, change the configuration, or also decide who else may."""

    VIEWER = "viewer"
    EDITOR = "editor"
    OWNER = "owner"

    @property
    def rank(self) -> int:
        """Larger may do more."""
        return list(Role).index(self)

    def may(self, needed: Role) -> bool:
        """Whether this role is enough where `needed` is asked for."""
        return self.rank >= needed.rank


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A person of the panel, without their secrets.

    Attributes:
        has_password: False until the set-up link was used.
        has_totp: A second factor is asked for at login.

    """

    id: int
    email: str
    role: Role
    active: bool = True
    has_password: bool = False
    has_totp: bool = False
    created_at: datetime
    last_login: datetime | None = None


def normal_email(text: str) -> str | None:
    """The form an address is kept and looked up in; None if it is none."""
    email = text.strip().lower()
    return email if EMAIL.fullmatch(email) else None
