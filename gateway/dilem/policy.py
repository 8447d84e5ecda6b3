"""What an operator decides about Dilem, and the limits that are the contract's."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network

from msgspec import Struct

from gateway.domain.money import dollars

SESSION_LIFE = timedelta(days=90)
REMEMBERED = timedelta(days=30)
"""So long after its end a session is told to have expired; then it is unknown."""
RETENTION = timedelta(days=30)
"""Of exchanges, results and votes."""
REPORT_RETENTION = timedelta(days=180)

TURNS_PER_CASE = 24
LEASE_SECONDS = 120.0
"""A case whose turn died with its process is free again after so long."""
USAGE_PER_MINUTE = 120
CARDS_PER_MINUTE = 30
VOTES_PER_MINUTE = 60
REPORTS_PER_HOUR = 5
ADDRESS_ADMISSIONS = 3
"""Times an identity's daily limit: what one address may admit in a day."""
SESSION_DAY = 3
"""Times the hour's limit: new sessions of an address in a day."""
VOICE_SECONDS = 1200
VOICE_CAPTURE_SECONDS = 60
BODY_SECONDS = 10.0
DECIDE_SECONDS = 105.0
"""A decision is answered within so many seconds of its request's first byte: callers give up after 110."""


class Policy(Struct, frozen=True, kw_only=True):
    """The operator's decisions.

    Attributes:
        base_url: The public origin, without a slash at the end.
        daily_limit: Credits of an identity and UTC day; zero is legal.
        daily_budget: Micro-dollars that all turns of a UTC day may cost together.
        sessions_per_hour: New identities of an address.
        requests_per_minute: Requests of all kinds of an address, in one process.
        capacity: Turns worked on at once, over all nodes.
        pipeline_seconds: Deadline of a turn.
        private: Served without having been asked for: whoever comes through a proxy finds nothing here.
        trusted_proxies: Networks whose `X-Forwarded-For` is believed.

    """

    base_url: str
    daily_limit: int = 20
    daily_budget: int = 5_000_000
    sessions_per_hour: int = 10
    requests_per_minute: int = 300
    capacity: int = 64
    pipeline_seconds: float = 95.0
    private: bool = False
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()

    @property
    def daily_usd(self) -> float:
        """The budget as it is told."""
        return dollars(self.daily_budget)
