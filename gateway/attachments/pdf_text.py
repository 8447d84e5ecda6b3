"""The text of a PDF, read in a process of its own: no file stops the gateway, whatever it holds."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from signal import SIGALRM

from gateway.attachments.processes import PASSED_ON
from gateway.attachments.verdicts import READING_SECONDS, Reading
from gateway.pipes import converse

AT_ONCE = 2
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from gateway.attachments.extractor import main; main(int(sys.argv[1]))"
_START_SECONDS = 10.0


class UnreadableError(Exception):
    """There is no text to be had from a PDF; `reading` says why."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.name)
        self.reading = reading


class PdfTexts:
    """Reads PDFs, two at a time; a process for each.

    Args:
        seconds: How long one file may take.

    """

    def __init__(self, *, seconds: float = READING_SECONDS) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._seconds = seconds

    async def read(self, data: bytes, most: int) -> str:
        """Give the text of a PDF, of at most so many characters.

        Raises:
            UnreadableError: There is none, or more of it.

        """
        async with self._places:
            answer = await self._asked(data, most)
        try:
            outcome, text = Reading(answer[0]), answer[1:].decode()
        except (IndexError, ValueError):
            raise UnreadableError(Reading.CRASHED) from None
        if outcome is not Reading.READ:
            raise UnreadableError(outcome)
        if len(text) > most:
            raise UnreadableError(Reading.TOO_LONG)
        return text

    async def _asked(self, data: bytes, most: int) -> bytes:
        command = (sys.executable, "-I", "-c", _BOOT, str(most), *map(os.path.abspath, sys.path))
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
            )
        except OSError:
            raise UnreadableError(Reading.CRASHED) from None
        try:
            async with asyncio.timeout(_START_SECONDS + self._seconds):
                answer, _ = await converse(process, data)
        except TimeoutError:
            raise UnreadableError(Reading.TOO_SLOW) from None
        except BrokenPipeError:
            raise UnreadableError(Reading.CRASHED) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 0:
            return answer
        # What it had said by then may be cut.
        raise UnreadableError(Reading.TOO_SLOW if process.returncode == -SIGALRM else Reading.CRASHED)
