"""The embedded gate when processes die, the file is in the way, and the disk is full."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.sqlite import SqliteGate
from gateway.keyvalue.sqlite.living import LivingMark
from gateway.ports import Admitted, BudgetHeld, BudgetSpent, Busy, LimitReached, Settlement
from tests.contract.test_gate_stores import (
    DAY,
    NOW,
    SqliteStore,
    admit,
    ask,
    run_elsewhere,
    supply,
    terms,
    told_by,
    within,
)

_HOLDER = """
    for number in range(3):
        await admit(gate, ask(request_id=f"lost-{number}", key=f"k{number}", per_hour=50, terms=terms(cap=None)))
    print("holding", flush=True)
    await asyncio.sleep(60)
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path)
    yield opened
    await opened.close()


async def _killed_holder(store: SqliteStore) -> None:
    process = run_elsewhere(_HOLDER, store)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "holding\n"
    assert await store.gate.admit(ask(key="k0")) == Busy()
    assert await store.gate.orphans() == []
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)


async def test_a_killed_process_frees_its_keys_at_once_and_keeps_its_places(store: SqliteStore) -> None:
    await _killed_holder(store)
    await admit(store.gate, ask(key="k0"))
    await admit(store.gate, ask(key="k1", fingerprint="else"))
    assert isinstance(await store.gate.admit(ask(per_hour=3)), LimitReached)


async def test_the_reservations_of_a_killed_process_are_handed_out_once_and_at_once(
    store: SqliteStore,
) -> None:
    await supply(store.gate)
    await _killed_holder(store)
    other = store.open()
    found = [o for some in await asyncio.gather(store.gate.orphans(2), other.orphans(2)) for o in some]
    found += await store.gate.orphans()
    assert sorted(orphan.request_id for orphan in found) == ["lost-0", "lost-1", "lost-2"]
    assert await store.gate.orphans() == []
    assert await store.gate.admit(ask(terms=terms(cap=3_000))) == BudgetHeld()
    for orphan in found:
        ended = ask(request_id=orphan.request_id, terms=terms(day=orphan.day))
        await store.gate.settle(Settlement(request=ended, cost=10, now=NOW))
    assert await store.gate.admit(ask(terms=terms(cap=30))) == BudgetSpent()


async def test_an_asker_that_dies_gives_its_orphans_to_the_next(store: SqliteStore) -> None:
    await _killed_holder(store)
    asker = run_elsewhere("print(len(await gate.orphans()), flush=True); os._exit(0)", store)
    assert await told_by(asker) == "3\n"
    assert len(await store.gate.orphans()) == 3


async def test_dead_marks_are_removed_by_the_next_start(store: SqliteStore, tmp_path: Path) -> None:
    await _killed_holder(store)
    assert len(list((tmp_path / "living").iterdir())) == 2
    await store.open().ping()
    assert len(list((tmp_path / "living").iterdir())) == 2
    await store.close()
    assert list((tmp_path / "living").iterdir()) == []


async def test_a_closed_gate_frees_what_it_held(store: SqliteStore) -> None:
    other = store.open()
    await admit(other, ask(key="k", terms=terms(cap=None)))
    await other.close()
    await admit(store.gate, ask(key="k"))
    assert len(await store.gate.orphans()) == 1


