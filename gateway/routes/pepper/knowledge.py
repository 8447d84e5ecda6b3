"""POST /conoscenza.php: a project's own documents, taken in, listed, taken out."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from gateway.chain.answer import Chain
from gateway.chain.isolate import isolate
from gateway.routes.exchange import Exchange
from gateway.wire.knowledge import (
    Removal,
    Upload,
    decode_action,
    encode_removed,
    encode_shelf,
    encode_uploaded,
)
from gateway.wire.requests import open_envelope

BODY_LIMIT = 6_500_000
"""Bytes of a body: JSON may escape every character of the longest document."""


async def serve(chain: Chain, zone: ZoneInfo, exchange: Exchange) -> None:
    """Serve one action, in the contract's order of checks."""
    exchange.require_declared_size(BODY_LIMIT)
    caller = await chain.caller(exchange.project_key())
    envelope = open_envelope(await exchange.body(BODY_LIMIT))
    scope = isolate(caller, envelope.project, exchange.request_id)
    match decode_action(envelope):
        case Upload(name=name, text=text):
            reply = encode_uploaded(await chain.add_document(scope, name, text))
        case Removal(document=document):
            await chain.remove_document(scope, document)
            reply = encode_removed()
        case _:
            reply = encode_shelf(await chain.documents(scope), zone)
    await exchange.reply(200, reply)
