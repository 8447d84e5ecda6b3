"""Notices: a project's own address is told that deferred work has ended."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime, timedelta
from urllib.parse import SplitResult, urlsplit

import msgspec

from gateway.domain.batches import BatchState
from gateway.domain.limits import MAX_ADDRESS_CHARACTERS

RETRY_SECONDS = (10, 60, 300, 1_800, 7_200, 21_600)
"""Pauses after the first, second, … attempt that failed; then the notice is given up."""

_CHARACTERS = re.compile(r"[!-~]+")
_NEVER = frozenset('\\"<>#')
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_HOST_CHARACTERS = 253


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told of one batch that has ended.

    Attributes:
        id: Names the notice, the same at every attempt: `avv_` and 24 hexadecimal characters.
        batch: The batch's number; `state` and `total` are its own.
        due_at: When it is tried next; None once it was delivered, given up or withdrawn.
        attempts: How often it was tried.
        outcome: What came of the last attempt: an HTTP status, or a word.

    """

    project: str
    id: str
    batch: str
    state: BatchState
    total: int
    created_at: datetime
    due_at: datetime | None
    attempts: int = 0
    outcome: str | None = None
    attempted_at: datetime | None = None
    delivered_at: datetime | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one attempt.

    Attributes:
        outcome: The receiver's HTTP status, or a word of ours.

    """

    outcome: str
    delivered: bool = False
    duration_ms: int = 0


WITHDRAWN = "annullato"
"""Outcome of a notice whose project has no address any more."""
UNREADABLE_SECRET = "segreto_illeggibile"  # noqa: S105 - a word
"""Outcome where the signing secret can't be opened."""


def next_attempt(now: datetime, attempts: int) -> datetime | None:
    """When a notice is tried again after so many attempts that failed; None: never."""
    return now + timedelta(seconds=RETRY_SECONDS[attempts - 1]) if attempts <= len(RETRY_SECONDS) else None


def secret_purpose(project: str) -> str:
    """What a project's signing secret is sealed for."""
    return f"notices of {project}"


def check_notice_url(url: str) -> str:
    """Give the address back if notices can be sent there, judged by its letters alone.

    Whether plain http is allowed, and where the name leads, is decided elsewhere.

    Raises:
        ValueError: Why they can't, for operators.

    """
    takes = "takes an https:// address, such as https://esempio.it/pepper/avvisi"
    if len(url) > MAX_ADDRESS_CHARACTERS:
        raise ValueError(f"takes an address of at most {MAX_ADDRESS_CHARACTERS} characters")
    if not _CHARACTERS.fullmatch(url) or not _NEVER.isdisjoint(url):
        raise ValueError(f"{takes}: blanks, accents and the like written with %, and without #")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(takes) from None
    if parts.scheme not in {"https", "http"}:
        raise ValueError(takes)
    if "@" in parts.netloc:
        raise ValueError(f"{takes}, without user and password")
    if port == 0 or parts.netloc.endswith(":") or not _is_host(parts):
        raise ValueError(takes)
    return url


def read_public_url(text: str, *, private: bool) -> str:
    """Read an address as somebody has typed it; `private` allows plain http, for tests.

    Raises:
        ValueError: As `check_notice_url`.

    """
    url = check_notice_url(text.strip())
    if is_plain(url) and not private:
        raise ValueError("takes an https:// address")
    return url


def is_plain(url: str) -> bool:
    """Whether an address is plain http, which is for tests alone."""
    return urlsplit(url).scheme == "http"


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    labels = host.removesuffix(".").split(".")
    if "[" in parts.netloc or _NUMBER.fullmatch(labels[-1]):
        # Whatever ends in a number is read as an address by somebody: 127.1, 0x7f.1, 2130706433.
        return _is_address(host)
    return len(host) <= _HOST_CHARACTERS and all(_LABEL.fullmatch(label) for label in labels)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host