async def test_a_forked_child_does_not_keep_its_parent_alive(store: SqliteStore) -> None:
    program = """
        await admit(gate, ask(key="k"))
        child = os.fork()
        if child == 0:
            os.close(1)
            time.sleep(20)
            os._exit(0)
        print(child, flush=True)
        os._exit(0)
    """
    child = int(await told_by(run_elsewhere(program, store)))
    try:
        os.kill(child, 0)
        await admit(store.gate, ask(key="k"))
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_gate_made_before_a_fork_is_used_after_it(tmp_path: Path) -> None:
    code = (
        "import asyncio, os\n"
        "from tests.contract.test_gate_stores import *\n"
        f"gate = make_gate('sqlite', {str(tmp_path)!r})\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        async def use():\n"
        "            verdicts = [await gate.admit(ask(request_id=f'{os.getpid()}-{n}', per_hour=30)) for n in range(30)]\n"
        "            print(sum(verdict == Admitted() for verdict in verdicts), flush=True)\n"
        "            await gate.close()\n"
        "        asyncio.run(use())\n"
        "        os._exit(0)\n"
        "os.wait(); os.wait()\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert sum(map(int, output.split())) == 30


async def test_a_locked_file_is_away_within_two_seconds_and_the_loop_goes_on(store: SqliteStore) -> None:
    await supply(store.gate)
    with closing(sqlite3.connect(store.folder / "gate.db", isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")
        longest, stop = 0.0, False

        async def watch() -> None:
            nonlocal longest
            while not stop:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - before)

        watcher = asyncio.create_task(watch())
        begun = time.monotonic()
        outcomes = await asyncio.gather(
            *(store.gate.admit(ask(per_hour=5)) for _ in range(20)), return_exceptions=True
        )
        await asyncio.sleep(0.2)
        late = await asyncio.gather(
            *(store.gate.admit(ask(per_hour=5)) for _ in range(5)), return_exceptions=True
        )
        assert time.monotonic() - begun < 4.2
        assert {type(outcome) for outcome in [*outcomes, *late]} == {StoreAwayError}
        stop = True
        await watcher
        assert longest < 0.5
        locker.execute("ROLLBACK")
    await within(2, lambda: store.gate.admit(ask(per_hour=1)))
    assert isinstance(await store.gate.admit(ask(per_hour=1)), LimitReached)


async def test_a_call_that_waits_no_longer_is_not_let_in_behind_its_back(store: SqliteStore) -> None:
    await store.gate.ping()
    with closing(sqlite3.connect(store.folder / "gate.db", isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")
        first = asyncio.create_task(store.gate.ping())
        await asyncio.sleep(0.05)
        waiting = [asyncio.create_task(store.gate.admit(ask(key="k"))) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        await asyncio.sleep(0)
        locker.execute("ROLLBACK")
    await first
    await admit(store.gate, ask(key="k"))


async def test_a_removed_folder_is_away_until_it_returns(store: SqliteStore, tmp_path: Path) -> None:
    folder = store.folder = tmp_path / "data"
    gate = SqliteGate(folder)
    kept = await admit(gate, ask(key="kept"))
    shutil.rmtree(folder)
    for _ in range(2):
        with pytest.raises(StoreAwayError):
            await gate.admit(ask())
    assert not folder.exists()
    folder.mkdir()
    await gate.renew([kept])
    other = SqliteGate(folder)
    assert await other.admit(ask(key="kept")) == Busy()
    await gate.close()
    await admit(other, ask(key="kept"))
    await other.close()


async def test_a_removed_file_is_made_anew_and_shared(store: SqliteStore) -> None:
    other = store.open()
    await admit(store.gate, ask(per_hour=1))
    for path in store.folder.glob("gate.db*"):
        path.unlink()
    await admit(store.gate, ask(per_hour=1))
    assert isinstance(await other.admit(ask(per_hour=1)), LimitReached)


async def test_a_file_that_is_none_is_away_and_heals(tmp_path: Path) -> None:
    (tmp_path / "gate.db").write_bytes(b"no database at all" * 100)
    gate = SqliteGate(tmp_path)
    with pytest.raises(StoreAwayError):
        await gate.ping()
    (tmp_path / "gate.db").unlink()
    await gate.ping()
    await gate.close()


async def test_a_full_disk_is_away_and_heals(store: SqliteStore) -> None:
    program = """
        import resource, signal
        await supply(gate)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        refused = 0
        for number in range(60):
            request = ask(key=f"k{number}", terms=terms(cap=None))
            begun = time.monotonic()
            try:
                await admit(gate, request)
                await gate.settle(Settlement(request=request, cost=1, now=NOW, answer=os.urandom(20_000)))
            except Exception as error:
                assert type(error).__name__ == "StoreAwayError", error
                refused += 1
            assert time.monotonic() - begun < 4
        assert refused > 20
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await admit(gate, ask(terms=terms()))
        await gate.close()
        print("healed")
    """
    assert await told_by(run_elsewhere(program, store)) == "healed\n"


async def test_a_step_that_fails_takes_no_other_with_it(store: SqliteStore) -> None:
    impossible = ask(terms=terms(worst_case=2**70, cap=None))
    outcomes = await asyncio.gather(
        *(store.gate.admit(impossible if n == 5 else ask(per_hour=100)) for n in range(20)),
        return_exceptions=True,
    )
    assert isinstance(outcomes.pop(5), OverflowError)
    assert outcomes == [Admitted()] * 19
    assert isinstance(await store.gate.admit(ask(per_hour=19)), LimitReached)


def test_a_mark_is_never_taken_for_dead_while_it_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "living"
    watcher = LivingMark(folder)
    watcher.hold()
    for _ in range(200):
        mark = LivingMark(folder)
        mark.hold()
        list(watcher.bury_the_dead())
        assert mark.standing()
        assert not watcher.is_dead(mark.owner)
        mark.release()
        assert watcher.is_dead(mark.owner)
    watcher.release()


async def test_a_file_of_another_version_is_replaced(store: SqliteStore) -> None:
    with closing(sqlite3.connect(store.folder / "gate.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE claims (old TEXT)")
        connection.execute("PRAGMA user_version = 99")
    await admit(store.gate, ask(key="k", per_hour=1, terms=terms(cap=None, day=DAY)))
