"""GET /pepper/openapi.json: the contract for machines."""

from __future__ import annotations

from functools import cache

import msgspec

from gateway import __version__
from gateway.routes.exchange import Exchange
from gateway.wire.openapi.document import document

KEPT = (b"cache-control", b"public, max-age=300")


async def openapi(exchange: Exchange) -> None:
    """Serve the document."""
    await exchange.reply(200, _encoded(), KEPT)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(document(__version__))
