"""Sessions: a private token, and the identity behind it. A token that is not good is refused, never replaced."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from datetime import datetime

from msgspec import Struct

from gateway.dilem import errors
from gateway.dilem.contract import SESSION_SECONDS, Session
from gateway.dilem.errors import DilemFailure
from gateway.dilem.policy import REMEMBERED, SESSION_DAY, SESSION_LIFE, Policy
from gateway.domain.clock import Clock
from gateway.storage.dilem.identities import Identities
from gateway.storage.dilem.rates import DAY_SECONDS, HOUR_SECONDS, Window

TOKEN_PREFIX = "dls_"  # noqa: S105 - what every token begins with
TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")


class Caller(Struct, frozen=True):
    """Whose call it is.

    Attributes:
        identity: Its number in the store; never told.
        address: Where the call comes from.

    """

    identity: int
    address: str


class Sessions:
    """Who has a session, and since when."""

    def __init__(self, identities: Identities, policy: Policy, now: Clock) -> None:
        self._identities = identities
        self._policy = policy
        self._now = now

    async def identify(self, token: str | None, address: str) -> Caller:
        """Give the caller of a token.

        Raises:
            DilemFailure: 403, `session_required`, `session_invalid` or `session_expired`.
            StoreAwayError: The database does not answer.

        """
        if token is None:
            raise DilemFailure(errors.SESSION_REQUIRED)
        if not _TOKEN.fullmatch(token):
            raise DilemFailure(errors.SESSION_INVALID)
        found = await self._identities.find(_digest(token))
        now = self._now()
        if found is None or now >= found.expires_at + REMEMBERED:
            raise DilemFailure(errors.SESSION_INVALID)
        if now >= found.expires_at:
            raise DilemFailure(errors.SESSION_EXPIRED)
        return Caller(found.id, address)

    async def start(self, address: str) -> Session:
        """Make a new identity.

        Raises:
            DilemFailure: 429 `rate_limited`: the address has made its share.
            StoreAwayError: The database does not answer.

        """
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        now = self._now()
        hourly = self._policy.sessions_per_hour
        limits = (
            (Window.at(f"sessions/h {address}", HOUR_SECONDS, now), hourly),
            (Window.at(f"sessions/d {address}", DAY_SECONDS, now), SESSION_DAY * hourly),
        )
        full = await self._identities.create(_digest(token), now, now + SESSION_LIFE, limits)
        if full is not None:
            raise DilemFailure(
                errors.RATE_LIMITED,
                "Too many new sessions from this address: keep the token and reuse it.",
                retry_after=seconds_until(full.ends_at, now),
            )
        return Session(session=token, expires_in=SESSION_SECONDS)

    async def renew(self, token: str, address: str) -> Session:
        """Let an identity live on from now; its token stays.

        Raises:
            DilemFailure: 403, as `identify`.
            StoreAwayError: The database does not answer.

        """
        caller = await self.identify(token, address)
        if not await self._identities.renew(caller.identity, self._now() + SESSION_LIFE):
            raise DilemFailure(errors.SESSION_INVALID)
        return Session(session=token, expires_in=SESSION_SECONDS)


def seconds_until(instant: datetime, now: datetime) -> int:
    """Whole seconds, at least one."""
    return max(1, math.ceil((instant - now).total_seconds()))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
