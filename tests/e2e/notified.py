"""A project that wants to be told when deferred work has ended, and what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.notices import Notice, secret_purpose
from gateway.storage.changes import ProjectChanges
from gateway.storage.notices import Notices
from gateway.storage.sealing import Seal
from tests.e2e.deferral import Worker, worker
from tests.e2e.desk import TESTER
from tests.e2e.harness import SECRET, Gateway
from tests.e2e.waiting import eventually
from tests.fakes.receiver import Receiver, Told

SIGNING = "avs_una_prova"
TICK_SECONDS = 12.0
"""In which a running gateway has done what is due."""


def address(receiver: Receiver, worker: Worker) -> str:
    return f"{receiver.url}/{worker.tenant.name}"


async def notified(gateway: Gateway, receiver: Receiver, provider: str = "claude", **settings: Any) -> Worker:
    """A project of its own, told at an address of its own."""
    found = await worker(gateway, provider, **settings)
    await set_address(found, address(receiver, found))
    return found


async def set_address(worker: Worker, url: str | None, signing: str = SIGNING) -> None:
    """Set it as a command does."""
    name, desk = worker.tenant.name, worker.gateway.desk
    sealed = Seal(SECRET.encode()).close(secret_purpose(name), signing) if url else None
    await desk.tenants.set_project(
        name, ProjectChanges(notice_url=url), TESTER, datetime.now(UTC), notice_secret=sealed
    )


def told_to(receiver: Receiver, worker: Worker) -> list[Told]:
    path = f"/avvisi/{worker.tenant.name}"
    return [told for told in tuple(receiver.told) if told.path == path]


async def notices_of(worker: Worker) -> Sequence[Notice]:
    return await Notices(worker.gateway.desk.database).recent(worker.tenant.name)


async def notice_rows(worker: Worker) -> list[CallRecord]:
    """Its ledger rows that are of notices."""
    rows = await worker.gateway.desk.rows(worker.tenant)
    return [row for row in rows if row.outcome in {Outcome.NOTIFIED, Outcome.NOT_NOTIFIED}]


async def attempted(worker: Worker, attempts: int, seconds: float = TICK_SECONDS) -> Notice:
    """Its one notice, once it was tried so often."""

    async def found() -> Notice | None:
        notices = await notices_of(worker)
        return notices[0] if notices and notices[0].attempts >= attempts else None

    notice = await eventually(found, seconds, pause=0.1)
    assert isinstance(notice, Notice)
    assert notice.attempts == attempts
    return notice


async def asked_for(worker: Worker, on: str, times: int, seconds: float = TICK_SECONDS) -> None:
    """Return once the provider was asked so often, and no more often."""

    async def enough() -> bool:
        return len(worker.asked(on)) >= times

    await eventually(enough, seconds, pause=0.1)
    assert len(worker.asked(on)) == times
