"""GET /stato.php: is Pepper alive, and (asked with `pronto=1`) do its stores answer."""

from __future__ import annotations

from gateway.core import Core
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
