"""The one place where what went wrong at a provider becomes a `ProviderError`.

A reason holds a status and the provider's word for the kind of error, never its message, a key or content.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError

from gateway.ports import ProviderError, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

_KIND = re.compile(r"[a-z_]{1,60}")
_OVERLOADED_STATUSES = frozenset({408, 409, 429, 503, 529})
_KINDS = {
    "overloaded_error": Trouble.OVERLOADED,
    "rate_limit_error": Trouble.OVERLOADED,
    "rate_limit_exceeded": Trouble.OVERLOADED,
    "requests": Trouble.OVERLOADED,
    "tokens": Trouble.OVERLOADED,
    "service_unavailable": Trouble.OVERLOADED,
    "api_error": Trouble.FAULTY,
    "server_error": Trouble.FAULTY,
    "internal_server_error": Trouble.FAULTY,
    "timeout_error": Trouble.TIMEOUT,
}
"""Both providers' words for errors that are not the gateway's fault; every other word is."""

_NEVER_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ServerFingerprintMismatch,
)
"""No address, no connection, no TLS: not a byte of the request has left."""


class ErrorDetail(msgspec.Struct):
    """The error object of either provider, as far as anything is believed of it."""

    type: str | None = None


class _ErrorBody(msgspec.Struct):
    error: ErrorDetail | None = None


_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def faulty(what: str) -> ProviderError:
    """What came is no answer."""
    return ProviderError(Trouble.FAULTY, what)


def late() -> ProviderError:
    """No answer came within the time allowed; the request may well have arrived."""
    return ProviderError(Trouble.TIMEOUT, "no answer within the deadline")


def not_configured(variable: str) -> ProviderError:
    """Nobody can be asked: the key is missing or no key."""
    return ProviderError(Trouble.REJECTED, f"{variable} is not set, or can't be sent in a header", sent=False)


def no_sdk(why: str) -> ProviderError:
    """The provider's SDK, which knows how to ask, could not be asked itself."""
    return ProviderError(Trouble.UNREACHABLE, f"the SDK can't be asked: {why}", sent=False)


def bad_address(variable: str) -> ProviderError:
    """The base URL is no address that could be asked."""
    return ProviderError(Trouble.REJECTED, f"{variable} is not an http or https address", sent=False)


def bad_proxy() -> ProviderError:
    """The environment names a proxy that speaks another language."""
    return ProviderError(Trouble.REJECTED, "the proxy of the environment is not an http proxy", sent=False)


def attachments_not_taken() -> ProviderError:
    """Files were to be sent to a provider that would not read them."""
    return ProviderError(Trouble.REJECTED, "this provider takes no attachments", sent=False)


def of_status(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Judge a reply whose status is not 2xx; of its body only the kind of error is read."""
    if status in _OVERLOADED_STATUSES:
        trouble = Trouble.OVERLOADED
    elif status == 504:
        trouble = Trouble.TIMEOUT
    elif status >= 500:
        trouble = Trouble.FAULTY
    else:
        trouble = Trouble.REJECTED
    kind = _known_word(_kind_of(body))
    reason = f"status {status} {kind}" if kind else f"status {status}"
    return ProviderError(trouble, reason, status=status, retry_after=retry_after(headers))


def of_event(detail: ErrorDetail) -> ProviderError:
    """Judge an error told in the middle of a stream."""
    if detail.type is None:
        return ProviderError(Trouble.FAULTY, "error in the stream")
    trouble = _KINDS.get(detail.type, Trouble.REJECTED)
    kind = _known_word(detail.type)
    return ProviderError(trouble, f"error in the stream: {kind}" if kind else "error in the stream")


def of_connection(error: aiohttp.ClientError | HttpProcessingError | OSError) -> ProviderError:
    """Judge what the HTTP client says: no connection, a cut, or bytes that are no HTTP."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.InvalidURL):
        return ProviderError(Trouble.REJECTED, f"the address can't be asked ({kind})", sent=False)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return ProviderError(Trouble.UNREACHABLE, f"the proxy refused with status {error.status}", sent=False)
    if isinstance(error, (aiohttp.ClientResponseError, HttpProcessingError)):
        return faulty(f"the reply is no HTTP ({kind})")
    reached = not isinstance(error, _NEVER_CONNECTED)
    return ProviderError(Trouble.UNREACHABLE, f"no connection, or cut ({kind})", sent=reached)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the provider asks to wait: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date."""
    seconds = _seconds(headers.get("retry-after-ms"))
    if seconds is not None:
        return seconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _seconds(text)
    return _seconds_until(text) if seconds is None else seconds


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds_until(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        # The date form without a zone ("-0000") is in UTC too.
        moment = moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - time.time(), 0.0)


def _kind_of(body: bytes) -> str | None:
    try:
        error = _decode_error(body).error
    except msgspec.DecodeError:
        return None
    return error.type if error else None


def _known_word(kind: str | None) -> str | None:
    return kind if kind and _KIND.fullmatch(kind) else None
