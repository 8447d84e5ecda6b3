"""A turn's life with the database, the model and the caller failing in turn: what it costs, what is told, what is kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

import msgspec
import pytest
from msgspec import UNSET

from gateway.dilem import errors
from gateway.dilem.contract import Clarification, DecideRequest, Error, Option, Result
from gateway.dilem.decide import Deciding, NotSentError
from gateway.dilem.errors import DilemFailure
from gateway.dilem.policy import Policy
from gateway.dilem.sessions import Caller
from gateway.dilem.turns import Turns
from gateway.domain.errors import StoreAwayError
from gateway.storage.database import Database
from gateway.storage.dilem.cases import Cases, Ending, State
from gateway.storage.dilem.identities import Identities
from gateway.storage.dilem.unwritten import Unwritten
from tests.unit.storage.stores import NOW, TODAY, Place, opened

REQUEST = DecideRequest(text="Treno o auto?", language="it")
QUESTION = Clarification(question="Quanto è lontano?", choices=(), format="text", summary="Treno o auto")
RESULT = Result(
    summary="Treno o auto",
    options=(
        Option(id="treno", label="Treno", probability=0.7),
        Option(id="auto", label="Auto", probability=0.3),
    ),
    selected="treno",
    sources=(),
)
POLICY = Policy(base_url="http://localhost", daily_limit=3, capacity=4)


class Model:
    """Answers with what the test says."""

    def __init__(self) -> None:
        self.answer: Clarification | Result | Error | Exception = RESULT
        self.gate: asyncio.Event | None = None
        self.begun = asyncio.Event()
        self.enough_money: bool | None = True
        self.asked = 0

    async def turn(self, request: DecideRequest, request_id: str) -> Clarification | Result | Error:
        self.asked += 1
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def affordable(self) -> bool:
        if self.enough_money is None:
            raise StoreAwayError("the database is away")
        return self.enough_money


class House:
    """One process's turns on a real database."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.model = Model()
        self.cases = Cases(database)
        self.folder = folder
        self.unwritten = Unwritten(folder)
        self.turns = Turns(self.cases, cast("Deciding", self.model), self.unwritten, POLICY, lambda: NOW)
        self.identities = Identities(database)
        self.caller = Caller(0, "192.0.2.1")
        self._numbers = 0

    async def take(self, case_id: str = "caso", seconds: float = 60.0) -> Clarification | Result:
        self._numbers += 1
        return await self.turns.take(self.caller, case_id, REQUEST, f"req_{self._numbers}", seconds)

    async def fails(self, case_id: str = "caso") -> DilemFailure:
        with pytest.raises(DilemFailure) as raised:
            await self.take(case_id)
        return raised.value

    async def state(self, case_id: str = "caso") -> State:
        return await self.cases.state(self.caller.identity, case_id, TODAY)

    def waiting(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "dilem").glob("*"))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(Place(tmp_path)) as database:
        made = House(database, tmp_path)
        await made.identities.create(b"a" * 32, NOW, NOW + timedelta(days=90), ())
        found = await made.identities.find(b"a" * 32)
        assert found is not None
        made.caller = Caller(found.id, "192.0.2.1")
        yield made
        await made.turns.ended()


def away(
    monkeypatch: pytest.MonkeyPatch, cases: Cases, name: str, *, carried_out: bool
) -> Callable[[], None]:
    """Make a step of the database fail, having been carried out or not; gives what mends it."""
    real = getattr(cases, name)

    async def broken(value: object) -> object:
        if carried_out:
            await real(value)
        raise StoreAwayError("the database is away")

    monkeypatch.setattr(cases, name, broken)
    return lambda: monkeypatch.setattr(cases, name, real)


async def test_a_clarification_then_a_recommendation(house: House) -> None:
    house.model.answer = QUESTION
    assert await house.take() == QUESTION
    assert await house.state() == State(used=1, completed_by_all=0, admitted=True, completed=False)
    house.model.answer = RESULT
    told = await house.take()
    assert isinstance(told, Result)
    assert isinstance(told.result_id, str)
    assert len(told.result_id) == 32
    assert msgspec.structs.replace(told, result_id=UNSET) == RESULT
    assert await house.state() == State(used=1, completed_by_all=1, admitted=True, completed=True)
    assert (await house.fails()).code is errors.CASE_COMPLETED
    assert house.model.asked == 2


async def test_what_the_pipeline_fails_with_keeps_credit_and_case(house: House) -> None:
    house.model.answer = DilemFailure(errors.PROVIDER_TIMEOUT).body()
    failure = await house.fails()
    assert (failure.code, failure.code.status) == (errors.PROVIDER_TIMEOUT, 200)
    house.model.answer = RESULT
    await house.take()
    assert (await house.state()).used == 1


async def test_what_was_not_sent_never_was(house: House) -> None:
    house.model.answer = NotSentError(errors.BUDGET_EXHAUSTED, resets_at=NOW, retry_after=7)
    failure = await house.fails()
    assert (failure.code, failure.retry_after, failure.resets_at) == (errors.BUDGET_EXHAUSTED, 7, NOW)
    assert await house.state() == State(used=0, completed_by_all=0, admitted=False, completed=False)


