"""When somebody is asked about a batch, and whose duty it is to ask."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from typing_extensions import override

from gateway.chain.duty import ASK_SECONDS, LEASE_SECONDS, Duty
from gateway.chain.notifying import pause_for
from gateway.domain.errors import StoreAwayError
from gateway.storage.duties import Duties


@pytest.mark.parametrize(
    ("age", "pause"),
    [(0, 20), (20, 20), (600, 20), (660, 22), (3_600, 120), (9_000, 300), (86_400, 300), (-60, 20)],
)
def test_the_pause_grows_with_age(age: float, pause: float) -> None:
    assert pause_for(timedelta(seconds=age)) == timedelta(seconds=pause)


class _Asked(Duties):
    """Says what it is told to say, and how often it was asked."""

    def __init__(self) -> None:
        self.answer: bool | StoreAwayError = True
        self.times = 0
        self.left = 0

    @override
    async def take(self, name: str, holder: str, seconds: float) -> bool:
        assert (name, holder, seconds) == ("notices", "io", LEASE_SECONDS)
        self.times += 1
        if isinstance(self.answer, StoreAwayError):
            raise self.answer
        return self.answer

    @override
    async def leave(self, name: str, holder: str) -> None:
        assert (name, holder) == ("notices", "io")
        self.left += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A monotonic clock to set."""
    now = [1_000.0]
    monkeypatch.setattr("gateway.chain.duty.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


async def test_a_duty_is_asked_for_seldom_and_kept(clock: list[float]) -> None:
    duties = _Asked()
    duty = Duty(duties, "notices", "io")
    for seconds in range(0, 20, 1):
        clock[0] = 1_000 + seconds
        assert await duty.is_mine()
    assert duties.times == 4
    await duty.leave()
    assert duties.left == 1
    await duty.leave()
    assert duties.left == 1


async def test_what_is_another_s_is_not_ours(clock: list[float]) -> None:
    duties = _Asked()
    duties.answer = False
    duty = Duty(duties, "notices", "io")
    assert not await duty.is_mine()
    await duty.leave()
    assert duties.left == 0
    duties.answer = True
    clock[0] += ASK_SECONDS - 0.1
    assert not await duty.is_mine()
    clock[0] += 0.1
    assert await duty.is_mine()
    duties.answer = False  # somebody has taken it
    clock[0] += ASK_SECONDS
    assert not await duty.is_mine()


async def test_without_the_database_it_is_ours_as_long_as_nobody_else_can_have_it(clock: list[float]) -> None:
    duties = _Asked()
    duty = Duty(duties, "notices", "io")
    assert await duty.is_mine()
    duties.answer = StoreAwayError("away")
    clock[0] += ASK_SECONDS
    with pytest.raises(StoreAwayError):
        await duty.is_mine()
    assert await duty.is_mine()
    clock[0] += LEASE_SECONDS - ASK_SECONDS
    with pytest.raises(StoreAwayError):
        await duty.is_mine()
    assert not await duty.is_mine()
