"""Alerts of a running gateway: once a day over all workers, by mail and webhook, tried again, never in a call's way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from sqlalchemy import select

from gateway.domain.alerts import AFTER_SECONDS
from gateway.domain.operator_settings import MailServer, Security
from gateway.storage import schema
from gateway.storage.changes import ProjectChanges
from gateway.storage.operator_settings import OperatorSettings
from gateway.storage.sealing import Seal
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.harness import CHANGE_SECONDS, SECRET, Gateway
from tests.e2e.waiting import eventually
from tests.fakes import say, status
from tests.fakes.receiver import Receiver, Told, reply
from tests.fakes.smtp import Mail, SmtpServer
from tests.services import LOOPBACK

WORKERS = 2
ENVIRONMENT = {"PEPPER_WEBHOOK_PRIVATE": "on"}
NOON = datetime(2026, 3, 3, 11, tzinfo=UTC)
SOON = 20.0
"""Seconds within which what is due was tried; a duty passes on within fifteen."""
LOOK_SECONDS = 3.0
"""Within which every worker has looked for something to tell."""
CAP = 0.01
USD = (0.0, 10.0)
"""A token costs ten micro-dollars: a thousand of them are the cap."""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def posta() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def gateway(served: Gateway) -> AsyncIterator[Gateway]:
    """The module's own, with nothing set, at noon of a day of its own, running after whatever was done to it."""
    served.fakes.claude.reset()
    served.set_clock(NOON)
    if served.process is None or served.process.poll() is not None:
        await asyncio.to_thread(served.start)
    async with served.connected():
        yield served
        await settings(served).set_mail(None, TESTER, NOON)
        await settings(served).set_recipients((), TESTER, NOON)
        await settings(served).set_alert_url(None, "", TESTER, NOON)
        for project in await served.desk.tenants.list_projects():
            await served.desk.tenants.set_project(
                project.name, ProjectChanges(daily_budget=None), TESTER, NOON
            )
    served.free_clock()


def settings(gateway: Gateway) -> OperatorSettings:
    return OperatorSettings(gateway.desk.database, Seal(SECRET.encode()))


async def mailed(gateway: Gateway, port: int) -> None:
    """Have alerts mailed from now on."""
    server = MailServer(host=LOOPBACK, port=port, security=Security.NONE, sender="pepper@example.it")
    await settings(gateway).set_mail(server, TESTER, NOON)
    await settings(gateway).set_recipients(("turno@example.it",), TESTER, NOON)


async def posted(gateway: Gateway, receiver: Receiver) -> None:
    await settings(gateway).set_alert_url(receiver.url, "avs_prova", TESTER, NOON)


async def spender(gateway: Gateway) -> Tenant:
    tenant, _ = await gateway.tenant_of_its_own(usd=USD, cap=CAP)
    return tenant


async def spend(gateway: Gateway, tenant: Tenant, tokens: int) -> None:
    gateway.fakes.claude.script(say("Ecco.", input_tokens=0, output_tokens=tokens))
    answer = await gateway.ask(tenant, f"Spendi {tokens} alle {time.monotonic()}")
    assert answer.status_code == 200, answer.text


def subjects(posta: SmtpServer) -> list[str]:
    return [str(mail.message["subject"]) for mail in tuple(posta.mails)]


async def arrived(posta: SmtpServer, count: int) -> list[Mail]:
    async def enough() -> bool:
        return len(posta.mails) >= count

    await eventually(enough, SOON, pause=0.1)
    await asyncio.sleep(LOOK_SECONDS)  # every worker has looked again
    assert len(posta.mails) == count, subjects(posta)
    return posta.mails


async def holder_of(gateway: Gateway) -> int | None:
    """The process whose duty it is to tell."""
    duties, nodes = schema.duties, schema.nodes
    query = select(nodes.c.pid).join_from(duties, nodes, duties.c.holder == nodes.c.id)
    async with gateway.desk.database.connect() as connection:
        return await connection.scalar(query.where(duties.c.name == "alerts"))


