"""Deadlines where every call passes: what `asyncio.timeout` does, without a timer for every wait.

A `Deadline` guards the waits of one undertaking, one after the other, and may be moved; a `Patience` guards the waits of
all who are equally patient. What was cancelled by anybody else stays cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_RESOLUTION_SECONDS = 0.002
"""Event loops round their timers: one that rings so early is on time."""


class _Guard:
    """A `with` block that can be ended with `TimeoutError` while its task waits inside."""

    __slots__ = ("_before", "_passed", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        """Who waits."""
        self._before = 0
        """Cancellations that others had asked of it before."""
        self._passed = False

    def _begin(self) -> None:
        self._task = task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for tasks")
        self._before = task.cancelling()

    def _pass(self) -> None:
        if self._task is not None:
            self._passed = True
            self._task.cancel()

    def _end(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        task, self._task = self._task, None
        if self._passed and task is not None:
            self._passed = False
            if task.uncancel() <= self._before and kind is asyncio.CancelledError:
                raise TimeoutError from error


class Deadline(_Guard):
    """Guards the waits of one task at a time, each inside a `with` block; `close` it in the end.

    A block that still waits when the deadline passes is ended with `TimeoutError`; so is one that begins later, at its
    first wait. The timer behind it is touched when it is made and when it rings, not when the deadline moves.

    Args:
        seconds: From now.

    """

    __slots__ = ("_at", "_loop", "_timer")

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """Begin to wait."""
        self._begin()
        if self._timer is None:
            self._timer = self._loop.call_at(self._at, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """End the wait."""
        self._end(kind, error)

    def move(self, seconds: float) -> None:
        """Set it anew, so many seconds from now: not earlier than it was."""
        self._at = self._loop.time() + seconds

    def expire(self) -> None:
        """Let it pass now."""
        self.close()
        self._at = self._loop.time()
        self._pass()

    def close(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._at - self._loop.time() <= _RESOLUTION_SECONDS:
            self._pass()
        elif self._task is not None:
            self._timer = self._loop.call_at(self._at, self._ring)


class Patience:
    """How long a certain thing is waited for, and all who wait for it now: `with patience(): await …`.

    As all have the same patience, whoever began first loses it first, and one timer is enough.

    Args:
        seconds: From the beginning of each block to its `TimeoutError`.

    """

    __slots__ = ("_loop", "_timer", "_waiting", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: dict[_Waiting, None] = {}
        """In the order in which they began."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> _Waiting:
        """Give the guard of one wait."""
        return _Waiting(self)

    def begin(self, wait: _Waiting) -> None:
        """Take one more in."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._timer = loop, None
            self._waiting.clear()
        wait.at = loop.time() + self.seconds
        self._waiting[wait] = None
        if self._timer is None:
            self._timer = loop.call_at(wait.at, self._ring, loop)

    def end(self, wait: _Waiting) -> None:
        """Let one go."""
        self._waiting.pop(wait, None)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        self._timer = None
        now = loop.time() + _RESOLUTION_SECONDS
        for wait in tuple(self._waiting):
            if wait.at > now:
                self._timer = loop.call_at(wait.at, self._ring, loop)
                return
            wait.lose()


class _Waiting(_Guard):
    """One wait of a `Patience`."""

    __slots__ = ("_patience", "at")

    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience
        self.at = 0.0

    def __enter__(self) -> Self:
        """Begin to wait."""
        self._begin()
        self._patience.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """End the wait."""
        self._patience.end(self)
        self._end(kind, error)

    def lose(self) -> None:
        """End the block that waits."""
        self._patience.end(self)
        self._pass()
