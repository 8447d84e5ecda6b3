"""Cards for those who have others waiting: each is drawn in a process of its own, few at the same time.

The promise of this module: a card can end the process it is drawn in, and nothing else; neither the event loop nor
anybody's memory is held by it, and nobody waits longer than the time limit.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Final

import msgspec

from gateway.dilem.card.facts import SECONDS
from gateway.dilem.contract import CardRequest, CardResult, Language, Theme
from gateway.pipes import converse

MOST_PROCESSES: Final = 2
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from gateway.dilem.card.process import main; main()"
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that a drawing process learns of the environment: it reads strangers' texts and shall know no key."""


class CardFailedError(Exception):
    """There is no card: drawing took too long, could not be started, or broke off. Nothing else has happened."""


class CardRenderer:
    """Draws the cards of one worker.

    Args:
        most: How many processes draw at the same time; other cards wait.
        seconds: How long a card may take, its waiting included.
        command: What is run; tests run something else.

    """

    def __init__(
        self,
        *,
        most: int = MOST_PROCESSES,
        seconds: float = SECONDS,
        command: tuple[str, ...] | None = None,
    ) -> None:
        self._places = asyncio.Semaphore(most)
        self._seconds = seconds
        # Isolated from the environment, but with the imports of this process.
        self._command = command or (sys.executable, "-I", "-c", _BOOT, *map(os.path.abspath, sys.path))

    async def render(self, card: CardResult, language: Language, theme: Theme) -> bytes:
        """Give the PNG of a card; equal cards give equal bytes.

        Raises:
            CardFailedError: There is none.

        """
        request = msgspec.json.encode(CardRequest(result=card, language=language, theme=theme))
        try:
            async with asyncio.timeout(self._seconds), self._places:
                return await self._draw(request)
        except TimeoutError:
            raise CardFailedError("drawing took too long") from None

    async def _draw(self, request: bytes) -> bytes:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
            )
        except OSError as error:
            raise CardFailedError(f"a drawing process can't be started: {error.strerror}") from None
        try:
            png, _ = await converse(process, request)
        except BrokenPipeError:
            raise CardFailedError("a drawing process ended before it was asked") from None
        finally:
            await _end(process)
        if process.returncode != 0 or not png:
            raise CardFailedError(f"a drawing process ended with {process.returncode}")
        return png


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
