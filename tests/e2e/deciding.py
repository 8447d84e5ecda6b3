"""Turns of Dilem without its front door: a whole gateway in this process, with real stores and fake providers."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from gateway.bootstrap.serving import build
from gateway.chain.circuit import Circuits
from gateway.chain.isolate import isolate
from gateway.core import Core
from gateway.dilem.contract import Clarification, DecideRequest, Error, Result
from gateway.dilem.decide import Deciding, NotSentError
from gateway.dilem.dilemma import dilemma_of, message_of
from gateway.domain.calls import CallRecord
from gateway.domain.catalog import Brain, Fallback
from gateway.domain.clock import file_clock
from gateway.domain.completion import CompletionRequest
from gateway.settings import read_settings
from gateway.storage.changes import ProjectChanges
from gateway.storage.migrate import migrate
from tests.e2e.desk import TESTER, Desk, Tenant
from tests.e2e.surroundings import Fakes, Stores
from tests.fakes import Answer, FakeServer, say
from tests.fakes.claude_models import NEWEST

SECRET = "a secret of the tests, long enough for anybody"
DILEM = Tenant("dilem", "")
FIRST_DAY = date(2027, 1, 1)
_days = itertools.count()
_requests = itertools.count(1)

QUESTION: dict[str, Any] = {
    "type": "clarification",
    "purpose": None,
    "summary": "Treno o bus per il lavoro",
    "question": "Quanti chilometri fai?",
    "format": "number",
    "choices": [],
    "unit": "km",
}
RESULT: dict[str, Any] = {
    "type": "result",
    "summary": "Treno o bus per il lavoro: più comodo il treno.",
    "context": "Dieci chilometri al giorno.",
    "criteria": ["Il tempo"],
    "assumptions": ["C'è una stazione vicina"],
    "options": [
        {"id": "treno", "label": "Prendere il treno", "description": "È diretto.", "probability": 0.7},
        {"id": "bus", "label": "Prendere il bus", "description": "Passa sotto casa.", "probability": 0.3},
    ],
    "selected": "treno",
    "caution": None,
}
NOTICE = QUESTION | {"purpose": "insufficient_evidence", "format": "text", "unit": None}


def turning(turn: object, **how: Any) -> Answer:
    """A model's answer with this turn in it."""
    return say(msgspec.json.encode({"turn": turn}).decode(), **how)


def asked(text: str = "Treno o bus?", **fields: Any) -> DecideRequest:
    return DecideRequest(text=text, language="it", **fields)


@dataclass
class DecidingStage:
    """Each has a day of its own, so that it has spent nothing yet."""

    core: Core
    desk: Desk
    fakes: Fakes
    data: Path
    redis_url: str | None
    clock: Path
    day: date

    def set_time(self, instant: datetime) -> None:
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(instant.isoformat())
        fresh.rename(self.clock)

    def deciding(self, *, usd: float = 5.0, micros: int | None = None, seconds: float = 95.0) -> Deciding:
        budget = round(usd * 1_000_000) if micros is None else micros
        return Deciding(self.core.chain, daily_budget=budget, seconds=seconds, now=file_clock(self.clock))

    async def turn(
        self, request: DecideRequest | None = None, *, request_id: str | None = None, **policy: Any
    ) -> Clarification | Result | Error:
        return await self.deciding(**policy).turn(
            request or asked(), request_id or f"turn-{self.day}-{next(_requests)}"
        )

    def fake(self, provider: str) -> FakeServer:
        return self.fakes.claude if provider == "claude" else self.fakes.openai

    async def use(
        self, provider: str = "claude", *, fallback: Fallback | None = None, **settings: Any
    ) -> Brain:
        """Let Dilem talk to a brain with a model of its own, known at once; circuits closed."""
        brain = await self.desk.brain(provider=provider, fallback=fallback, **settings)
        self.teach(provider, brain.principal)
        await self.change(brain=brain.name)
        return brain

    def teach(self, provider: str, model: str) -> None:
        if provider == "claude":
            self.fakes.claude.models[model] = NEWEST
        else:
            self.fakes.openai.models.add(model)

    async def change(self, **changes: Any) -> None:
        await self.desk.tenants.set_project("dilem", ProjectChanges(**changes), TESTER, datetime.now(UTC))
        await self.core.current.refresh()
        self.core.chain.circuits = Circuits()

    async def rows(self) -> list[CallRecord]:
        """The day's ledger, the oldest first."""
        return [row for row in await self.desk.rows(DILEM) if row.day == self.day]

    async def spent(self) -> int:
        return await self.desk.calls.spent("dilem", self.day)


@asynccontextmanager
async def deciding_stage(
    stores: Stores, fakes: Fakes, folder: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[DecidingStage]:
    """A started gateway; its clock stands at noon, UTC."""
    for fake in (fakes.claude, fakes.openai):
        fake.reset()
    clock = folder / "clock"
    variables = {
        "PEPPER_DATA": str(folder / "data"),
        "PEPPER_SECRET": SECRET,
        "PEPPER_CLOCK_FILE": str(clock),
        "PEPPER_DILEM": "off",
        **stores.environment,
        **fakes.environment,
        **(environment or {}),
    }
    if stores.database_url is None:
        async with Desk.opened(folder / "data", None, SECRET.encode()) as desk:
            await migrate(desk.database)
    core = build(read_settings(variables))
    day = FIRST_DAY + timedelta(days=3 * next(_days))
    await core.start()
    try:
        async with Desk.opened(folder / "data", stores.database_url, SECRET.encode()) as desk:
            stage = DecidingStage(
                core, desk, fakes, folder / "data", stores.redis.url if stores.redis else None, clock, day
            )
            stage.set_time(datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
            await stage.change(sandbox=False)
            yield stage
            await stage.change(sandbox=False, brain=None, active=True)
    finally:
        await core.stop()
    assert fakes.claude.refused == fakes.openai.refused == []


async def worst_case(stage: DecidingStage) -> int:
    """Micro-dollars that are reserved for `asked()`."""
    chain = stage.core.chain
    scope = isolate(chain.on_behalf("dilem", "dilem"), "dilem", "")
    content = message_of(dilemma_of(asked()))
    request = CompletionRequest(project="dilem", recipe="decide", content=content)
    policy = stage.deciding()._policy
    snapshot = stage.core.current.snapshot
    plan = await chain._planner.plan(scope, request, snapshot, datetime.now(UTC), policy=policy)
    return plan.worst_case


def refused(error: BaseException, stage: DecidingStage) -> bool:
    """Whether it is the refusal of an exhausted budget, with the moment of its renewal."""
    assert isinstance(error, NotSentError), error
    body = error.body()
    assert body.resets_at == f"{stage.day + timedelta(days=1)}T00:00:00Z"
    return (error.code.status, body.code, body.retryable) == (429, "budget_exhausted", True)