@pytest.mark.parametrize("error", [DilemFailure(errors.OUTCOME_UNKNOWN, reason="why"), ValueError("SEGRETO")])
async def test_what_nobody_foresaw_after_admission(
    house: House, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    house.model.answer = error
    failure = await house.fails()
    assert failure.code is errors.OUTCOME_UNKNOWN
    assert "SEGRETO" not in str(failure.body().message)
    assert (await house.state()).used == 1
    house.model.answer = RESULT
    await house.take()
    assert ("a turn failed" in caplog.text) == isinstance(error, ValueError)


async def test_refusals_before_admission(house: House) -> None:
    for number in range(3):
        await house.take(f"caso-{number}")
    failure = await house.fails("caso-3")
    assert failure.code is errors.CREDITS_EXHAUSTED
    assert failure.body().resets_at == "2026-12-01T00:00:00Z"
    assert failure.retry_after == 12 * 3_600
    assert house.model.asked == 3


async def test_one_turn_at_a_time_and_so_many_in_the_house(house: House) -> None:
    house.model.gate = asyncio.Event()
    running = asyncio.create_task(house.take())
    await house.model.begun.wait()
    assert (await house.fails()).code is errors.CASE_IN_PROGRESS
    house.turns._policy = msgspec.structs.replace(POLICY, capacity=1)
    assert (await house.fails("altro")).code is errors.CAPACITY_EXCEEDED
    house.model.enough_money = False
    failure = await house.fails("altro")
    assert (failure.code, failure.body().resets_at) == (errors.BUDGET_EXHAUSTED, "2026-12-01T00:00:00Z")
    house.model.enough_money = None
    with pytest.raises(StoreAwayError):
        await house.take("altro")
    house.model.gate.set()
    assert isinstance(await running, Result)


async def test_a_turn_outlives_its_caller(house: House) -> None:
    house.model.gate = asyncio.Event()
    calling = asyncio.create_task(house.take())
    await house.model.begun.wait()
    calling.cancel()
    await asyncio.wait({calling})
    assert calling.cancelled()
    assert (await house.fails()).code is errors.CASE_IN_PROGRESS
    house.model.gate.set()
    await house.turns.ended()
    assert (await house.state()).completed


async def test_a_turn_outlives_its_callers_patience(house: House) -> None:
    house.model.gate = asyncio.Event()
    with pytest.raises(DilemFailure) as raised:
        await house.take(seconds=0.3)
    assert raised.value.code is errors.OUTCOME_UNKNOWN
    house.model.gate.set()
    await house.turns.ended()
    assert (await house.state()).completed


@pytest.mark.parametrize("carried_out", [False, True])
async def test_the_database_goes_at_admission(
    house: House, monkeypatch: pytest.MonkeyPatch, carried_out: bool
) -> None:
    mend = away(monkeypatch, house.cases, "admit", carried_out=carried_out)
    failure = await house.fails()
    assert (failure.code, failure.retry_after) == (errors.SERVICE_UNAVAILABLE, 5)
    assert house.model.asked == 0
    mend()
    assert (await house.state()).used == int(carried_out)
    await house.turns.write_waiting()
    assert (await house.state()).used == 0
    assert house.waiting() == []
    await house.take()


@pytest.mark.parametrize("carried_out", [False, True])
async def test_the_database_goes_when_the_recommendation_is_there(
    house: House, monkeypatch: pytest.MonkeyPatch, carried_out: bool
) -> None:
    mend = away(monkeypatch, house.cases, "end", carried_out=carried_out)
    told = await house.take()
    assert told == RESULT
    assert len(house.waiting()) == 1
    with pytest.raises(StoreAwayError):
        await house.turns.write_waiting()
    assert len(house.waiting()) == 1
    mend()
    # Another process of the same folder may do it too, and twice is once.
    other = Turns(house.cases, cast("Deciding", house.model), Unwritten(house.folder), POLICY, lambda: NOW)
    await asyncio.gather(other.write_waiting(), house.turns.write_waiting())
    assert house.waiting() == []
    assert await house.state() == State(used=1, completed_by_all=1, admitted=True, completed=True)
    assert (await house.fails()).code is errors.CASE_COMPLETED


async def test_an_ending_that_even_the_disk_refuses_waits_in_memory(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (house.folder / "dilem").write_text("in the way")
    mend = away(monkeypatch, house.cases, "end", carried_out=False)
    with caplog.at_level(logging.WARNING):
        assert await house.take() == RESULT
    assert "waits in memory alone" in caplog.text
    mend()
    await house.turns.write_waiting()
    assert (await house.state()).completed


async def test_a_turn_that_was_overtaken_is_a_completed_case(house: House) -> None:
    house.model.gate = asyncio.Event()
    calling = asyncio.create_task(house.take())
    await house.model.begun.wait()
    # As if its lease had ended and another node had been quicker.
    quick = Ending(
        identity=house.caller.identity,
        case_id="caso",
        holder="altrove",
        at=NOW,
        turn=2,
        response="{}",
        completes=True,
    )
    assert await house.cases.end(quick)
    house.model.gate.set()
    with pytest.raises(DilemFailure) as raised:
        await calling
    assert raised.value.code is errors.CASE_COMPLETED
    assert (await house.state()).completed_by_all == 1
