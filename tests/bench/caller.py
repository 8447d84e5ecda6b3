"""The callers, in a process of their own: jobs come in on standard input, one JSON a line, results go out likewise.

Each caller keeps one connection and asks again as soon as it has its answer (a closed loop). They are frugal on
purpose: bare protocols, prebuilt requests, no more parsing than it takes to know where an answer ends.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from typing import TYPE_CHECKING, cast

import msgspec
from typing_extensions import override

from tests.bench.loops import run

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBER = b"#NUMBER#####"
"""Stands in a request where each call has a number of its own; as many digits take its place."""
PATIENCE_SECONDS = 30.0

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TAIL_BYTES = 4096


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What callers do.

    Attributes:
        seconds: No call is begun later than this.
        calls: Nor more calls than these, all callers together; None is any number.
        request: Head and body, as they go over the wire.
        marker: What a right answer contains; of a stream, near its end.
        leave_after: Seconds after which a caller closes the connection whatever has come; None is never.

    """

    port: int
    callers: int
    seconds: float
    request: bytes
    status: int = 200
    marker: bytes = b""
    calls: int | None = None
    leave_after: float | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: answers, those that were not as they should be (and the first of them), seconds in all,
    milliseconds until an answer (of a stream: until its first piece)."""

    calls: int
    wrong: int
    seconds: float
    p50: float
    p99: float
    example: str


class _Work:
    """One job under way."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.loop = asyncio.get_running_loop()
        self.end = time.perf_counter() + job.seconds
        self.over = self.loop.create_future()
        self.latencies: list[float] = []
        self.wrong = 0
        self.example = ""
        self._begun = 0
        self._number = time.time_ns() // 1_000_000 % 10**7 * 10**5
        self._callers = job.callers

    def next_request(self) -> bytes | None:
        """The next call's bytes; None when a caller's work is done."""
        if time.perf_counter() >= self.end or self._begun == self.job.calls:
            self._callers -= 1
            if not self._callers and not self.over.done():
                self.over.set_result(None)
            return None
        self._begun += 1
        return self.job.request.replace(NUMBER, b"%012d" % (self._number + self._begun))

    def note(self, seconds: float, head: bytes, tail: bytes) -> None:
        self.latencies.append(seconds)
        if self.job.leave_after is None and (
            head[9:12] != b"%d" % self.job.status or self.job.marker not in tail
        ):
            self.wrong += 1
            self.example = self.example or (head[:20] + b" ... " + tail[-300:]).decode(errors="replace")


class _Caller(asyncio.Protocol):
    def __init__(self, work: _Work) -> None:
        self._work = work
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._data = b""
        self._left = -1
        """Bytes of the body that have not come; negative: told by chunks."""
        self._asked = 0.0
        self._heard = 0.0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        self._ask()

    @override
    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._head:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head, self._data = self._data[: end + 2], self._data[end + 4 :]
            length = _LENGTH.search(self._head)
            self._left = int(length[1]) if length else -1
        if not self._heard and self._data:
            self._heard = time.perf_counter()
        if len(self._data) == self._left if self._left >= 0 else self._data.endswith(b"0\r\n\r\n"):
            self._answered()
        elif self._left < 0:
            self._data = self._data[-_TAIL_BYTES:]

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._asked:
            self._work.note(time.perf_counter() - self._asked, b"(cut)", self._data)
            self._again()

    def _ask(self) -> None:
        request = self._work.next_request()
        self._asked, self._heard, self._head, self._data = 0.0, 0.0, b"", b""
        if self._transport is None:
            return
        if request is None:
            self._transport.close()
            return
        self._asked = time.perf_counter()
        self._transport.write(request)
        if self._work.job.leave_after is not None:
            self._work.loop.call_later(self._work.job.leave_after, self._transport.abort)

    def _answered(self) -> None:
        self._work.note(self._heard - self._asked, self._head, self._data)
        if self._work.job.leave_after is None:
            self._ask()

    def _again(self) -> None:
        """A cut connection is made anew, unless there is nothing more to ask."""
        work = self._work
        self._asked = 0.0
        task = work.loop.create_task(_connect(work))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def _connect(work: _Work) -> None:
    await work.loop.create_connection(lambda: _Caller(work), "127.0.0.1", work.job.port)


async def carry_out(job: Job) -> Result:
    work = _Work(job)
    began = time.perf_counter()
    await asyncio.gather(*(_connect(work) for _ in range(job.callers)))
    async with asyncio.timeout(job.seconds + PATIENCE_SECONDS):
        await work.over
    ordered = sorted(work.latencies)
    return Result(
        calls=len(ordered),
        wrong=work.wrong,
        seconds=time.perf_counter() - began,
        p50=_at(ordered, 0.5),
        p99=_at(ordered, 0.99),
        example=work.example,
    )


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000 if ordered else 0.0


async def serve(lines: Iterable[bytes]) -> None:
    for line in lines:  # nothing else happens between jobs
        result = await carry_out(msgspec.json.decode(line, type=Job))
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    run(serve(sys.stdin.buffer))
