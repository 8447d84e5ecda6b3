from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.domain.errors import StoreAwayError
from gateway.storage.calls import LedgerEntry
from gateway.storage.spool import Spool
from tests.unit.storage.stores import entry, pair


class Ledger:
    """Takes what is drained, once by request id."""

    def __init__(self) -> None:
        self.entries: dict[str, LedgerEntry] = {}
        self.away = False

    async def commit(self, entries: Sequence[LedgerEntry]) -> None:
        if self.away:
            raise StoreAwayError
        for each in entries:
            self.entries.setdefault(each.record.request_id, each)


def waiting(spool: Spool) -> bool:
    return spool.pending


async def test_what_was_appended_is_drained_once(tmp_path: Path) -> None:
    spool, ledger = Spool(tmp_path), Ledger()
    assert not waiting(spool)
    assert await spool.drain(ledger.commit) == 0
    entries = [entry("a", cost=2**50, pair=pair("a", replaces="x")), entry("b", reserved_in_database=True)]
    await spool.append(entries)
    await spool.append([])
    await Spool(tmp_path).append([entry("c")])
    assert waiting(spool)
    assert await spool.drain(ledger.commit) == 3
    assert list(ledger.entries.values()) == [*entries, entry("c")]
    assert not waiting(spool)
    assert await spool.drain(ledger.commit) == 0


async def test_it_is_the_owner_s_alone(tmp_path: Path) -> None:
    await Spool(tmp_path).append([entry("a")])
    assert (tmp_path / "spool.jsonl").stat().st_mode & 0o777 == 0o600


async def test_what_cannot_be_committed_stays(tmp_path: Path) -> None:
    spool, ledger = Spool(tmp_path), Ledger()
    await spool.append([entry("a")])
    ledger.away = True
    for _ in range(2):
        with pytest.raises(StoreAwayError):
            await spool.drain(ledger.commit)
        assert waiting(spool)
    await spool.append([entry("b")])
    ledger.away = False
    assert await spool.drain(ledger.commit) == 2
    assert list(ledger.entries) == ["a", "b"]


async def test_a_half_written_line_harms_no_other(tmp_path: Path) -> None:
    spool, ledger = Spool(tmp_path), Ledger()
    await spool.append([entry("a"), entry("half")])
    file = tmp_path / "spool.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    await spool.append([entry("b")])
    assert await spool.drain(ledger.commit) == 2
    assert list(ledger.entries) == ["a", "b"]
    assert b'"half"' in (tmp_path / "spool-unreadable.jsonl").read_bytes()
    await spool.append([entry("c")])
    assert await spool.drain(ledger.commit) == 1


async def test_one_process_imports_at_a_time(tmp_path: Path) -> None:
    first, second, ledger = Spool(tmp_path), Spool(tmp_path), Ledger()
    await first.append([entry(str(number)) for number in range(500)])
    begun, finish = asyncio.Event(), asyncio.Event()

    async def slow(entries: Sequence[LedgerEntry]) -> None:
        begun.set()
        await finish.wait()
        await ledger.commit(entries)

    importing = asyncio.create_task(first.drain(slow))
    await begun.wait()
    assert await second.drain(ledger.commit) == 0
    # Appending goes on meanwhile.
    await second.append([entry("late")])
    finish.set()
    assert await importing == 501
    assert len(ledger.entries) == 501


async def test_an_import_that_was_cancelled_begins_again(tmp_path: Path) -> None:
    spool, ledger = Spool(tmp_path), Ledger()
    await spool.append([entry(str(number)) for number in range(300)])
    begun = asyncio.Event()

    async def stuck(entries: Sequence[LedgerEntry]) -> None:
        if ledger.entries:
            begun.set()
            await asyncio.sleep(60)
        await ledger.commit(entries)

    importing = asyncio.create_task(spool.drain(stuck))
    await begun.wait()
    importing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await importing
    assert len(ledger.entries) == 200
    assert await spool.drain(ledger.commit) == 300
    assert len(ledger.entries) == 300


APPENDER = """
import asyncio, sys
from pathlib import Path
from gateway.storage.spool import Spool
from tests.unit.storage.stores import entry

async def main():
    spool, number = Spool(Path(sys.argv[1])), 0
    while True:
        await spool.append([entry(f"{sys.argv[2]}-{number}", pair=None)])
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def test_nothing_promised_is_lost_to_a_kill(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(tmp_path), str(who)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        for who in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(30):
            writer.stdout.readline()
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
    promised = []
    for who, writer in enumerate(writers):
        rest, _ = writer.communicate()
        lines = rest.splitlines()
        promised += [f"{who}-{number}" for number in range(30 + len(lines))]
    ledger = Ledger()
    asyncio.run(Spool(tmp_path).drain(ledger.commit))
    assert set(promised) <= set(ledger.entries)
    assert len(ledger.entries) <= len(promised) + 2
