"""How often and how long an embedder is asked: the policy of the providers' calls, for one request."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from gateway.ports import ProviderError, Trouble

BACKOFF_SECONDS = (0.5, 2.0)
LONGEST_RETRY_AFTER_SECONDS = 20.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Limits.

    Attributes:
        attempts: How often it is asked at most.
        attempt_seconds: After which an attempt without an answer is given up.
        seconds: After which everything is.

    """

    attempts: int
    attempt_seconds: float
    seconds: float


async def ask(once: Callable[[], Awaitable[T]], patience: Patience, deadline: float) -> T:
    """Ask until there is an answer, or none is to be expected any more.

    Args:
        once: Makes one attempt.
        patience: How often, and how long each time.
        deadline: When it must be over, on the monotonic clock.

    Raises:
        ProviderError: The last attempt's.

    """
    attempt = 0
    while True:
        try:
            async with asyncio.timeout(min(patience.attempt_seconds, deadline - time.monotonic())):
                return await once()
        except TimeoutError:
            failure = ProviderError(Trouble.TIMEOUT, "no answer within the deadline")
        except ProviderError as error:
            failure = error
        log.warning("embedder failed: %s", failure.reason, extra={"trouble": failure.trouble.value})
        attempt += 1
        pause = _pause(attempt, failure)
        if attempt == patience.attempts or pause is None or time.monotonic() + pause >= deadline:
            raise failure
        await asyncio.sleep(pause)


def _pause(attempt: int, failure: ProviderError) -> float | None:
    """Seconds to wait after so many attempts; None when asking again makes no sense."""
    if not failure.trouble.repeatable:
        return None
    if failure.retry_after:
        return failure.retry_after if failure.retry_after <= LONGEST_RETRY_AFTER_SECONDS else None
    backoff = BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS)) - 1]
    return backoff * random.uniform(0.75, 1.25)  # noqa: S311 - jitter, not a secret
