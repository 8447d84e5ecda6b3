"""A partner who is told: what is said, when, how often; and that nobody is asked for those who aren't."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from gateway.domain.calls import Outcome
from gateway.domain.notices import RETRY_SECONDS, WITHDRAWN
from gateway.notices.signature import signature
from gateway.storage.changes import ProjectChanges
from gateway.storage.notices import Notices
from tests.e2e.deferral import NOON, STATE, Worker, answer_of, one_more_process
from tests.e2e.desk import TESTER
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.notified import (
    SIGNING,
    address,
    asked_for,
    attempted,
    notice_rows,
    notices_of,
    notified,
    set_address,
    told_to,
)
from tests.e2e.waiting import eventually
from tests.fakes import say
from tests.fakes.receiver import Receiver, endless, raw, reply, silent

WORKERS = 2
ENVIRONMENT = {"PEPPER_WEBHOOK_PRIVATE": "on"}
USD = (0.0, 10.0)
COST = 500


@pytest.fixture(scope="module")
def _receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def receiver(_receiver: Receiver) -> Receiver:
    _receiver.reset()
    return _receiver


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
async def noon(gateway: Gateway) -> AsyncIterator[None]:
    """And nobody is told any more when the test is over."""
    gateway.set_clock(NOON)
    yield
    gateway.free_clock()
    for project in await gateway.desk.tenants.list_projects():
        if project.notice_url:
            await gateway.desk.tenants.set_project(
                project.name, ProjectChanges(notice_url=None), TESTER, NOON
            )


def later(gateway: Gateway, **delta: float) -> None:
    gateway.set_clock(NOON + timedelta(**delta))


async def earner(gateway: Gateway, receiver: Receiver, provider: str = "claude") -> Worker:
    found = await notified(gateway, receiver, provider, usd=USD, cap=10.0)
    found.batches.answers = {n: say(f"Risposta {n}.", output_tokens=100) for n in range(100)}
    return found


async def test_nobody_has_to_come(gateway: Gateway, receiver: Receiver, provider: str) -> None:
    """The provider is asked in the background, the work is settled as if it were collected, and the partner is told."""
    anna = await earner(gateway, receiver, provider)
    anna.batches.delay = 3_600
    number = await anna.submit("uno", "due")
    later(gateway, seconds=19)
    await asyncio.sleep(CHANGE_SECONDS + 1)
    assert anna.asked(STATE[provider]) == []
    later(gateway, seconds=20)
    await asked_for(anna, STATE[provider], 1)
    assert await anna.running(number)  # and has not been asked again for that
    anna.batches.end()
    later(gateway, seconds=40)
    notice = await attempted(anna, 1)
    await asked_for(anna, STATE[provider], 2)
    [told] = told_to(receiver, anna)
    assert told.json == {
        "pratica": number,
        "progetto": anna.tenant.name,
        "stato": "pronta",
        "quanti": 2,
    }
    assert list(told.json) == ["pratica", "progetto", "stato", "quanti"]
    assert told.headers["x-pepper-avviso"] == notice.id
    assert told.headers["content-type"] == "application/json"
    at = int(told.headers["x-pepper-firma"].removeprefix("t=").partition(",")[0])
    assert told.headers["x-pepper-firma"] == signature(SIGNING, at, told.body)
    assert (notice.batch, notice.outcome, notice.due_at) == (number, "204", None)
    assert notice.delivered_at == notice.created_at == NOON + timedelta(seconds=40)
    assert answer_of(await anna.collect(number)) == ["Risposta 0.", "Risposta 1."]
    await asked_for(anna, STATE[provider], 2)
    rows = await gateway.desk.rows(anna.tenant)
    assert [(row.outcome, row.cost, row.batch) for row in rows] == [
        (Outcome.OK, 2 * COST, number),
        (Outcome.NOTIFIED, 0, number),
    ]
    assert rows[1].attempts[0].outcome == "204"
    assert await anna.today() == await gateway.desk.spent(anna.tenant) == 2 * COST


async def test_who_collects_is_told_too_and_once(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    number = await anna.submit("uno")
    bodies = await asyncio.gather(*(anna.collect(number) for _ in range(10)))
    assert "pronta" in {body["stato"] for body in bodies}
    await attempted(anna, 1)
    later(gateway, days=1)
    await asyncio.sleep(CHANGE_SECONDS + 1)
    assert [told.json["pratica"] for told in told_to(receiver, anna)] == [number]
    assert len(await notice_rows(anna)) == 1


async def test_every_end_is_told(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    anna.batches.fates = {0: "errored"}
    await anna.submit("uno")
    later(gateway, seconds=20)
    await attempted(anna, 1)
    anna.batches.fates = {0: "expired"}
    await anna.submit("uno")
    later(gateway, seconds=40)

    async def both() -> bool:
        return len(told_to(receiver, anna)) == 2

    await eventually(both, 12, pause=0.1)
    assert {told.json["stato"] for told in told_to(receiver, anna)} == {"fallita", "scaduta"}
    assert len({told.notice for told in told_to(receiver, anna)}) == 2


async def test_a_receiver_that_says_no_is_asked_again(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    elsewhere = f"{receiver.url}/altrove"
    receiver.answers.extend(
        [reply(500, body=b"x" * 1_000_000), reply(307, Location=elsewhere), raw(b"?" * 100), endless()]
    )
    number = await anna.submit("uno")
    await anna.collect(number)
    outcomes, passed = ["500", "307", "guasto", "200"], 0
    for attempt, outcome in enumerate(outcomes, start=1):
        notice = await attempted(anna, attempt)
        assert notice.outcome == outcome
        assert (notice.due_at is None) is (attempt == 4)
        if notice.due_at:
            passed += RETRY_SECONDS[attempt - 1]
            assert notice.due_at == NOON + timedelta(seconds=passed)
            later(gateway, seconds=passed)
    told = told_to(receiver, anna)
    assert len(told) == len([each for each in receiver.told if anna.tenant.name in each.path]) == 4
    assert len({each.notice for each in told}) == len({each.body for each in told}) == 1
    rows = await notice_rows(anna)
    assert [(row.outcome.value, row.attempts[0].outcome) for row in rows] == [
        ("non_avvisata", "500"),
        ("non_avvisata", "307"),
        ("non_avvisata", "guasto"),
        ("avvisata", "200"),
    ]
    assert {(row.cost, row.batch, row.recipe) for row in rows} == {(0, number, "avviso")}
    listed = json.loads(
        (await asyncio.to_thread(gateway.command, "project", "notices", anna.tenant.name, "--json")).stdout
    )
    assert listed == [
        {
            "avviso": told[0].notice,
            "pratica": number,
            "stato": "pronta",
            "quanti": 1,
            "creato_il": "2026-11-30 12:00:00",
            "tentativi": 4,
            "esito": "200",
            "tentato_il": "2026-11-30 12:06:10",
            "consegnato_il": "2026-11-30 12:06:10",
            "prossimo_il": None,
        }
    ]


async def test_a_receiver_that_never_says_yes_is_given_up(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    receiver.default = reply(404)
    await anna.collect(await anna.submit("uno"))
    notice = await attempted(anna, 1)
    while notice.due_at:
        gateway.set_clock(notice.due_at)
        notice = await attempted(anna, notice.attempts + 1)
    assert notice.attempts == len(RETRY_SECONDS) + 1 == len(await notice_rows(anna))
    assert (notice.outcome, notice.delivered_at) == ("404", None)
    later(gateway, days=2)
    await asyncio.sleep(CHANGE_SECONDS + 1)
    assert len(told_to(receiver, anna)) == notice.attempts


async def test_a_deaf_receiver_keeps_nobody_else_waiting(gateway: Gateway, receiver: Receiver) -> None:
    """It takes all of an attempt's time, and others are told meanwhile."""
    deaf = await earner(gateway, receiver)
    with Receiver() as other:
        other.default = silent(30)
        await set_address(deaf, other.url)
        numbers = await asyncio.gather(*(deaf.submit("uno") for _ in range(5)))
        await asyncio.gather(*(deaf.collect(number) for number in numbers))
        anna = await earner(gateway, receiver)
        await anna.collect(await anna.submit("uno"))
        await attempted(anna, 1, 6)
        assert {notice.attempts for notice in await notices_of(deaf)} == {0}

        async def one_was_given_up() -> bool:
            return any(notice.outcome == "tempo_scaduto" for notice in await notices_of(deaf))

        await eventually(one_was_given_up, 20, pause=0.2)


