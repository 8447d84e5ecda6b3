"""A request's body, within the limits that hold for every door of Dilem."""

from __future__ import annotations

import time

from gateway.deadline import Patience
from gateway.dilem.contract import BODY_BYTES
from gateway.dilem.policy import BODY_SECONDS
from gateway.routes.exchange import Exchange


async def bounded_body(exchange: Exchange) -> bytes:
    """Read at most 300,000 bytes, within 10 seconds of the request's headers.

    Raises:
        Failure: 413, 408, or 503 when the worker holds too many bodies.
        CallerLeft: The connection closed before the end.

    """
    exchange.require_declared_size(BODY_BYTES)
    return await exchange.body(
        BODY_BYTES, Patience(max(0.0, exchange.arrived + BODY_SECONDS - time.monotonic()))
    )
