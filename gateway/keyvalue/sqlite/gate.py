"""`SqliteGate`: the embedded gate, durable and exact also with several workers on one machine."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from typing_extensions import override

from gateway.keyvalue.sqlite import admission, settlement, upkeep
from gateway.keyvalue.sqlite.living import LivingMark
from gateway.keyvalue.sqlite.session import Session
from gateway.keyvalue.sqlite.worker import Worker
from gateway.ports import Gate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.ports import (
        AdmissionRequest,
        Claim,
        Earlier,
        Interrupted,
        Mismatch,
        Orphan,
        Settlement,
        Verdict,
    )

LIVING_FOLDER = "living"


class SqliteGate(Gate):
    """A gate whose state is `gate.db`, shared by every process that opens the same folder.

    Nothing is opened before the first use, so a gate may be made before a fork and used after it. The folder is made
    once; when it goes away later, the gate is away until it returns, and does not begin anew elsewhere.

    Args:
        folder: `PEPPER_DATA`.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = LivingMark(folder / LIVING_FOLDER)
        self._worker = Worker(self._open)
        self._opened = False

    def _open(self) -> Session:
        if not self._opened:
            self._folder.mkdir(parents=True, exist_ok=True)
        session = Session(self._folder, self._mark)
        self._opened = True
        try:
            session.begin()
            upkeep.free_the_dead(session)
            session.commit()
        except (sqlite3.Error, OSError):
            session.close()
            raise
        return session

    @override
    async def earlier(
        self, project: str, claim: Claim, now: float
    ) -> Earlier | Interrupted | Mismatch | None:
        return await self._worker.run(lambda session: admission.earlier(session, project, claim, now))

    @override
    async def admit(self, request: AdmissionRequest) -> Verdict:
        return await self._worker.run(lambda session: admission.admit(session, request))

    @override
    async def supply(self, project: str, day: str, epoch: int, token: str, spent: int) -> bool:
        return await self._worker.run(
            lambda session: settlement.supply(session, project, day, epoch=epoch, token=token, spent=spent)
        )

    @override
    async def renew(self, requests: Sequence[AdmissionRequest]) -> None:
        await self._worker.run(lambda session: settlement.renew(session, requests))

    @override
    async def settle(self, *settlements: Settlement) -> None:
        await self._worker.run(lambda session: _settle(session, settlements))

    @override
    async def release(self, request: AdmissionRequest) -> None:
        await self._worker.run(lambda session: settlement.release(session, request))

    @override
    async def orphans(self, limit: int = 100) -> Sequence[Orphan]:
        return await self._worker.run(lambda session: upkeep.orphans(session, limit))

    @override
    async def generation(self, project: str) -> int:
        return await self._worker.run(lambda session: upkeep.generation(session, project))

    @override
    async def forget_total(self, project: str, day: str) -> None:
        await self._worker.run(lambda session: settlement.forget_total(session, project, day))

    @override
    async def forget_answers(self, project: str) -> None:
        await self._worker.run(lambda session: upkeep.forget_answers(session, project))

    @override
    async def forget_project(self, project: str) -> None:
        await self._worker.run(lambda session: upkeep.forget_project(session, project))

    @override
    async def ping(self) -> None:
        await self._worker.run(lambda session: session.one("SELECT 1 FROM days LIMIT 1"))

    @override
    async def close(self) -> None:
        await self._worker.stop()
        self._mark.release()


def _settle(session: Session, ended: Sequence[Settlement]) -> None:
    for one in ended:
        settlement.settle(session, one)
        upkeep.sweep(session, one.now)
