"""The chain's word, told over HTTP: a failure as an error reply, events as one JSON or as a stream.

This is the one place where an unexpected exception becomes the contract's `errore_interno`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from litestar import Request, Response

from gateway import metrics
from gateway.deadline import Deadline
from gateway.domain.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    STORE_UNAVAILABLE,
    UNKNOWN_ADDRESS,
    Failure,
    StoreAwayError,
)
from gateway.domain.events import Events, collect
from gateway.routes import access
from gateway.routes.exchange import CallerLeft, Exchange, new_request_id
from gateway.wire.replies import encode_answer, encode_failure
from gateway.wire.sse import PING, error_frame, frame_of

PING_SECONDS = 15.0
READER_SECONDS = 60.0
STORE_RETRY_AFTER = 5
DEFAULT_RETRY_AFTER = 5

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),
)

Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]
Asgi: TypeAlias = Callable[[Mapping[str, Any], Any, Any], Awaitable[None]]

log = logging.getLogger(__name__)


async def answered(exchange: Exchange, *, route: str, allow: str, handle: Handler) -> None:
    """Run one exchange: whatever goes wrong before the reply started becomes the contract's error."""
    with exchange:
        try:
            exchange.require_method(*allow.split(", "))
            await handle(exchange)
        except CallerLeft:
            # Or its body was broken on the way: whoever is still there is told.
            log.info("the request did not come whole", extra={"request": exchange.request_id})
            await _fail(
                exchange, Failure(INVALID_REQUEST, "Il corpo della richiesta non è arrivato intero."), allow
            )
        except Failure as failure:
            await _fail(exchange, failure, allow)
        except StoreAwayError as error:
            await _fail(exchange, _away(error), allow)
        except Exception:
            log.exception("internal fault", extra={"request": exchange.request_id, "route": route})
            await _fail(exchange, internal_failure(exchange.request_id), allow)
        finally:
            access.note(exchange, route)


def internal_failure(request_id: str) -> Failure:
    """The 500 that names nothing but the request."""
    return Failure(INTERNAL_ERROR, f"{INTERNAL_ERROR.message} Richiesta: {request_id}.")


def _away(error: StoreAwayError) -> Failure:
    return Failure(STORE_UNAVAILABLE, retry_after=STORE_RETRY_AFTER, reason=str(error))


async def _fail(exchange: Exchange, failure: Failure, allow: str) -> None:
    metrics.failures.labels(failure.fault.code).inc()
    if failure.reason:
        log.warning("%s", failure.reason, extra={"request": exchange.request_id, "code": failure.fault.code})
    if exchange.status:
        return
    if failure.retry_after is None and failure.fault.status in {429, 503}:
        failure = Failure(failure.fault, failure.note, retry_after=DEFAULT_RETRY_AFTER)
    await exchange.fail(failure, allow=allow if failure.fault is METHOD_NOT_ALLOWED else None)


def unknown_address(_: Request[Any, Any, Any], __: Exception) -> Response[bytes]:
    """Whatever the router itself refuses is an address that does not exist."""
    return _error(Failure(UNKNOWN_ADDRESS), new_request_id())


def internal_error(_: Request[Any, Any, Any], __: Exception) -> Response[bytes]:
    """What nobody foresaw."""
    request_id = new_request_id()
    return _error(internal_failure(request_id), request_id)


def _error(failure: Failure, request_id: str) -> Response[bytes]:
    return Response(
        encode_failure(failure),
        status_code=failure.fault.status,
        media_type="application/json",
        headers={"x-request-id": request_id},
    )


async def told_json(exchange: Exchange, events: Events) -> None:
    """Tell a whole answer. A caller who hangs up changes nothing: the call runs to its end."""
    try:
        answer = await collect(events)
    finally:
        await events.aclose()
    await exchange.reply(200, encode_answer(answer))


async def told_sse(exchange: Exchange, events: Events) -> None:
    """Tell the events as they come; stops the chain at once when the caller has left or does not read."""
    await _Telling(exchange, events).run()


class _Telling:
    """A stream being told: one task pulls events and makes frames, this one writes all that is there at once."""

    def __init__(self, exchange: Exchange, events: Events) -> None:
        self._exchange = exchange
        self._events = events
        self._frames: list[bytes] = []
        self._news = asyncio.Event()
        self._silence = Deadline(PING_SECONDS)
        self._reader = Deadline(READER_SECONDS)

    async def run(self) -> None:
        pulling = asyncio.create_task(self._pull())
        leaving = asyncio.create_task(self._exchange.gone())
        try:
            await self._exchange.start(200, *STREAM_HEADERS)
            leaving.add_done_callback(lambda _: self._news.set())
            await self._write(pulling, leaving)
        finally:
            self._silence.close()
            self._reader.close()
            leaving.cancel()
            if not pulling.done():
                pulling.cancel()
            await asyncio.wait((pulling, leaving))
            await self._events.aclose()
        if not pulling.cancelled() and (error := pulling.exception()):
            raise error

    async def _write(self, pulling: asyncio.Task[None], leaving: asyncio.Task[None]) -> None:
        while not leaving.done():
            if not self._frames and not pulling.done():
                self._silence.move(PING_SECONDS)
                try:
                    with self._silence:
                        await self._news.wait()
                except TimeoutError:
                    self._frames.append(PING)
            self._news.clear()
            frames, self._frames = b"".join(self._frames), []
            over = pulling.done() and not self._frames
            if leaving.done():
                return
            try:
                self._reader.move(READER_SECONDS)
                with self._reader:
                    await self._exchange.send_body(frames, more=not over)
            except TimeoutError:
                log.info("the caller does not read its stream", extra={"request": self._exchange.request_id})
                return
            if over:
                return

    async def _pull(self) -> None:
        try:
            async for event in self._events:
                self._frames.append(frame_of(event))
                self._news.set()
        except Failure as failure:
            metrics.failures.labels(failure.fault.code).inc()
            if failure.reason:
                log.warning(
                    "%s",
                    failure.reason,
                    extra={"request": self._exchange.request_id, "code": failure.fault.code},
                )
            self._frames.append(error_frame(failure))
        except StoreAwayError as error:
            log.warning("%s", error, extra={"request": self._exchange.request_id})
            self._frames.append(error_frame(_away(error)))
        except Exception:
            log.exception("internal fault in a stream", extra={"request": self._exchange.request_id})
            self._frames.append(error_frame(internal_failure(self._exchange.request_id)))
        finally:
            self._news.set()
