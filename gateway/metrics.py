"""What the gateway counts for its operators, over all worker processes: never a project's name, a key or a text.

Workers share the counts through files in the data folder (`PROMETHEUS_MULTIPROC_DIR`, set by `pepper serve`), into which
each writes what it has counted once a second, and before it tells them itself.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector
from typing_extensions import override

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_LATEST
SHARE_SECONDS = 1.0
"""How often a worker calls `share`."""

_counted: set[_Adding] = set()


class _Adding(values.MultiProcessValue()):  # type: ignore[misc]  # the library has few types
    """The library's shared value, that adds up in memory first: writing to the file costs six times as much, and a call
    is counted in six places.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._added = 0.0

    @override
    def inc(self, amount: float) -> None:
        self._added += amount
        _counted.add(self)

    def share(self) -> None:
        added, self._added = self._added, 0.0
        super().inc(added)


if FOLDER_VARIABLE in os.environ:
    values.ValueClass = _Adding


def share() -> None:
    """Let the other workers know what this one has counted."""
    while _counted:
        _counted.pop().share()


requests = Counter("pepper_requests", "Requests answered, by address and HTTP status.", ["route", "status"])
request_seconds = Histogram(
    "pepper_request_seconds",
    "Seconds from a request's arrival to the end of its reply.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
failures = Counter("pepper_failures", "Errors told to callers, in replies and in streams, by code.", ["code"])
attempts = Counter(
    "pepper_provider_attempts",
    "Times a provider was asked, by how it ended.",
    ["provider", "model", "outcome"],
)
store_up = Gauge(
    "pepper_store_up",
    "Whether a store answered when this was read.",
    ["store"],
    multiprocess_mode="mostrecent",
)


overhead_seconds = Histogram(
    "pepper_overhead_seconds",
    "Seconds of a call that were the gateway's own: its whole time less that spent waiting for providers.",
    ["mode"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


# The library looks for a child anew each time; these few are kept.
requests_of = cache(requests.labels)
request_seconds_of = cache(request_seconds.labels)
attempts_of = cache(attempts.labels)
overhead_seconds_of = cache(overhead_seconds.labels)


def exposition() -> bytes:
    """Give all counts in Prometheus' text format."""
    if FOLDER_VARIABLE not in os.environ:
        return generate_latest(REGISTRY)
    share()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has few types
    return generate_latest(registry)
