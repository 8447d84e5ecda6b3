"""A few processes that count pages, started when they are needed and thrown away when a file broke them.

The promise of this module: a file can end the process it is counted in, and nothing else. A process that met a file
it could not count is not used again, and one that died for no known reason is replaced once for the same file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

from gateway.attachments.verdicts import ANSWER, COUNTING_SECONDS, HEADER, Outcome, Verdict
from gateway.pipes import put

MOST_PROCESSES = 4
FILES_PER_PROCESS = 100
START_SECONDS = 20.0
PATIENCE_SECONDS = 10.0
_SLICE_CHARACTERS = 64 * 1024
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from gateway.attachments.counter import main; main()"
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that a counting process learns of the environment: it reads strangers' files and shall know no key."""


class CountingAwayError(Exception):
    """No process could be started, or counting was stopped: nothing is known of the file."""


class CountingProcess:
    """One process and its pipes; it counts one file at a time."""

    def __init__(self, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise CountingAwayError("the process has no pipes")
        self._process = process
        self._files = process.stdin
        self._answers = process.stdout
        self.counted = 0

    @classmethod
    async def start(cls, command: tuple[str, ...]) -> CountingProcess:
        """Start one, which is not ready yet.

        Raises:
            CountingAwayError: It can't be started.

        """
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            return cls(
                await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
                )
            )
        except OSError as error:
            raise CountingAwayError(f"a counting process can't be started: {error.strerror}") from None

    async def ready(self) -> None:
        """Wait until it can be given a file.

        Raises:
            CountingAwayError: It ended, or takes too long.

        """
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._answer()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            raise CountingAwayError("a counting process ended or hung while it started") from None

    @property
    def alive(self) -> bool:
        """Whether it was not seen to end."""
        return self._process.returncode is None

    @property
    def id(self) -> int:
        """The number the system knows it by."""
        return self._process.pid

    async def count(self, text: str) -> Verdict:
        """Have a base64 PDF counted."""
        self.counted += 1
        put(self._files, HEADER.pack(len(text)))
        for place in range(0, len(text), _SLICE_CHARACTERS):
            put(self._files, text[place : place + _SLICE_CHARACTERS].encode("ascii"))
            await self._files.drain()
            # A process that keeps up with the writing would never make it wait.
            await asyncio.sleep(0)
        return await self._answer()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self.alive:
            self._process.kill()
        self._files.close()

    async def ended(self) -> None:
        """Wait until it is gone."""
        await self._process.wait()

    async def _answer(self) -> Verdict:
        outcome, pages = ANSWER.unpack(await self._answers.readexactly(ANSWER.size))
        return Verdict(Outcome(outcome), pages)


class CountingProcesses:
    """The processes of one worker.

    Args:
        most: How many there are at the same time.
        seconds: How long one file may take.
        files: After how many files a process is replaced.
        patience: Seconds that a file may wait for a process.
        command: What is run; tests run something else.

    """

    def __init__(
        self,
        *,
        most: int = MOST_PROCESSES,
        seconds: float = COUNTING_SECONDS,
        files: int = FILES_PER_PROCESS,
        patience: float = PATIENCE_SECONDS,
        command: tuple[str, ...] | None = None,
    ) -> None:
        self._places = asyncio.Semaphore(most)
        self._seconds = seconds
        self._files = files
        self._patience = patience
        # Isolated from the environment, but with the imports of this process.
        self._command = command or (sys.executable, "-I", "-c", _BOOT, *map(os.path.abspath, sys.path))
        self._starting: set[CountingProcess] = set()
        self._idle: list[CountingProcess] = []
        self._busy: set[CountingProcess] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    @property
    def ids(self) -> frozenset[int]:
        """The numbers of the processes that count or wait for a file."""
        return frozenset(process.id for process in (*self._idle, *self._busy))

    async def count(self, text: str) -> Verdict:
        """Have a base64 PDF counted, as soon as a process is free.

        Raises:
            CountingAwayError: Nothing is known of the file, and it isn't the file's fault.

        """
        try:
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
        except TimeoutError:
            raise CountingAwayError("all counting processes were busy for too long") from None
        try:
            verdict = await self._count_once(text)
            if verdict.outcome is Outcome.CRASHED:
                # Perhaps not the file's fault: the system was short of memory, or somebody ended the process.
                verdict = await self._count_once(text)
            return verdict
        finally:
            self._places.release()

    async def aclose(self) -> None:
        """End all processes; counts that still run fail."""
        self._stopped.set()
        for process in (*self._starting, *self._idle, *self._busy):
            self._retire(process)
        self._idle.clear()
        while self._leaving:
            await asyncio.wait(self._leaving)

    async def _count_once(self, text: str) -> Verdict:
        process = await self._take()
        self._busy.add(process)
        verdict = Verdict(Outcome.CRASHED)
        try:
            async with asyncio.timeout(self._seconds):
                verdict = await process.count(text)
        except TimeoutError:
            verdict = Verdict(Outcome.TOO_SLOW)
        except (OSError, asyncio.IncompleteReadError):
            pass  # it is dead, and so is the verdict above
        finally:
            self._busy.discard(process)
            if (
                verdict.outcome is Outcome.COUNTED
                and process.counted < self._files
                and not self._stopped.is_set()
            ):
                self._idle.append(process)
            else:
                self._retire(process)
        return verdict

    async def _take(self) -> CountingProcess:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            self._retire(process)
        if self._stopped.is_set():
            raise CountingAwayError("counting was stopped")
        process = await CountingProcess.start(self._command)
        self._starting.add(process)
        ready = False
        try:
            await process.ready()
            ready = not self._stopped.is_set()
        finally:
            self._starting.discard(process)
            if not ready:
                self._retire(process)
        if not ready:
            raise CountingAwayError("counting was stopped")
        return process

    def _retire(self, process: CountingProcess) -> None:
        process.kill()
        leaving = asyncio.create_task(process.ended())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
