"""The shared budget of Dilem: never above its cap, by the UTC day, whoever judges it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.chain.isolate import isolate
from gateway.dilem.contract import Error, Result
from gateway.dilem.decide import NotSentError
from gateway.domain.completion import CompletionRequest
from tests.e2e.deciding import DILEM, RESULT, DecidingStage, deciding_stage, refused, turning, worst_case
from tests.e2e.desk import held_in_gate
from tests.e2e.surroundings import Fakes, Stores
from tests.e2e.waiting import eventually
from tests.fakes import say, status


@pytest.fixture
async def stage(stores: Stores, fakes: Fakes, tmp_path: Path) -> AsyncIterator[DecidingStage]:
    async with deciding_stage(stores, fakes, tmp_path) as opened:
        await opened.use()
        fakes.claude.default = lambda _: turning(RESULT, input_tokens=9_000, output_tokens=4_900)
        yield opened


async def test_a_budget_smaller_than_one_reservation_admits_nobody(stage: DecidingStage) -> None:
    worst = await worst_case(stage)
    for micros in (0, 1, worst - 1):
        with pytest.raises(NotSentError) as caught:
            await stage.turn(micros=micros)
        assert refused(caught.value, stage)
        assert caught.value.retry_after == 12 * 3_600
    assert not await stage.deciding(micros=0).affordable()
    assert stage.fakes.claude.seen == []
    assert await stage.rows() == []
    assert await stage.deciding(micros=worst).affordable()
    assert isinstance(await stage.turn(micros=worst), Result)


async def test_a_day_never_costs_more_than_the_cap(stage: DecidingStage) -> None:
    worst = await worst_case(stage)
    cap = 5 * worst
    while True:
        told = await asyncio.gather(*(stage.turn(micros=cap) for _ in range(8)), return_exceptions=True)
        failed = [each for each in told if isinstance(each, BaseException)]
        assert all(refused(each, stage) for each in failed)
        assert len(told) - len(failed) <= 5
        assert await stage.spent() <= cap
        if len(failed) == len(told):
            break
    spent = await stage.spent()
    assert spent == sum(row.cost for row in await stage.rows())
    assert cap - worst < spent <= cap
    assert stage.fakes.claude.peak <= 5

    async def nothing_held() -> bool:
        return held_in_gate(DILEM, stage.data, stage.redis_url) == 0

    await eventually(nothing_held)


async def test_there_is_no_repair_without_money(stage: DecidingStage) -> None:
    worst = await worst_case(stage)
    stage.fakes.claude.script(say("No.", input_tokens=1_000, output_tokens=10))
    told = await stage.turn(micros=worst + 1)
    assert isinstance(told, Error)
    assert told.code == "model_output_invalid"
    assert len(stage.fakes.claude.seen) == 1
    stage.fakes.claude.script(say("No.", input_tokens=1_000, output_tokens=10))
    assert isinstance(await stage.turn(micros=3 * worst), Result)


async def test_the_day_begins_at_midnight_utc(stage: DecidingStage) -> None:
    worst = await worst_case(stage)
    eve = datetime(stage.day.year, stage.day.month, stage.day.day, 23, 59, 50, tzinfo=UTC)
    stage.set_time(eve)  # already tomorrow in Rome
    assert isinstance(await stage.turn(micros=worst), Result)
    [row] = await stage.rows()
    assert (row.day, await stage.spent()) == (stage.day, row.cost)
    with pytest.raises(NotSentError) as caught:
        await stage.turn(micros=worst)
    assert refused(caught.value, stage)
    assert caught.value.retry_after == 10
    stage.set_time(eve + timedelta(seconds=10))
    assert isinstance(await stage.turn(micros=worst), Result)


async def test_the_projects_own_cap_and_hourly_limit_do_not_count(stage: DecidingStage) -> None:
    await stage.change(daily_budget=0, hourly_limit=0)
    try:
        told = await asyncio.gather(*(stage.turn() for _ in range(3)))
        assert all(isinstance(each, Result) for each in told)
    finally:
        await stage.change(daily_budget=None, hourly_limit=100)


async def test_a_failure_gives_back_what_it_did_not_cost(stage: DecidingStage) -> None:
    worst = await worst_case(stage)
    for _ in range(3):
        stage.fakes.claude.script(status(500))
        assert isinstance(await stage.turn(micros=worst), Error)
    assert await stage.spent() == 0
    assert isinstance(await stage.turn(micros=worst), Result)


async def test_a_crashed_turn_is_charged_to_its_utc_day(stage: DecidingStage) -> None:
    """What a dead process held is settled by others, by the day that the reservation names."""
    eve = datetime(stage.day.year, stage.day.month, stage.day.day, 23, 30, tzinfo=UTC)
    stage.set_time(eve)
    chain = stage.core.chain
    scope = isolate(chain.on_behalf("dilem", "dilem"), "dilem", f"lost-{stage.day}")
    request = CompletionRequest(project="dilem", recipe="decide", content="{}")
    events = await chain.answer(scope, request, stage.deciding()._policy)
    [lease] = [
        each for each in stage.core.upkeep._leases._living.values() if "lost-" in each.request.request_id
    ]
    assert lease.request.terms is not None
    assert (lease.request.terms.day, lease.request.terms.strict) == (stage.day.isoformat(), True)
    assert f'"day":"{stage.day}"'.encode() in lease.request.terms.record
    await events.aclose()
    [row] = await stage.rows()
    assert row.day == stage.day
