"""For operators: `/stato.php` says whether Pepper lives and (with `pronto=1`) whether its stores answer; `/metrics`."""

from __future__ import annotations

import hmac
import ipaddress

from gateway import metrics
from gateway.core import Core
from gateway.domain.errors import UNAUTHORIZED, Failure
from gateway.routes.exchange import Exchange

ALIVE = b'{"ok":true}'
NOT_READY = b'{"ok":false}'
RETRY_AFTER = (b"retry-after", b"5")


async def state(core: Core, exchange: Exchange) -> None:
    """Serve one check."""
    if b"pronto=1" in exchange.query.split(b"&") and not await core.ready():
        await exchange.reply(503, NOT_READY, RETRY_AFTER)
        return
    await exchange.reply(200, ALIVE)


async def measures(core: Core, exchange: Exchange) -> None:
    """Serve the counts: with the token, or to this machine itself when nobody forwards.

    Raises:
        Failure: 401 for anybody else.

    """
    if not (_shows_token(exchange, core.metrics_token) or _is_local(exchange)):
        raise Failure(UNAUTHORIZED, "Le misure vogliono il token di PEPPER_METRICS_TOKEN.")
    await core.ready()
    await exchange.reply(200, metrics.exposition(), kind=metrics.CONTENT_TYPE)


def _shows_token(exchange: Exchange, token: str | None) -> bool:
    shown = exchange.header_values(b"authorization")
    return (
        token is not None
        and len(shown) == 1
        and hmac.compare_digest(shown[0].encode(), f"Bearer {token}".encode())
    )


def _is_local(exchange: Exchange) -> bool:
    if exchange.client is None or exchange.is_forwarded:
        return False
    try:
        return ipaddress.ip_address(exchange.client).is_loopback
    except ValueError:
        return False