async def test_who_takes_the_address_back_is_told_nothing_more(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    receiver.default = reply(500)
    await anna.collect(await anna.submit("uno"))
    await attempted(anna, 1)
    await set_address(anna, None)
    await asyncio.sleep(CHANGE_SECONDS)  # until then a worker may still look after what is handed in
    later(gateway, minutes=5)
    number = await anna.submit("due")
    later(gateway, minutes=10)
    await asyncio.sleep(CHANGE_SECONDS + 2)
    assert len(told_to(receiver, anna)) == 1
    assert len(anna.asked(STATE["claude"])) == 1
    assert (await anna.collect(number))["stato"] == "pronta"
    [notice] = await notices_of(anna)
    assert (notice.outcome, notice.due_at) == (WITHDRAWN, None)
    await set_address(anna, address(receiver, anna), "avs_un_altro")
    receiver.default = reply(204)
    await anna.collect(await anna.submit("tre"))

    async def told() -> bool:
        return len(told_to(receiver, anna)) == 2

    await eventually(told, 12, pause=0.1)
    last = told_to(receiver, anna)[-1]
    at = int(last.headers["x-pepper-firma"].removeprefix("t=").partition(",")[0])
    assert last.headers["x-pepper-firma"] == signature("avs_un_altro", at, last.body)


async def test_a_disabled_project_waits(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    await anna.submit("uno")
    await gateway.desk.tenants.disable_project(anna.tenant.name, TESTER, NOON)
    await asyncio.sleep(CHANGE_SECONDS)
    later(gateway, minutes=1)
    await asyncio.sleep(CHANGE_SECONDS + 1)
    assert anna.asked(STATE["claude"]) == []
    assert told_to(receiver, anna) == []
    await gateway.desk.tenants.enable_project(anna.tenant.name, TESTER, NOON)
    await attempted(anna, 1)


async def test_without_an_address_nobody_is_asked(gateway: Gateway, receiver: Receiver) -> None:
    """Neither a provider, nor the database."""
    anna = await earner(gateway, receiver)
    await set_address(anna, None)
    await anna.submit("uno")
    later(gateway, hours=1)
    async with one_more_process(gateway) as one:
        await one.current.refresh()
        statements: list[Any] = []
        engine = one.database.engine.sync_engine
        notifying = one.upkeep._notifying

        def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if any(table in statement for table in ("batches", "notices", "duties")):
                statements.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        for _ in range(3):
            await notifying.work()
        event.remove(engine, "before_cursor_execute", note)
    assert [each for each in statements if "sent_at IS NULL" not in each] == []
    assert anna.asked(STATE["claude"]) == []


async def test_the_database_holds_no_readable_secret(gateway: Gateway, receiver: Receiver) -> None:
    anna = await earner(gateway, receiver)
    found = await Notices(gateway.desk.database).address(anna.tenant.name)
    assert found is not None
    assert SIGNING.encode() not in found[1]
    await anna.collect(await anna.submit("uno"))
    await attempted(anna, 1)
    assert SIGNING not in gateway.log()
    assert address(receiver, anna) not in gateway.log()
