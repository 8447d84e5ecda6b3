"""`SqliteIndex`: the embedded index, exact, its projects' matrices kept in memory.

The event loop never waits for a disk: everything happens in a few threads, each with a connection of its own. A search
asks the file for the project's state, in one statement; what another process wrote is seen by it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from gateway.domain.errors import StoreAwayError
from gateway.ports import VectorIndex
from gateway.vectors.arithmetic import FLOAT, unit, unit_rows
from gateway.vectors.matches import best
from gateway.vectors.sqlite.file import FILE_NAME, Content, IndexFile
from gateway.vectors.sqlite.matrices import Matrices
from gateway.vectors.sqlite.matrix import Matrix, Texts, matrix_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gateway.ports import Match
    from gateway.vectors.arithmetic import Floats

Result = TypeVar("Result")

MEMORY_BYTES = 256 * 1024 * 1024
"""What the matrices of a process may take, unless told otherwise."""
ANSWER_SECONDS = 1.8
WRITE_SECONDS = 6.0
"""With the wait for other writings of this process."""
FORGET_SECONDS = 20.0
"""A project may be a few hundred megabytes. A file that can't be used is noticed sooner."""
_THREADS = 4


class _NotKeptError(Exception):
    """The matrix is not in memory, or is not what the file says any more."""


