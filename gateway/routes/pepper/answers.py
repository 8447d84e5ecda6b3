"""POST /api.php: a piece of work in, its answer out."""

from __future__ import annotations

from gateway.chain.answer import Chain
from gateway.chain.isolate import isolate
from gateway.routes.exchange import ONE_MIB, Exchange
from gateway.routes.responses import told_json, told_sse
from gateway.wire.batches import encode_receipt
from gateway.wire.requests import decode_completion, open_envelope

BODY_LIMIT = 64 * ONE_MIB
"""Bytes of a body: JSON may escape every character of what it carries."""


async def answer(chain: Chain, exchange: Exchange) -> None:
    """Serve one call, in the contract's order of checks."""
    exchange.require_declared_size(BODY_LIMIT)
    caller = await chain.caller(exchange.project_key())
    envelope = open_envelope(await exchange.body(BODY_LIMIT))
    scope = isolate(caller, envelope.project, exchange.request_id)
    request = decode_completion(envelope, exchange.header_values(b"idempotency-key"))
    if request.deferred:
        await exchange.reply(202, encode_receipt(await chain.submit(scope, request)))
        return
    events = await chain.answer(scope, request)
    await (told_sse if request.stream else told_json)(exchange, events)
