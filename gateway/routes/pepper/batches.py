"""POST /pratica.php: what became of deferred work."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from gateway.chain.answer import Chain
from gateway.chain.isolate import isolate
from gateway.routes.exchange import ONE_KIB, Exchange
from gateway.wire.batches import decode_number, encode_state
from gateway.wire.requests import open_envelope

BODY_LIMIT = 64 * ONE_KIB


async def collect(chain: Chain, zone: ZoneInfo, exchange: Exchange) -> None:
    """Serve one question."""
    exchange.require_declared_size(BODY_LIMIT)
    caller = await chain.caller(exchange.project_key())
    envelope = open_envelope(await exchange.body(BODY_LIMIT))
    scope = isolate(caller, envelope.project, exchange.request_id)
    batch = await chain.collect(scope, decode_number(envelope))
    await exchange.reply(200, encode_state(batch, zone))
