"""What a provider's SDK would send, found out by running it in a process of its own.

Nothing else of an SDK is needed here, and a loaded one holds fifty megabytes of every worker for ever: so it is loaded,
has an empty request sent into a client that reaches nobody, says what that was, and ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from gateway.pipes import converse
from gateway.providers import failures

SECONDS = 60.0
"""How long an SDK may take to load, on a machine that has other things to do."""
_MOST_TOLD = 500
_SECRETS = ("PEPPER_", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
"""How variables begin that an SDK's process has no need of."""
_BOOT = (
    "import sys; name, sys.path[:] = sys.argv[1], sys.argv[2:];"
    "import importlib; importlib.import_module(name).main()"
)


class Question(msgspec.Struct, frozen=True):
    """What the SDK is given, `key` also as a stand-in for one; `base_url` None is its own choice."""

    key: str
    base_url: str | None


class Sent(msgspec.Struct, frozen=True):
    """A request as an SDK sends it; `url` None: the base URL is no address."""

    url: str | None
    headers: dict[str, str] = {}


Observe: TypeAlias = Callable[[Question], Awaitable[Sent]]


async def ask(module: str, question: Question) -> Sent:
    """Ask the SDK behind a module of this house in a new process.

    Args:
        module: Its `main` answers by `answer`.
        question: Goes through a pipe, and not into the list of processes.

    Raises:
        ProviderError: The process could not be started, failed, or took too long.

    """
    # Isolated from the variables that are Python's, but with the imports of this process.
    command = (sys.executable, "-I", "-c", _BOOT, module, *map(os.path.abspath, sys.path))
    # A variable that is set to nothing is none for us; the SDKs would take it as their base URL. Secrets are not theirs.
    environment = {
        name: value for name, value in os.environ.items() if value and not name.startswith(_SECRETS)
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
        )
    except OSError as error:
        raise failures.no_sdk(f"a process can't be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(SECONDS):
            told, complaint = await converse(process, msgspec.json.encode(question))
    except TimeoutError:
        raise failures.no_sdk("it takes too long to load") from None
    except BrokenPipeError:
        raise failures.no_sdk("its process ended before it was asked") from None
    finally:
        await _end(process)
    if process.returncode:
        words = complaint.decode(errors="replace").strip()[-_MOST_TOLD:]
        raise failures.no_sdk(words or f"its process ended with {process.returncode}")
    try:
        return msgspec.json.decode(told, type=Sent)
    except msgspec.MsgspecError:
        raise failures.no_sdk("its process told something else") from None


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def answer(observe: Observe) -> None:
    """The process's side: read the question, answer it."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_answered(observe, question))))


async def _answered(observe: Observe, question: Question) -> Sent:
    return await observe(question)