async def test_a_cap_is_told_at_80_and_at_100_percent_once_each(
    gateway: Gateway, posta: SmtpServer, receiver: Receiver
) -> None:
    await mailed(gateway, posta.port)
    await posted(gateway, receiver)
    tenant = await spender(gateway)
    await spend(gateway, tenant, 790)
    await asyncio.sleep(LOOK_SECONDS)
    assert posta.mails == []
    await spend(gateway, tenant, 20)
    [mail] = await arrived(posta, 1)
    assert mail.recipients == ("turno@example.it",)
    assert f"Il progetto {tenant.name} ha speso 0,0081 USD dei 0,01 USD" in mail.text
    assert "03/03/2026" in mail.text
    assert tenant.key not in mail.text
    await spend(gateway, tenant, 50)
    await spend(gateway, tenant, 300)
    refused = await gateway.ask(tenant, "Ancora una")
    assert refused.json()["errore"]["codice"] == "budget_esaurito"
    await arrived(posta, 2)
    assert subjects(posta) == [
        f"Pepper: {tenant.name} ha speso l'80% del tetto di oggi",
        f"Pepper: {tenant.name} ha raggiunto il tetto di oggi",
    ]
    assert [told.json["allarme"] for told in receiver.told] == ["tetto_80", "tetto_100"]
    assert receiver.told[1].json["spesa_usd"] == 0.0116
    assert len({told.notice for told in receiver.told}) == 2
    # Another day is another day, and a restart forgets nothing.
    await asyncio.to_thread(gateway.terminate)
    await asyncio.to_thread(gateway.start)
    gateway.set_clock(NOON + timedelta(days=1))
    await spend(gateway, tenant, 1_000)
    await arrived(posta, 3)
    assert subjects(posta)[2] == f"Pepper: {tenant.name} ha raggiunto il tetto di oggi"
    assert posta.refused == []


async def test_a_circuit_that_opens_is_told_once_for_all_workers(gateway: Gateway, posta: SmtpServer) -> None:
    await mailed(gateway, posta.port)
    fallback = await gateway.desk.brain(provider="openai")
    gateway.teach("openai", fallback.principal)
    tenant, brain = await gateway.tenant_of_its_own(provider="claude", cap=None)
    await asyncio.sleep(CHANGE_SECONDS)
    gateway.fakes.claude.default = status(529)
    fails = [gateway.ask(tenant, f"non risponde {number}", extra={"no_cache": True}) for number in range(24)]
    answers = await asyncio.gather(*fails)
    assert {answer.status_code for answer in answers} == {503}
    [mail] = await arrived(posta, 1)
    assert mail.message["subject"] == f"Pepper: {brain.principal} di claude non risponde"


async def test_without_an_address_nothing_is_noted(gateway: Gateway) -> None:
    tenant = await spender(gateway)
    await spend(gateway, tenant, 1_000)
    await asyncio.sleep(LOOK_SECONDS)
    async with gateway.desk.database.connect() as connection:
        rows = await connection.execute(select(schema.alerts).where(schema.alerts.c.subject == tenant.name))
        assert rows.all() == []


async def test_what_was_not_taken_is_tried_again_and_calls_go_on_meanwhile(
    gateway: Gateway, posta: SmtpServer, receiver: Receiver
) -> None:
    receiver.default = reply(500)
    posta.moods.silent = 30.0  # longer than anybody waits
    await mailed(gateway, posta.port)
    await posted(gateway, receiver)
    tenant = await spender(gateway)
    other, _ = await gateway.tenant_of_its_own()
    await spend(gateway, tenant, 900)

    def told() -> list[Told]:
        return [one for one in tuple(receiver.told) if one.json.get("progetto") == tenant.name]

    async def asked(server: int, post: int) -> bool:
        return posta.connections >= server and len(told()) >= post

    await eventually(lambda: asked(1, 1), SOON, pause=0.1)
    for number in range(5):
        began = time.monotonic()
        assert (await gateway.ask(other, f"intanto {number}")).status_code == 200
        assert time.monotonic() - began < 10
    posta.moods.silent = 0.0
    posta.moods.data = "451 più tardi"
    gateway.set_clock(NOON + timedelta(seconds=AFTER_SECONDS[1]))
    await eventually(lambda: asked(2, 2), 40, pause=0.1)
    posta.moods.data = None
    receiver.default = reply(204)
    gateway.set_clock(NOON + timedelta(seconds=AFTER_SECONDS[2]))
    await eventually(lambda: asked(3, 3), SOON, pause=0.1)
    await arrived(posta, 1)
    assert len(told()) == 3
    assert len({one.notice for one in told()}) == 1
    assert len({one.body for one in told()}) == 1


async def test_the_holder_is_killed_and_another_tells(gateway: Gateway, posta: SmtpServer) -> None:
    await mailed(gateway, posta.port)
    tenant = await spender(gateway)
    holder = await eventually(lambda: holder_of(gateway), SOON, pause=0.1)
    assert holder in gateway.worker_pids()
    os.kill(holder, signal.SIGKILL)
    gateway.fakes.claude.default = say("Ecco.", input_tokens=0, output_tokens=1_000)

    async def spent() -> bool:
        with contextlib.suppress(httpx.TransportError):  # a connection to the one that was killed
            return (await gateway.ask(tenant, f"dopo {time.monotonic()}")).status_code in {200, 429}
        return False

    await eventually(spent, SOON)
    [mail] = await arrived(posta, 1)
    assert str(mail.message["subject"]).endswith("ha raggiunto il tetto di oggi")
    assert await holder_of(gateway) != holder
