"""The thread that owns the file: the event loop hands it steps and never waits for a disk.

Steps that pile up while one transaction is written go into the next one together. A step that fails takes no other
with it: the batch is undone and each step gets a transaction of its own.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.deadline import Patience
from gateway.domain.errors import StoreAwayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.keyvalue.sqlite.session import Session

Result = TypeVar("Result")

ANSWER_SECONDS = 1.8
"""A step without an answer by then counts as lost: `StoreAwayError`."""
_BATCH_STEPS = 128


class _ClosedError(Exception):
    """No transaction could begin: trying the steps one by one would fail as well."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Job:
    """A step, and the future of the task that waits for its outcome."""

    __slots__ = ("error", "future", "step", "value")

    def __init__(self, step: Callable[[Session], Any], future: asyncio.Future[Any]) -> None:
        self.step = step
        self.future = future
        self.value: Any = None
        self.error: Exception | None = None


class Worker:
    """Runs steps on a session in a thread of its own, started by the first step.

    Args:
        open_session: Opens the file; called in the thread, again after every trouble.

    """

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open_session = open_session
        self._patience = Patience(ANSWER_SECONDS)
        self._session: Session | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, step: Callable[[Session], Result]) -> Result:
        """Carry out a step in a transaction.

        Raises:
            StoreAwayError: The file can't be used. A step whose turn had not come is not carried out later.

        """
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="pepper-gate", daemon=True)
            self._thread.start()
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(step, future))
        try:
            with self._patience():
                return await future
        except TimeoutError:
            raise StoreAwayError("the embedded gate did not answer in time") from None

    async def stop(self) -> None:
        """Carry out what is queued and end the thread."""
        if self._thread is None:
            return
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, ANSWER_SECONDS)

    def _work(self) -> None:
        going = True
        while going:
            batch: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                # A task that waits no longer will not know of it: then better nothing is done.
                if not job.future.cancelled():
                    batch.append(job)
                if len(batch) == _BATCH_STEPS or self._jobs.empty():
                    break
                job = self._jobs.get()
            going = job is not None
            if batch:
                self._settle(batch)
        self._close()

    def _settle(self, batch: list[_Job]) -> None:
        error = self._carry_out(batch)
        if error is None or len(batch) == 1 or isinstance(error, _ClosedError):
            _conclude(batch, error)
        else:
            for job in batch:
                _conclude([job], None if job.future.cancelled() else self._carry_out([job]))
        _tell(batch)

    def _carry_out(self, batch: list[_Job]) -> Exception | None:
        """Carry out steps in one transaction; what was wrong, when it was undone."""
        try:
            session = self._usable_session()
            session.begin()
        except (sqlite3.Error, OSError) as error:
            self._close()
            return _ClosedError(error)
        try:
            for job in batch:
                job.value = job.step(session)
            session.commit()
        except (sqlite3.Error, OSError) as error:
            # Closing undoes; what is open may be the trouble itself.
            self._close()
            return error
        except (ValueError, TypeError, OverflowError) as error:
            session.undo()
            return error
        return None

    def _usable_session(self) -> Session:
        if self._session is not None and not self._session.standing():
            self._close()
        if self._session is None:
            self._session = self._open_session()
        return self._session

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _conclude(batch: list[_Job], error: Exception | None) -> None:
    if isinstance(error, _ClosedError):
        error = error.reason
    for job in batch:
        if isinstance(error, (sqlite3.Error, OSError)):
            job.error = StoreAwayError(f"the embedded gate can't use its file: {error}")
            job.error.__cause__ = error
        else:
            job.error = error


def _tell(batch: list[_Job]) -> None:
    """Wake the waiting tasks: one call into each loop, which in a process of this house is one."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, jobs in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, jobs)


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.value)
