"""The second front door, if it is to be served: decided from the settings and from where the server listens."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from gateway.bootstrap.stores import Stores
from gateway.chain.answer import Chain
from gateway.chain.upkeep import RETENTION_SECONDS
from gateway.dilem.decide import Deciding
from gateway.dilem.policy import Policy
from gateway.dilem.service import Dilem
from gateway.domain.money import micros
from gateway.settings import Settings
from gateway.storage.dilem.unwritten import Unwritten

WAITING_SECONDS = 1.0
ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not bound to
UNSERVED_ADDRESS = "http://localhost"
"""Where nobody said where it is served: an application inside another program."""


def make_dilem(stores: Stores, chain: Chain, address: str | None) -> Dilem | None:
    """Put Dilem together; None when it is not served.

    Args:
        address: Where the server listens, such as `http://127.0.0.1:8080`.

    """
    policy = policy_of(stores.settings, address)
    if policy is None:
        return None
    deciding = Deciding(
        chain, daily_budget=policy.daily_budget, seconds=policy.pipeline_seconds, now=stores.now
    )
    return Dilem(
        database=stores.database,
        deciding=deciding,
        unwritten=Unwritten(stores.settings.data),
        policy=policy,
        now=stores.now,
    )


def upkeep_of(dilem: Dilem) -> Sequence[tuple[Callable[[], Awaitable[None]], float]]:
    """Give what Dilem wants done again and again, and the seconds between."""
    return (dilem.write_waiting, WAITING_SECONDS), (dilem.forget_old, RETENTION_SECONDS)


def policy_of(settings: Settings, address: str | None) -> Policy | None:
    """Give what the operator decided; None when Dilem is not served.

    Unless it was asked for it is served only where nobody but this machine can reach it: anonymous callers spend the
    operator's money.
    """
    wished = settings.dilem
    alone = _is_loopback(address) and settings.database_url is None and not settings.trusted_proxies
    if wished.serve is False or (wished.serve is None and not alone):
        return None
    return Policy(
        base_url=wished.base_url or _reachable(address),
        daily_limit=wished.daily_limit,
        daily_budget=micros(wished.daily_usd),
        sessions_per_hour=wished.sessions_per_hour,
        requests_per_minute=wished.requests_per_minute,
        capacity=wished.capacity,
        pipeline_seconds=wished.pipeline_seconds,
        private=wished.serve is None,
        trusted_proxies=settings.trusted_proxies,
    )


def _is_loopback(address: str | None) -> bool:
    host = _host(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reachable(address: str | None) -> str:
    """Give an address that a client on this machine could use."""
    if address is None:
        return UNSERVED_ADDRESS
    return f"http://localhost:{urlsplit(address).port}" if _host(address) in ANYWHERE else address


def _host(address: str | None) -> str:
    return urlsplit(address or "").hostname or ""
