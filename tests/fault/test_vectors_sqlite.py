"""The embedded vector index when its file is locked, gone, damaged or full, and how much memory it takes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from gateway.domain.errors import StoreAwayError
from gateway.ports import Match
from gateway.vectors.sqlite import SqliteIndex
from gateway.vectors.sqlite import index as index_module
from gateway.vectors.sqlite.file import FILE_NAME, Content, IndexFile
from gateway.vectors.sqlite.matrix import Matrix
from tests.contract.indexes import (
    ROOT,
    IndexStore,
    Vectors,
    as_bytes,
    ask,
    assert_like,
    brute_force,
    directions,
    run_elsewhere,
    told_by,
    within,
    write,
)

ROWS = directions(10)


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[SqliteIndex]:
    opened = SqliteIndex(tmp_path)
    yield opened
    await opened.close()


async def _is_away(index: SqliteIndex, *, writes: bool = True, reads: bool = True) -> None:
    """Every method says so in time."""
    attempts: list[Awaitable[object]] = []
    if writes:
        attempts += [write(index, "demo", 5, 1, ROWS), index.forget("demo", 5), index.forget_project("else")]
    if reads:
        attempts += [ask(index, "demo", {1: 1}, ROWS[0]), index.passages("demo", 1, 1)]
    begun = time.monotonic()
    for attempt in attempts:
        before = time.monotonic()
        with pytest.raises(StoreAwayError):
            await attempt
        assert time.monotonic() - before < 2.0
    assert time.monotonic() - begun < 2.0 * len(attempts)


def _connect(folder: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None))


def _lose(folder: Path) -> None:
    for path in folder.glob(f"{FILE_NAME}*"):
        path.unlink()


# --- locks --------------------------------------------------------------------------------------------------------


async def test_a_file_that_another_writes_is_away_for_writing_alone(
    index: SqliteIndex, tmp_path: Path
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    with _connect(tmp_path) as locker:
        locker.execute("BEGIN IMMEDIATE")
        await _is_away(index, reads=False)
        assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
        locker.execute("ROLLBACK")
    await write(index, "demo", 2, 1, ROWS)
    assert await ask(index, "demo", {2: 1}, ROWS[3], most=1) == [(2, 4)]


async def test_a_file_that_another_has_for_itself_is_away_and_heals(
    index: SqliteIndex, tmp_path: Path
) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await index.close()
    with _connect(tmp_path) as locker:
        locker.execute("PRAGMA locking_mode = EXCLUSIVE")
        locker.execute("BEGIN EXCLUSIVE")
        await _is_away(index)
        with pytest.raises(StoreAwayError):
            await index.ping()
        locker.execute("ROLLBACK")
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_the_loop_goes_on_while_the_file_is_waited_for(index: SqliteIndex, tmp_path: Path) -> None:
    await write(index, "demo", 1, 1, ROWS)
    longest, stop = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not stop:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    watcher = asyncio.create_task(watch())
    with _connect(tmp_path) as locker:
        locker.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        outcomes = await asyncio.gather(
            *(write(index, "demo", number, 1, ROWS) for number in range(2, 12)), return_exceptions=True
        )
        assert time.monotonic() - begun < 8
        locker.execute("ROLLBACK")
    stop = True
    await watcher
    assert {type(outcome) for outcome in outcomes} == {StoreAwayError}
    assert longest < 1.0


async def test_many_writing_processes_lose_nothing(index: SqliteIndex, tmp_path: Path) -> None:
    store = IndexStore("sqlite", str(tmp_path))
    program = """
        rows = directions(200)
        for document in range(20):
            await write(index, "progetto-NAME", document, 1, rows)
        print("done")
        """
    processes = [run_elsewhere(program.replace("NAME", name), store) for name in "abc"]
    assert [await told_by(process) for process in processes] == ["done\n"] * 3
    for name in "abc":
        for document in range(20):
            assert len(await index.passages(f"progetto-{name}", document, 1)) == 200


# --- the file -----------------------------------------------------------------------------------------------------


async def test_a_lost_file_is_away_until_it_is_back(index: SqliteIndex, tmp_path: Path) -> None:
    await write(index, "demo", 1, 1, ROWS)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
    await index.close()
    shutil.copy(tmp_path / FILE_NAME, tmp_path / "copy")
    await index.ping()
    _lose(tmp_path)
    await _is_away(index, writes=False)
    await index.forget("demo", 1)
    await index.forget_project("demo")
    await index.ping()
    assert await ask(index, "demo", {}, ROWS[0]) == []
    assert not (tmp_path / FILE_NAME).exists(), "only writing makes it"
    shutil.move(tmp_path / "copy", tmp_path / FILE_NAME)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_a_lost_file_is_begun_anew_by_the_next_writing_and_old_vectors_are_not_remembered(
    index: SqliteIndex, tmp_path: Path
) -> None:
    other = SqliteIndex(tmp_path)
    await write(index, "demo", 1, 1, ROWS, name="vecchio")
    for each in (index, other):
        assert len(await ask(each, "demo", {1: 1}, ROWS[3], most=50)) == 10
    _lose(tmp_path)
    await write(index, "demo", 1, 1, ROWS[:2], name="nuovo")
    for each in (index, other):
        found = await each.search("demo", {1: 1}, as_bytes(ROWS)[0], 50, -1.0)
        assert sorted(match.text for match in found) == ["nuovo 1", "nuovo 2"]
    await other.close()


async def test_a_removed_folder_is_away_until_it_returns(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    index = SqliteIndex(folder)
    await write(index, "demo", 1, 1, ROWS)
    shutil.move(folder, tmp_path / "elsewhere")
    with pytest.raises(StoreAwayError):
        await write(index, "demo", 2, 1, ROWS)
    with pytest.raises(StoreAwayError):
        await index.ping()
    await _is_away(index, writes=False)
    assert not folder.exists()
    shutil.move(tmp_path / "elsewhere", folder)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]
    await write(index, "demo", 2, 1, ROWS)
    await index.close()


async def test_a_file_that_is_none_is_away_and_heals(index: SqliteIndex, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database at all" * 1000)
    await _is_away(index)
    with pytest.raises(StoreAwayError):
        await index.ping()
    (tmp_path / FILE_NAME).unlink()
    await write(index, "demo", 1, 1, ROWS)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_a_damaged_file_gives_no_wrong_answer_and_heals(index: SqliteIndex, tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    await write(index, "demo", 1, 1, directions(400, dimensions=256))
    await index.close()
    whole = path.read_bytes()
    # Where rows lie: the first page still says that this is a database.
    path.write_bytes(whole[:16_384] + os.urandom(len(whole) - 16_384))
    with pytest.raises(StoreAwayError):
        await ask(index, "demo", {1: 1}, directions(1, dimensions=256)[0])
    with pytest.raises(StoreAwayError):
        await index.passages("demo", 1, 1)
    path.write_bytes(whole)
    assert len(await ask(index, "demo", {1: 1}, directions(1, dimensions=256)[0])) == 5


@pytest.mark.parametrize(
    "damage",
    [
        "vectors = substr(vectors, 1, 7)",
        "vectors = x''",
        "ends = x''",
        "ends = x'010203'",
        "ends = substr(ends, 1, 8)",
        "texts = texts || 'x'",
        "passages = 3",
        "passages = 300",
    ],
)
async def test_a_row_that_nobody_wrote_so_is_away(index: SqliteIndex, tmp_path: Path, damage: str) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await write(index, "other", 1, 1, ROWS)
    with _connect(tmp_path) as connection:
        connection.execute(f"UPDATE versions SET {damage} WHERE project = 'demo'")
    with pytest.raises(StoreAwayError):
        await ask(index, "demo", {1: 1}, ROWS[0])
    assert await ask(index, "other", {1: 1}, ROWS[3], most=1) == [(1, 4)]
    await write(index, "demo", 1, 1, ROWS)
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_a_file_of_a_later_release_is_left_alone(index: SqliteIndex, tmp_path: Path) -> None:
    await write(index, "demo", 1, 1, ROWS)
    await index.close()
    with _connect(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 99")
    await _is_away(index)
    with _connect(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM versions").fetchone() == (1,)
        connection.execute("PRAGMA user_version = 1")
    assert await ask(index, "demo", {1: 1}, ROWS[3], most=1) == [(1, 4)]


async def test_a_full_disk_is_away_for_writing_and_heals(tmp_path: Path) -> None:
    program = """
        import resource, signal
        from gateway.domain.errors import StoreAwayError
        rows = directions(200, dimensions=64)
        await write(index, "demo", 1, 1, rows)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
        refused = 0
        for document in range(2, 40):
            begun = time.monotonic()
            try:
                await write(index, "demo", document, 1, rows)
            except StoreAwayError:
                refused += 1
                assert await index.passages("demo", document, 1) == ()
            assert time.monotonic() - begun < 2
            assert await ask(index, "demo", {1: 1}, rows[7], most=1) == [(1, 8)]
        assert refused > 10, refused
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await write(index, "demo", 50, 1, rows)
        assert await ask(index, "demo", {50: 1}, rows[7], most=1) == [(50, 8)]
        await index.close()
        print("healed")
    """
    assert await told_by(run_elsewhere(program, IndexStore("sqlite", str(tmp_path)))) == "healed\n"


async def test_an_index_made_before_a_fork_is_used_after_it(tmp_path: Path) -> None:
    code = (
        "import asyncio, os\n"
        "from tests.contract.indexes import *\n"
        f"index = make_index('sqlite', {str(tmp_path)!r})\n"
        "for child in range(2):\n"
        "    if os.fork() == 0:\n"
        "        async def use():\n"
        "            for version in range(10):\n"
        "                await write(index, f'di-{child}', 1, version, directions(20))\n"
        "            print(len(await ask(index, f'di-{child}', {1: 9}, directions(1)[0], most=50)), flush=True)\n"
        "            await index.close()\n"
        "        asyncio.run(use())\n"
        "        os._exit(0)\n"
        "os.wait(); os.wait()\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.split() == [b"20", b"20"]


# --- memory -------------------------------------------------------------------------------------------------------

PROJECTS = 6
PASSAGES = 100
ONE_PROJECT = PASSAGES * (256 * 4 + 4) + PASSAGES * 12
"""About what a matrix of these tests takes."""


async def _projects(index: SqliteIndex) -> dict[str, Vectors]:
    rows = {f"progetto-{seed}": directions(PASSAGES, seed=seed, dimensions=256) for seed in range(PROJECTS)}
    for name, own in rows.items():
        await write(index, name, 1, 1, own)
    return rows


async def _answer(index: SqliteIndex, name: str, rows: Vectors, row: int = 17) -> None:
    found = await index.search(name, {1: 1}, as_bytes(rows)[row], 5, -1.0)
    assert_like(found, brute_force({1: rows}, rows[row], 5))


async def test_matrices_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path, memory_bytes=int(ONE_PROJECT * 2.5))
    kept = index._matrices
    rows = await _projects(index)
    for _ in range(3):
        for name, own in rows.items():
            await _answer(index, name, own)
            assert kept.size <= kept.limit
    assert list(kept._matrices) == [("progetto-4", 256), ("progetto-5", 256)], "the last ones asked for"
    await _answer(index, "progetto-4", rows["progetto-4"])
    await _answer(index, "progetto-0", rows["progetto-0"])
    assert list(kept._matrices) == [("progetto-4", 256), ("progetto-0", 256)]
    await index.close()
    assert kept.size == 0


async def test_a_project_too_large_for_memory_is_read_from_the_file(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path, memory_bytes=ONE_PROJECT // 2)
    documents = {number: directions(60, seed=number, dimensions=256) for number in range(1, 6)}
    for number, own in documents.items():
        await write(index, "demo", number, 1, own)
    small = directions(5, dimensions=256)
    await write(index, "small", 1, 1, small)
    await _answer(index, "small", small, 3)
    question = directions(1, seed=77, dimensions=256)[0]
    live = dict.fromkeys(documents, 1)
    for floor in (-1.0, 0.05):
        found = await index.search("demo", live, as_bytes(question[None])[0], 7, floor)
        assert_like(found, brute_force(documents, question, 7, floor))
    assert list(index._matrices._matrices) == [("small", 256)]
    await index.close()


async def test_a_cold_project_is_read_once_however_many_ask(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = await _projects(index)
    made = []

    class Counted(Matrix):
        @override
        def nearest(self, question: Vectors, most: int, floor: float) -> list[Match]:
            made.append(id(self))
            return super().nearest(question, most, floor)

    monkeypatch.setattr(index_module, "Matrix", Counted)
    names = list(rows)[:3]
    await asyncio.gather(*(_answer(index, name, rows[name]) for name in names for _ in range(30)))
    assert len(made) == 90
    assert len(set(made)) == 3


async def test_a_replaced_document_alone_is_read_anew(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = {number: directions(30, seed=number) for number in range(1, 8)}
    for number, own in documents.items():
        await write(index, "demo", number, 1, own)
    question = directions(1, seed=77)[0]
    live = dict.fromkeys(documents, 1)
    read: list[int] = []
    original = IndexFile.content

    def content(file: IndexFile, version: int) -> Content:
        read.append(version)
        return original(file, version)

    monkeypatch.setattr(IndexFile, "content", content)

    async def look() -> int:
        read.clear()
        found = await index.search("demo", live, as_bytes(question[None])[0], 9, -1.0)
        assert_like(found, brute_force(documents, question, 9))
        return len(read)

    assert await look() == 7
    assert await look() == 0
    documents[3] = directions(12, seed=33)
    await write(index, "demo", 3, 2, documents[3])
    live[3] = 2
    assert await look() == 1
    del documents[5], live[5]
    await index.forget("demo", 5)
    assert await look() == 0
    await write(index, "else", 1, 1, ROWS)
    assert await look() == 0


async def test_callers_who_leave_take_nothing_with_them(index: SqliteIndex) -> None:
    rows = await _projects(index)
    for pause in (0.0, 0.001, 0.003, 0.01):
        tasks = [asyncio.create_task(_answer(index, name, own)) for name, own in rows.items()]
        tasks += [
            asyncio.create_task(write(index, "left", number, 1, rows["progetto-0"])) for number in range(5)
        ]
        await asyncio.sleep(pause)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
    for name, own in rows.items():
        await within(2, partial(_answer, index, name, own))
    for number in range(5):
        assert len(await index.passages("left", number, 1)) in {0, PASSAGES}
    assert len(index._idle) <= 4
    assert index._matrices.size <= index._matrices.limit


async def test_threads_and_matrices_are_the_same_answers(index: SqliteIndex) -> None:
    """Searches of one project in several threads at once, while it changes."""
    rows = {number: directions(50, seed=number) for number in range(1, 5)}
    for number, own in rows.items():
        await write(index, "demo", number, 1, own)

    async def ask_often(seed: int) -> None:
        question = directions(1, seed=seed)[0]
        chosen = {number: rows[number] for number in rows if number % 2 == seed % 2}
        for _ in range(15):
            live = dict.fromkeys(chosen, 1)
            found = await index.search("demo", live, as_bytes(question[None])[0], 5, -1.0)
            assert_like(found, brute_force(chosen, question, 5))

    async def disturb() -> None:
        for version in range(10):
            await write(index, "demo", 9, version, directions(5, seed=version))
            await asyncio.sleep(0.005)

    await asyncio.gather(*(ask_often(seed) for seed in range(50, 58)), disturb())
