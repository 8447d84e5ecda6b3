"""kill -9 and stores that go away around notices: none is lost, at most one is told again; and what is out of bounds."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from gateway.domain.calls import Outcome
from gateway.storage import schema
from tests.e2e.deferral import NOON, RESULTS, STATE, Worker, answer_of
from tests.e2e.desk import TESTER
from tests.e2e.harness import Gateway
from tests.e2e.notified import attempted, notice_rows, notices_of, notified, set_address, told_to
from tests.e2e.waiting import eventually
from tests.fakes import hang, say, until
from tests.fakes.receiver import Receiver, reply, silent

WORKERS = 2
ENVIRONMENT = {"PEPPER_WEBHOOK_PRIVATE": "on"}
TAKE_OVER_SECONDS = 30.0
COST = 500

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def gateway(served: Gateway) -> AsyncIterator[Gateway]:
    """The module's own, running again after whatever was done to it."""
    served.fakes.claude.reset()
    served.set_clock(NOON)
    if served.process is None or served.process.poll() is not None:
        await asyncio.to_thread(served.start)
    async with served.connected():
        yield served
        for project in await served.desk.tenants.list_projects():
            await served.desk.tenants.disable_project(project.name, TESTER, NOON)
    served.free_clock()


@pytest.fixture
async def anna(gateway: Gateway, receiver: Receiver) -> Worker:
    found = await notified(gateway, receiver, usd=(0.0, 10.0), cap=1.0)
    found.batches.answers = {n: say(f"Risposta {n}.", output_tokens=100) for n in range(100)}
    return found


async def holder_of(gateway: Gateway) -> int | None:
    """The process whose duty it is to tell."""
    duties, nodes = schema.duties, schema.nodes
    query = select(nodes.c.pid).join_from(duties, nodes, duties.c.holder == nodes.c.id)
    async with gateway.desk.database.connect() as connection:
        return await connection.scalar(query)


async def test_the_holder_is_killed_and_another_goes_on(
    gateway: Gateway, anna: Worker, receiver: Receiver
) -> None:
    """While a notice is on its way: it is told again, under the same name."""
    receiver.answers.append(silent(60))
    number = await anna.submit("uno", "due")
    await anna.collect(number)
    await until(lambda: told_to(receiver, anna), 15)
    pid = await eventually(lambda: holder_of(gateway))
    assert pid in gateway.worker_pids()
    os.kill(pid, signal.SIGKILL)
    notice = await attempted(anna, 1, TAKE_OVER_SECONDS)
    assert notice.outcome == "204"
    assert await holder_of(gateway) != pid
    told = told_to(receiver, anna)
    assert [each.notice for each in told] == [notice.id] * 2
    assert told[0].body == told[1].body
    [row] = await notice_rows(anna)
    assert (row.outcome, row.cost) == (Outcome.NOTIFIED, 0)


async def test_killed_while_results_are_read_and_before_it_is_told(
    gateway: Gateway, anna: Worker, receiver: Receiver
) -> None:
    number = await anna.submit("uno", "due")
    anna.fake.script(hang(), on=RESULTS["claude"])
    gateway.set_clock(NOON + timedelta(seconds=20))
    await until(lambda: anna.asked(RESULTS["claude"]), 15)
    await asyncio.to_thread(gateway.restart)
    assert await notices_of(anna) == ()
    # Settled the next time; whoever tells it dies before the answer.
    receiver.answers.append(silent(60))
    gateway.set_clock(NOON + timedelta(seconds=40))
    await until(lambda: told_to(receiver, anna), TAKE_OVER_SECONDS)
    await asyncio.to_thread(gateway.restart)
    notice = await attempted(anna, 1, TAKE_OVER_SECONDS)
    assert {told.notice for told in told_to(receiver, anna)} == {notice.id}
    assert len(told_to(receiver, anna)) == 2
    assert answer_of(await anna.collect(number)) == ["Risposta 0.", "Risposta 1."]
    assert len(anna.asked(STATE["claude"])) == 2
    rows = await gateway.desk.rows(anna.tenant)
    assert sorted((row.outcome, row.cost) for row in rows) == [(Outcome.NOTIFIED, 0), (Outcome.OK, 2 * COST)]
    assert await anna.today() == 2 * COST


async def test_what_was_refused_inside_is_not_reached(
    gateway: Gateway, anna: Worker, receiver: Receiver, make_gateway: Callable[..., Gateway]
) -> None:
    """Without the setting nothing on this machine is told, by no name and no number."""
    await asyncio.to_thread(gateway.kill)
    strict = make_gateway(environment={"PEPPER_WEBHOOK_PRIVATE": "off"})
    strict.set_clock(NOON)
    await asyncio.to_thread(strict.start)
    async with strict.connected():
        bruno = await notified(strict, receiver)
        receiver.default = reply(204)
        for host in ("localhost", "127.0.0.1", "[::ffff:127.0.0.1]"):
            await set_address(bruno, f"https://{host}:{receiver.port}/")
            number = await bruno.submit("uno")
            await bruno.collect(number)

            async def forbidden(number: str = number) -> Any:
                found = {notice.batch: notice for notice in await notices_of(bruno)}
                return found[number].outcome

            assert await eventually(forbidden, TAKE_OVER_SECONDS, pause=0.1) == "indirizzo_vietato", host
        assert receiver.connections == 0
        ran = await asyncio.to_thread(
            strict.command, "project", "set", bruno.tenant.name, "--notify-url", receiver.url
        )
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "https://" in ran.stderr
    await asyncio.to_thread(strict.kill)
