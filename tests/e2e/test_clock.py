"""Business time moves: the hour slides, the day turns at the project's midnight, and nothing else notices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.e2e import told
from tests.e2e.harness import Gateway
from tests.fakes import say

NOON = datetime(2026, 11, 30, 11, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def noon(gateway: Gateway) -> Iterator[None]:
    gateway.set_clock(NOON)
    yield
    gateway.free_clock()


async def test_the_hour_slides(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=2)
    told.answer(await gateway.ask(tenant))
    gateway.set_clock(NOON + timedelta(minutes=20))
    told.answer(await gateway.ask(tenant))
    gateway.set_clock(NOON + timedelta(minutes=59))
    response = await gateway.ask(tenant)
    told.error(response, 429, "troppe_richieste")
    assert response.headers["retry-after"] == "60"
    gateway.set_clock(NOON + timedelta(minutes=60, seconds=1))
    told.answer(await gateway.ask(tenant))
    response = await gateway.ask(tenant)
    told.error(response, 429, "troppe_richieste")
    assert response.headers["retry-after"] == str(20 * 60 - 1)


async def test_the_budget_is_back_after_romes_midnight(gateway: Gateway) -> None:
    tenant, _ = await gateway.tenant_of_its_own(cap=0.01, usd=(0.0, 100.0))
    gateway.fakes.claude.default = say("Caro.", output_tokens=200)
    gateway.set_clock(datetime(2026, 11, 30, 22, 0, tzinfo=UTC))  # 23:00 in Rome
    told.answer(await gateway.ask(tenant))
    response = await gateway.ask(tenant)
    told.error(response, 429, "budget_esaurito")
    assert response.headers["retry-after"] == "3600"
    gateway.set_clock(datetime(2026, 11, 30, 22, 59, 59, tzinfo=UTC))
    told.error(await gateway.ask(tenant), 429, "budget_esaurito")
    gateway.set_clock(datetime(2026, 11, 30, 23, 0, 0, tzinfo=UTC))
    assert (await gateway.capabilities(tenant))["spesa"] == {
        "oggi_usd": 0,
        "tetto_usd": 0.01,
        "residuo_usd": 0.01,
    }
    told.answer(await gateway.ask(tenant))
    first, second = await gateway.desk.rows(tenant)
    assert (first.day, second.day) == (date(2026, 11, 30), date(2026, 12, 1))


async def test_a_call_belongs_to_the_day_it_began_on(gateway: Gateway) -> None:
    """Answered after midnight, it is still yesterday's."""
    tenant, _ = await gateway.tenant_of_its_own(usd=(0.0, 100.0))
    midnight = datetime(2026, 11, 30, 23, 0, tzinfo=UTC)
    gateway.set_clock(midnight - timedelta(seconds=1))
    gateway.fakes.claude.script(say("uno due", pieces=2, delay=1, output_tokens=100))
    async with gateway.stream(tenant) as stream:
        async for _ in stream.events():
            gateway.set_clock(midnight + timedelta(seconds=1))
    assert (await gateway.capabilities(tenant))["spesa"]["oggi_usd"] == 0
    [row] = await gateway.desk.rows(tenant)
    assert (row.day, row.cost) == (date(2026, 11, 30), 10_000)


@pytest.mark.parametrize(
    ("instant", "seconds"),
    [
        (datetime(2027, 3, 27, 23, 0, tzinfo=UTC), 23 * 3_600),  # the night the clocks go forward
        (datetime(2026, 10, 24, 22, 0, tzinfo=UTC), 25 * 3_600),  # and back
    ],
)
async def test_a_day_may_have_twenty_three_or_twenty_five_hours(
    gateway: Gateway, instant: datetime, seconds: int
) -> None:
    tenant, _ = await gateway.tenant_of_its_own(cap=0.0)
    gateway.set_clock(instant)
    response = await gateway.ask(tenant)
    told.error(response, 429, "budget_esaurito")
    assert response.headers["retry-after"] == str(seconds)


async def test_a_clock_that_is_set_back_does_no_harm(gateway: Gateway) -> None:
    tenant = await gateway.desk.project(per_hour=3, cap=100.0)
    told.answer(await gateway.ask(tenant))
    gateway.set_clock(NOON - timedelta(days=2))
    told.answer(await gateway.ask(tenant))
    gateway.set_clock(NOON + timedelta(days=400))
    told.answer(await gateway.ask(tenant))
    assert len(await gateway.desk.rows(tenant)) == 3
