"""What every exchange leaves behind, through whichever door it came: counts, and a line in the access log."""

from __future__ import annotations

import logging
import time

from gateway import metrics
from gateway.logs import ACCESS_LOG, AccessRecord
from gateway.routes.exchange import Exchange

_log = logging.getLogger(ACCESS_LOG)


def note(exchange: Exchange, route: str) -> None:
    """Count an exchange that has ended, and write it down."""
    seconds = time.monotonic() - exchange.arrived
    metrics.requests_of(route, exchange.status).inc()
    metrics.request_seconds_of(route).observe(seconds)
    if _log.isEnabledFor(logging.INFO):
        milliseconds = round(seconds * 1000)
        _log.handle(AccessRecord(exchange.method, route, exchange.status, exchange.request_id, milliseconds))
