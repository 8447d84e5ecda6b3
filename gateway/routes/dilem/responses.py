"""Dilem's word over HTTP: whatever happens becomes an answer of the contract, in JSON, never a 500.

This is the one place of these doors where an unexpected exception is caught.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import msgspec

from gateway import metrics
from gateway.dilem import errors
from gateway.dilem.contract import Error
from gateway.dilem.errors import Code, DilemFailure
from gateway.domain.errors import (
    BODY_TOO_SLOW,
    CONTENT_TOO_LARGE,
    STORE_UNAVAILABLE,
    Failure,
    StoreAwayError,
)
from gateway.routes import access
from gateway.routes.exchange import CallerLeft, Exchange

STORE_RETRY_AFTER = 5
LINGER_SECONDS = 1.5
"""How long the rest of a refused body is let in, so that its sender reads the refusal."""
LATE_LINGER_SECONDS = 0.25
"""The same for a body that has had its time."""
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"vary", b"Origin, Authorization"),
)
CLOSE = (b"connection", b"close")
_CLOSING = frozenset({errors.BODY_TOO_LARGE, errors.BODY_TIMEOUT})
_OF_THE_EXCHANGE: dict[Failure | object, Code] = {
    CONTENT_TOO_LARGE: errors.BODY_TOO_LARGE,
    BODY_TOO_SLOW: errors.BODY_TIMEOUT,
    STORE_UNAVAILABLE: errors.SERVICE_UNAVAILABLE,
}

Refuse: TypeAlias = Callable[[Exchange, DilemFailure], Awaitable[None]]
Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode


async def told(exchange: Exchange, value: object) -> None:
    """Answer 200 with a value of the contract."""
    await exchange.reply(200, _encode(value), *HEADERS)


async def answered(
    exchange: Exchange, *, route: str, handle: Callable[[], Awaitable[None]], refuse: Refuse
) -> None:
    """Run one exchange to its answer, and count it."""
    exchange.linger_seconds = LINGER_SECONDS
    with exchange:
        try:
            await handle()
        except Exception as error:  # noqa: BLE001 - the door's last line
            await refuse(exchange, failure_of(error, exchange))
        finally:
            access.note(exchange, route)


def failure_of(error: Exception, exchange: Exchange) -> DilemFailure:
    """Say in the contract's codes what went wrong; what nobody foresaw goes to the log."""
    match error:
        case DilemFailure():
            return error
        case CallerLeft():
            # Or its body was broken on the way: whoever is still there is told.
            return DilemFailure(errors.INVALID_JSON, "The body did not arrive whole.")
        case Failure() if error.fault in _OF_THE_EXCHANGE:
            return DilemFailure(
                _OF_THE_EXCHANGE[error.fault], retry_after=error.retry_after, reason=error.reason
            )
        case StoreAwayError():
            return DilemFailure(errors.SERVICE_UNAVAILABLE, retry_after=STORE_RETRY_AFTER, reason=str(error))
    log.error("internal fault", exc_info=error, extra={"request": exchange.request_id})
    return DilemFailure(errors.SERVICE_UNAVAILABLE, retry_after=STORE_RETRY_AFTER)


async def answer_or_error(exchange: Exchange, work: Awaitable[Answer]) -> Answer | Error:
    """Await an answer, for a door that tells errors in its answers."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - the last line of such a door
        failure = failure_of(error, exchange)
        _note(exchange, failure)
        return failure.body()


async def refused(
    exchange: Exchange, failure: DilemFailure, tell: Callable[[Error], bytes] = _encode
) -> None:
    """Answer with an error, unless an answer has begun."""
    code = failure.code
    _note(exchange, failure)
    if exchange.status:
        return
    headers = [*HEADERS]
    if failure.retry_after is not None:
        headers.append((b"retry-after", str(failure.retry_after).encode()))
    if failure.allow is not None:
        headers.append((b"allow", failure.allow.encode()))
    if code in _CLOSING:
        headers.append(CLOSE)
    if code is errors.BODY_TIMEOUT:
        exchange.linger_seconds = LATE_LINGER_SECONDS
    await exchange.reply(code.status, tell(failure.body()), *headers)


def _note(exchange: Exchange, failure: DilemFailure) -> None:
    metrics.failures.labels(failure.code.code).inc()
    if failure.reason:
        log.warning("%s", failure.reason, extra={"request": exchange.request_id, "code": failure.code.code})
