"""A database of either kind, migrated and empty, for whoever tests what is kept in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from gateway.domain.batches import Batch
from gateway.domain.calls import Attempt, CallRecord, Outcome
from gateway.domain.catalog import Reasoning, Target
from gateway.domain.tenants import Operator, Project
from gateway.domain.usage import Usage
from gateway.storage.calls import LedgerEntry
from gateway.storage.conversations import ConversationPair
from gateway.storage.database import Database
from gateway.storage.migrate import migrate

KINDS = ["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)]
NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
TODAY = date(2026, 11, 30)
ANNA = Operator("anna")


@dataclass(frozen=True)
class Place:
    """What `Settings` says of where the database is."""

    data: Path
    database_url: str | None = None


def place_of(request: pytest.FixtureRequest, folder: Path) -> Place:
    """A new, empty database of the kind asked for in `request.param`."""
    return Place(folder, request.getfixturevalue("mysql_url") if request.param == "mysql" else None)


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Database]:
    """The database, migrated; closed at the end."""
    database = Database.open(place)
    try:
        await migrate(database)
        yield database
    finally:
        await database.close()


def project(name: str = "alfa", **fields: object) -> Project:
    return Project(name=name, created_at=NOW, **fields)  # type: ignore[arg-type]


def record(
    request_id: str, name: str = "alfa", cost: int = 10, *, day: date = TODAY, at: datetime = NOW
) -> CallRecord:
    return CallRecord(
        request_id=request_id,
        project=name,
        day=day,
        started_at=at,
        recipe="libero",
        recipe_version=1,
        outcome=Outcome.OK,
        key_id=7,
        brain="Pepper 6 · OpenAI",
        provider="openai",
        model="gpt-5.5",
        usage=Usage(100, 20, 3, 4, 1),
        cost=cost,
        attempts=(
            Attempt(
                provider="openai", model="gpt-5.5", outcome="ok", usage=Usage(100, 20, 3, 4, 1), cost=cost
            ),
        ),
        duration_ms=1200,
        provider_ms=1100,
    )


def entry(request_id: str, name: str = "alfa", cost: int = 10, **fields: object) -> LedgerEntry:
    return LedgerEntry(record=record(request_id, name, cost), **fields)  # type: ignore[arg-type]


def pair(
    request_id: str,
    name: str = "alfa",
    conversation: str = "cnv_1",
    *,
    question: str = "Perché?",
    answer: str = "Perché sì 🍋.",
    at: datetime = NOW,
    replaces: str | None = None,
) -> ConversationPair:
    return ConversationPair(
        project=name,
        conversation=conversation,
        request_id=request_id,
        question=question,
        answer=answer,
        at=at,
        replaces=replaces,
    )


def batch(number: str = "prt_a1b2c3d4e5f6", name: str = "alfa", **fields: object) -> Batch:
    usual: dict[str, object] = {
        "request_id": f"r-{name}-{number}",
        "key_id": 7,
        "day": TODAY,
        "created_at": NOW,
        "recipe": "riassumi",
        "recipe_version": 2,
        "target": Target("openai", "gpt-5.5", "Pepper 6 · OpenAI", Reasoning.LOW, "pepper:Pepper 6 · OpenAI"),
        "total": 3,
        "single": False,
        "reserved": 100,
        "sent_at": NOW,
    }
    return Batch(number=number, project=name, **usual | fields)  # type: ignore[arg-type]
