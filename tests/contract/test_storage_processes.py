"""Several processes on one database: totals stay exact."""

from __future__ import annotations

import asyncio
import multiprocessing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import func, select

from gateway.domain.batches import BatchState
from gateway.storage import schema
from gateway.storage.batches import Batches
from gateway.storage.calls import Calls
from gateway.storage.database import Database
from gateway.storage.reservations import Reservation, Reserved
from gateway.storage.spool import Spool
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import (
    ANNA,
    KINDS,
    NOW,
    TODAY,
    Place,
    batch,
    entry,
    opened,
    place_of,
    project,
    record,
)

PROCESSES = 3


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request, tmp_path)


async def _run(place: Place, task: str) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_process, args=(place, task, who)) for who in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES


def _process(place: Place, task: str, who: int) -> None:
    async def run() -> None:
        database = Database.open(place)
        calls = Calls(database)
        await TASKS[task](calls, who, place)
        await calls.close()
        await database.close()

    asyncio.run(run())


async def _commit(calls: Calls, who: int, _place: Place) -> None:
    for number in range(40):
        names = ["alfa", "beta"] if who % 2 else ["beta", "alfa"]
        await calls.commit([entry(f"{who}-{number}-{name}", name, 1) for name in names])


async def _reserve(calls: Calls, who: int, _place: Place) -> None:
    async def one(number: int) -> None:
        request_id = f"{who}-{number}"
        held = Reservation(project="alfa", day=TODAY, request_id=request_id, amount=10, record=b"")
        if isinstance(await calls.reserve(held, 155), Reserved):
            await calls.commit([entry(request_id, cost=10, reserved_in_database=True)])

    await asyncio.gather(*(one(number) for number in range(20)))


async def _drain(calls: Calls, _who: int, place: Place) -> None:
    spool = Spool(place.data)
    while spool.pending:
        await spool.drain(lambda entries: calls.commit(entries, again=True))
        await asyncio.sleep(0.01)


async def _open(_calls: Calls, who: int, place: Place) -> None:
    database = Database.open(place)
    batches = Batches(database)
    many = [batch(f"prt_{who}_{number}", reserved=10) for number in range(10)]
    await asyncio.gather(*(batches.open(each, 155, 20) for each in many))
    await database.close()


async def _settle(_calls: Calls, _who: int, place: Place) -> None:
    database = Database.open(place)
    batches = Batches(database)
    for running in await batches.unsettled_before(NOW + timedelta(days=1)):
        ended = msgspec.structs.replace(running, state=BatchState.FAILED, settled_at=NOW)
        await batches.settle(ended, record(running.request_id, cost=3))
    await database.close()


TASKS = {"commit": _commit, "reserve": _reserve, "drain": _drain, "open": _open, "settle": _settle}


async def test_commits_to_the_same_day(place: Place) -> None:
    async with opened(place) as database:
        await _run(place, "commit")
        spent = await Calls(database).spent_many([("alfa", TODAY), ("beta", TODAY)])
        assert list(spent.values()) == [40 * PROCESSES] * 2
        async with database.connect() as connection:
            assert await connection.scalar(select(func.count()).select_from(schema.calls)) == 80 * PROCESSES


async def test_reservations_against_one_cap(place: Place) -> None:
    async with opened(place) as database:
        await _run(place, "reserve")
        # Whoever comes first reserves; the cap of 155 has room for fifteen calls of 10, and the one that may pass it.
        spent = await Calls(database).spent("alfa", TODAY)
        assert 10 <= spent <= 160
        async with database.connect() as connection:
            assert await connection.scalar(select(schema.spending.c.reserved)) == 0
            assert await connection.scalar(select(func.count()).select_from(schema.reservations)) == 0
            assert await connection.scalar(select(func.sum(schema.calls.c.cost))) == spent


async def test_a_spool_is_imported_once(place: Place) -> None:
    async with opened(place) as database:
        for number in range(5):
            await Spool(place.data).append([entry(f"{number}-{each}", cost=1) for each in range(100)])
        await _run(place, "drain")
        assert await Calls(database).spent("alfa", TODAY) == 500


async def test_batches_against_one_cap_and_paid_once(place: Place) -> None:
    async with opened(place) as database:
        await Tenants(database).add_project(project(), ANNA)
        await _run(place, "open")
        assert await Calls(database).spent("alfa", TODAY) == 150
        assert await Batches(database).count_open("alfa", NOW) == 15
        await _run(place, "settle")
        assert await Calls(database).spent("alfa", TODAY) == 45
        async with database.connect() as connection:
            assert await connection.scalar(select(schema.spending.c.batches)) == 0
            assert await connection.scalar(select(func.count()).select_from(schema.calls)) == 15
