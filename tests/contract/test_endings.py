"""Calls that end: their rows are safe before their leases end, together or one by one, whoever waits or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from gateway.chain.budget import BudgetJudge
from gateway.chain.endings import Endings
from gateway.chain.leases import Lease, Leases
from gateway.chain.ledger import Durability, Ledger
from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.sqlite import SqliteGate
from gateway.ports import AdmissionRequest, Admitted, Claim, Earlier, Settlement
from gateway.storage.calls import Calls, LedgerEntry
from gateway.storage.database import Database
from gateway.storage.nodes import Nodes
from gateway.storage.spool import Spool
from tests.contract.test_gate_stores import NOW, terms
from tests.unit.storage.stores import KINDS, TODAY, entry, opened, place_of


class CountingGate(SqliteGate):
    """Notes how many settlements came together."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.together: list[int] = []

    @override
    async def settle(self, *settlements: Settlement) -> None:
        self.together.append(len(settlements))
        await super().settle(*settlements)


class FullSpool(Spool):
    @override
    async def append(self, entries: Sequence[LedgerEntry]) -> None:
        raise OSError(28, "No space left on device")


class Desk:
    """A ledger, a gate, and what ends calls between them."""

    def __init__(self, database: Database, folder: Path, spool: type[Spool] = Spool) -> None:
        self.calls = Calls(database)
        self.gate = CountingGate(folder)
        self.ledger = Ledger(self.calls, spool(folder), lambda: None)
        self.leases = Leases(self.gate, self.calls, BudgetJudge(Nodes(database)))
        self.endings = Endings(self.ledger, self.leases)

    async def begin(self, request_id: str) -> Lease:
        request = AdmissionRequest(
            project="alfa",
            request_id=request_id,
            now=NOW,
            claim=Claim(f"key of {request_id}", "f"),
            terms=terms(cap=None),
        )
        assert isinstance(await self.gate.admit(request), Admitted)
        lease = Lease(request=request, in_gate=True, in_database=False, capped=False)
        self.leases.hold(lease)
        return lease

    async def end(
        self, lease: Lease, settlement_of: Callable[[Durability | None], Settlement | None] | None = None
    ) -> Durability:
        request = lease.request

        def kept(durability: Durability | None) -> Settlement:
            answer = b"kept" if durability is not None else None
            return Settlement(request=request, cost=10, now=NOW, answer=answer)

        return await self.endings.end(entry(request.request_id), lease, settlement_of or kept)

    async def kept(self, lease: Lease) -> bool:
        claim = lease.request.claim
        assert claim is not None
        return isinstance(await self.gate.earlier("alfa", claim, NOW), Earlier)

    async def close(self) -> None:
        await self.endings.ended()
        await self.ledger.drained()
        await self.calls.close()
        await self.gate.close()


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        yield database


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(database, tmp_path / "gate")
    yield desk
    await desk.close()


async def test_a_call_has_ended_when_its_row_is_committed_and_its_answer_kept(desk: Desk) -> None:
    lease = await desk.begin("one")
    assert await desk.end(lease) is Durability.COMMITTED
    assert await desk.calls.find_call("alfa", "one") is not None
    assert await desk.calls.spent("alfa", TODAY) == 10
    assert await desk.kept(lease)
    assert desk.leases.count == 0


async def test_calls_that_end_together_are_settled_together_and_all_of_them(desk: Desk) -> None:
    leases = [await desk.begin(f"call {number}") for number in range(40)]
    await asyncio.gather(*(desk.end(lease) for lease in leases))
    assert sum(desk.gate.together) == 40
    assert max(desk.gate.together) > 10
    assert [lease for lease in leases if not await desk.kept(lease)] == []
    assert await desk.calls.spent("alfa", TODAY) == 400


async def test_a_call_ends_also_when_nobody_waits_for_it_any_more(desk: Desk) -> None:
    leases = [await desk.begin(f"call {number}") for number in range(10)]
    tasks = [asyncio.create_task(desk.end(lease)) for lease in leases]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    assert all(isinstance(one, asyncio.CancelledError) for one in await _outcomes(tasks))
    await desk.endings.ended()
    assert await desk.calls.spent("alfa", TODAY) == 100
    assert [lease for lease in leases if not await desk.kept(lease)] == []
    assert desk.leases.count == 0


async def test_a_call_that_spent_nothing_is_undone(desk: Desk) -> None:
    lease = await desk.begin("one")
    await desk.end(lease, lambda _: None)
    assert await desk.calls.find_call("alfa", "one") is not None
    assert not await desk.kept(lease)
    assert isinstance(await desk.gate.admit(lease.request), Admitted)  # its claim is free


async def test_a_fault_in_one_ending_harms_no_other(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    def faulty(_: Durability | None) -> Settlement:
        raise ValueError("a fault of ours")

    leases = [await desk.begin(f"call {number}") for number in range(5)]
    endings = [desk.end(lease, faulty if number == 2 else None) for number, lease in enumerate(leases)]
    outcomes = await _outcomes(endings)
    assert [isinstance(one, ValueError) for one in outcomes] == [False, False, True, False, False]
    assert [await desk.kept(lease) for lease in leases] == [True, True, False, True, True]
    assert "a call could not be settled" in caplog.text


async def test_without_a_place_for_the_row_the_caller_is_told_and_nothing_is_kept_or_held(
    database: Database, tmp_path: Path
) -> None:
    desk = Desk(database, tmp_path / "gate", FullSpool)
    lease = await desk.begin("one")
    desk.ledger._away = True  # the database was given up before
    with pytest.raises(StoreAwayError):
        await desk.end(lease)
    assert not await desk.kept(lease)
    assert desk.leases.count == 0
    await desk.ledger.import_spool()  # this process still knew of it
    assert await desk.calls.spent("alfa", TODAY) == 10
    await desk.close()


async def _outcomes(endings: Sequence[object]) -> list[object]:
    return await asyncio.gather(*endings, return_exceptions=True)  # type: ignore[call-overload, no-any-return]
