"""POST /capacita.php: what Pepper can do for this project, now."""

from __future__ import annotations

from gateway.chain.answer import Chain
from gateway.chain.isolate import isolate
from gateway.routes.exchange import ONE_KIB, Exchange
from gateway.wire.capabilities import encode_capabilities
from gateway.wire.requests import open_envelope

BODY_LIMIT = 64 * ONE_KIB


async def capabilities(chain: Chain, exchange: Exchange) -> None:
    """Serve one question."""
    exchange.require_declared_size(BODY_LIMIT)
    caller = await chain.caller(exchange.project_key())
    envelope = open_envelope(await exchange.body(BODY_LIMIT))
    scope = isolate(caller, envelope.project, exchange.request_id)
    await exchange.reply(200, encode_capabilities(await chain.capabilities(scope)))
