"""Processes that are gone before they were asked, under the loop that serves and under the standard one."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
import uvloop

from gateway.attachments.pdf_text import PdfTexts, UnreadableError
from gateway.attachments.verdicts import Reading
from gateway.dilem.card.renderer import CardFailedError, CardRenderer
from gateway.pipes import converse, put
from gateway.ports import ProviderError, Trouble
from gateway.providers import sdk_process
from gateway.providers.sdk_process import Question
from tests.unit.dilem.cards import USUAL

Loop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
BOTH = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
start = asyncio.create_subprocess_exec
ask_in_a_process = sdk_process.ask
"""Before anything puts the SDKs into this process."""


async def gone(*_: object, **pipes: Any) -> Process:
    """A process that has ended, whatever was to be run."""
    process = await start(sys.executable, "-c", "raise SystemExit(3)", **pipes)
    await process.wait()
    return process


def run(loop: Loop, work: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await asyncio.wait_for(work(), 30)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(all_of_it())


async def keep_writing(pipe: asyncio.StreamWriter) -> None:
    for _ in range(100):
        put(pipe, b"x" * 1000)
        await pipe.drain()
        await asyncio.sleep(0)


@BOTH
def test_writing_to_one_is_a_broken_pipe(loop: Loop) -> None:
    async def work() -> None:
        process = await gone(stdin=PIPE)
        assert process.stdin is not None
        with pytest.raises(OSError):
            await keep_writing(process.stdin)

    run(loop, work)


@BOTH
def test_asking_one_gives_nothing_or_a_broken_pipe(loop: Loop) -> None:
    async def work() -> None:
        process = await gone(stdin=PIPE, stdout=PIPE, stderr=PIPE)
        try:
            assert await converse(process, b"x" * 1_000_000) == (b"", b"")
        except BrokenPipeError:
            assert loop is uvloop.new_event_loop
        assert process.returncode == 3

    run(loop, work)


@BOTH
def test_whoever_asks_one_fails_in_its_own_words(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "create_subprocess_exec", gone)

    async def work() -> None:
        with pytest.raises(ProviderError) as no_sdk:
            await ask_in_a_process("gateway.providers.claude.sdk", Question("k", None))
        assert no_sdk.value.trouble is Trouble.UNREACHABLE
        assert not no_sdk.value.sent
        with pytest.raises(UnreadableError) as no_text:
            await PdfTexts().read(b"%PDF-1.7", 10)
        assert no_text.value.reading is Reading.CRASHED
        with pytest.raises(CardFailedError):
            await CardRenderer().render(USUAL, "en", "light")

    run(loop, work)


@BOTH
@pytest.mark.parametrize(
    "says", ["print('{')", "print('[]')", "pass", "import os; os.kill(os.getpid(), 9)", "print('x' * 10**6)"]
)
def test_an_sdk_s_process_that_says_something_else_is_a_provider_s_failure(
    loop: Loop, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other(*_: object, **pipes: Any) -> Process:
        return await start(sys.executable, "-c", says, **pipes)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", other)

    async def work() -> None:
        with pytest.raises(ProviderError) as caught:
            await ask_in_a_process("gateway.providers.claude.sdk", Question("k", None))
        assert caught.value.trouble is Trouble.UNREACHABLE
        assert not caught.value.sent

    run(loop, work)