class SqliteIndex(VectorIndex):
    """An index whose passages are in `knowledge.db`, shared by every process that opens the same folder.

    Nothing is opened before the first use, so an index may be made before a fork and used after it. The file is made by
    the first write. When it is missing while the database calls documents live, it is lost: searching says that the
    store is away, until the file is back or something is written anew.

    Args:
        folder: `PEPPER_DATA`.
        memory_bytes: What the matrices kept in this process may take. A project larger than that is read from the file
            at each search.

    """

    def __init__(self, folder: Path, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._matrices = Matrices(memory_bytes)
        self._idle: deque[IndexFile] = deque()
        self._threads: ThreadPoolExecutor | None = None
        self._loading = asyncio.Lock()
        self._writing = asyncio.Lock()

    @override
    async def write(
        self, project: str, document: int, version: int, passages: Sequence[str], vectors: Sequence[bytes]
    ) -> None:
        if len(passages) != len(vectors):
            raise ValueError("every passage has a vector")

        def work() -> None:
            rows = unit_rows(vectors)
            texts = Texts.pack(passages)
            content = Content(
                len(rows), rows.shape[1], texts.ends.tobytes(), texts.texts, rows.astype(FLOAT).tobytes()
            )
            with self._open(create=True) as file:
                file.write(project, document, version, content)

        async with _answering(WRITE_SECONDS), self._writing:
            await self._run(work)

    @override
    async def forget(self, project: str, document: int, version: int | None = None) -> None:
        await self._forget(ANSWER_SECONDS, project, document, version)

    @override
    async def forget_project(self, project: str) -> None:
        await self._forget(FORGET_SECONDS, project)

    @override
    async def search(
        self, project: str, live: Mapping[int, int], vector: bytes, most: int, floor: float
    ) -> Sequence[Match]:
        if not live or most < 1:
            return ()
        question, live = unit(vector), dict(live)
        async with _answering(ANSWER_SECONDS):
            try:
                return await self._run(lambda: self._ask(project, live, question, most, floor))
            except _NotKeptError:
                # One at a time: callers of one cold project load it once, and memory has one more matrix at most.
                async with self._loading:
                    return await self._run(lambda: self._load_and_ask(project, live, question, most, floor))

    @override
    async def held(self, project: str, live: Mapping[int, int]) -> frozenset[int]:
        wanted = dict(live)

        def work() -> frozenset[int]:
            if not self._path.exists() and self._folder.is_dir():
                return frozenset()
            with self._open() as file:
                there = file.numbers(project)
            return frozenset(document for document, version in there if wanted.get(document) == version)

        if not wanted:
            return frozenset()
        async with _answering(ANSWER_SECONDS):
            return await self._run(work)

    @override
    async def passages(self, project: str, document: int, version: int) -> Sequence[str]:
        def work() -> Sequence[str]:
            with self._open() as file:
                found = file.texts(project, document, version)
            if found is None:
                return ()
            texts = Texts.read(*found)
            return tuple(texts.passage(index) for index in range(len(texts)))

        async with _answering(ANSWER_SECONDS):
            return await self._run(work)

    @override
    async def ping(self) -> None:
        def work() -> None:
            if self._path.exists():
                with self._open() as file:
                    file.state("")
            elif not os.access(self._folder, os.R_OK | os.W_OK | os.X_OK):
                raise FileNotFoundError(f"no folder {self._folder} to write in")

        async with _answering(ANSWER_SECONDS):
            await self._run(work)

    @override
    async def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            ended = asyncio.to_thread(threads.shutdown, cancel_futures=True)
            with suppress(TimeoutError):  # of a thread that waits for a disk
                await asyncio.wait_for(ended, ANSWER_SECONDS)
        self._matrices.clear()
        while self._idle:
            self._idle.pop().close()

    async def _forget(
        self, seconds: float, project: str, document: int | None = None, version: int | None = None
    ) -> None:
        def work() -> None:
            if self._path.exists():
                with self._open() as file:
                    file.forget(project, document, version)

        async with _answering(seconds), self._writing:
            await self._run(work)

    # --- in the threads ---------------------------------------------------------------------------------------------

    def _ask(
        self, project: str, live: Mapping[int, int], question: Floats, most: int, floor: float
    ) -> Sequence[Match]:
        with self._open() as file:
            state = file.state(project)
        matrix = self._matrices.get((project, question.size))
        if matrix is None or matrix.state != state or matrix.live != live:
            raise _NotKeptError
        return matrix.nearest(question, most, floor)

    def _load_and_ask(
        self, project: str, live: Mapping[int, int], question: Floats, most: int, floor: float
    ) -> Sequence[Match]:
        with suppress(_NotKeptError):  # somebody else may have loaded it meanwhile
            return self._ask(project, live, question, most, floor)
        key = (project, question.size)
        with self._open() as file, file.reading():
            state = file.state(project)
            wanted = [
                version
                for version in file.versions(project, question.size)
                if live.get(version.document) == version.version
            ]
            needed = matrix_bytes(wanted, question.size)
            if needed > self._matrices.limit:
                found: list[Match] = []
                for version in wanted:
                    alone = Matrix(state, live, [version], file.content, dimensions=question.size)
                    found = best([*found, *alone.nearest(question, most, floor)], most, floor)
                return found
            earlier = self._matrices.take(key)
            self._matrices.make_room(needed)
            matrix = Matrix(state, live, wanted, file.content, dimensions=question.size, earlier=earlier)
        self._matrices.put(key, matrix)
        return matrix.nearest(question, most, floor)

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[IndexFile]:
        """Borrow a connection; one that met trouble is not used again, nor is what was read through it."""
        try:
            file = self._idle.pop()
        except IndexError:
            file = None
        if file is not None and not file.standing():
            file.close()
            file = None
            self._matrices.clear()
        if file is None:
            file = IndexFile(self._path, create=create)
        try:
            yield file
        except (sqlite3.Error, OSError):
            file.close()
            self._matrices.clear()
            raise
        except BaseException:
            file.close()
            raise
        self._idle.append(file)

    async def _run(self, work: Callable[[], Result]) -> Result:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pepper-vectors")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


@asynccontextmanager
async def _answering(seconds: float) -> AsyncIterator[None]:
    """Bound a method, and call whatever is wrong with the file by one name."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise StoreAwayError("the embedded vector index did not answer in time") from None
    except (sqlite3.Error, OSError) as error:
        raise StoreAwayError(f"the embedded vector index can't use its file: {error}") from error
