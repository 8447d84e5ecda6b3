"""The technical limits of a process: a sliding minute on the clock of the business rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.dilem import limits
from gateway.dilem.errors import DilemFailure
from gateway.dilem.limits import MinuteLimit

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def taken(limit: MinuteLimit, subject: object, at: datetime) -> int | None:
    """The seconds to wait, None when the call is let in."""
    try:
        limit.take(subject, at)
    except DilemFailure as failure:
        return failure.retry_after
    return None


def test_so_many_a_minute_and_subject() -> None:
    limit = MinuteLimit(3)
    assert [taken(limit, "a", NOW + timedelta(seconds=n)) for n in range(4)] == [None, None, None, 57]
    assert taken(limit, "b", NOW) is None
    assert taken(limit, "a", NOW + timedelta(seconds=59.5)) == 1
    assert taken(limit, "a", NOW + timedelta(seconds=60)) is None
    assert taken(limit, "a", NOW + timedelta(seconds=60)) == 1


def test_a_clock_put_back_locks_nobody_out() -> None:
    limit = MinuteLimit(1)
    assert taken(limit, "a", NOW) is None
    assert taken(limit, "a", NOW - timedelta(days=1)) is None
    assert taken(limit, "a", NOW - timedelta(days=1)) == 60


def test_who_is_quiet_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SWEPT_EVERY", 10)
    limit = MinuteLimit(1)
    for number in range(1_000):
        at = NOW + timedelta(seconds=number * 10)
        assert [taken(limit, number, at) for _ in range(2)] == [None, 60]
    assert len(limit._calls) <= 20
