"""The service's own part: retention by the clock, and limits that are an identity's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import func, select

from gateway.dilem.contract import DecideRequest, UserFeedback
from gateway.dilem.decide import Deciding
from gateway.dilem.errors import DilemFailure
from gateway.dilem.policy import Policy
from gateway.dilem.service import Dilem
from gateway.storage import schema
from gateway.storage.database import Database
from gateway.storage.dilem.unwritten import Unwritten
from tests.unit.dilem.test_turns import REQUEST, Model
from tests.unit.storage.stores import NOW, Place, opened

ADDRESS = "192.0.2.1"
REPORT = UserFeedback(
    request_id="0" * 32,
    kind="general",
    message="Va bene così.",
    email="",
    language="it",
    source="agent",
    version="unknown",
    screen="other",
    response=None,
)


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(Place(tmp_path)) as made:
        yield made


@pytest.fixture
async def dilem(database: Database, tmp_path: Path, time: Time) -> AsyncIterator[Dilem]:
    made = Dilem(
        database=database,
        deciding=cast("Deciding", Model()),
        unwritten=Unwritten(tmp_path),
        policy=Policy(base_url="http://localhost"),
        now=time,
    )
    yield made
    await made.stop()


async def rows(database: Database) -> dict[str, int]:
    tables = [table for name, table in schema.metadata.tables.items() if name.startswith("dilem_")]
    async with database.connect() as connection:
        return {
            table.name.removeprefix("dilem_"): await connection.scalar(
                select(func.count()).select_from(table)
            )
            or 0
            for table in tables
        }


async def test_everything_is_kept_as_long_as_it_should_be(
    dilem: Dilem, database: Database, time: Time
) -> None:
    token = (await dilem.start_session(None, ADDRESS)).session
    caller = await dilem.identify(token, ADDRESS)
    await dilem.decide(caller, "caso", REQUEST, "req_1")
    await dilem.send_user_feedback(caller, REPORT)
    for days, left in (
        (0, {"exchanges": 1, "results": 1, "cases": 1, "identities": 1, "reports": 1, "rates": 3}),
        (29.99, {"exchanges": 1, "results": 1, "cases": 1, "identities": 1, "reports": 1, "rates": 0}),
        (30, {"exchanges": 0, "results": 0, "cases": 1, "identities": 1, "reports": 1, "rates": 0}),
        (119.99, {"exchanges": 0, "results": 0, "cases": 1, "identities": 1, "reports": 1, "rates": 0}),
        (120, {"exchanges": 0, "results": 0, "cases": 0, "identities": 0, "reports": 1, "rates": 0}),
        (180, {"exchanges": 0, "results": 0, "cases": 0, "identities": 0, "reports": 0, "rates": 0}),
    ):
        time.now = NOW + timedelta(days=days)
        await dilem.forget_old()
        assert await rows(database) == left | {"counters": 1}, days


async def test_a_turn_that_is_too_long_reaches_nobody(dilem: Dilem) -> None:
    caller = await dilem.identify((await dilem.start_session(None, ADDRESS)).session, ADDRESS)
    long = DecideRequest(text="a" * 6_000, language="it", refinements=("a" * 6_000,) * 3 + ("a",))
    with pytest.raises(DilemFailure) as raised:
        await dilem.decide(caller, "caso", long, "req_1")
    assert raised.value.code.code == "input_too_long"


async def test_usage_votes_and_addresses_have_a_minute_of_their_own(dilem: Dilem, time: Time) -> None:
    caller = await dilem.identify((await dilem.start_session(None, ADDRESS)).session, ADDRESS)

    async def codes(call: str, most: int) -> list[str]:
        found = []
        for _ in range(most + 1):
            try:
                match call:
                    case "usage":
                        await dilem.get_usage(caller, None)
                    case "votes":
                        await dilem.get_result_feedback(caller, "0" * 32)
                    case "address":
                        dilem.require_calm(ADDRESS)
                found.append("")
            except DilemFailure as failure:
                found.append(failure.code.code)
        return found

    assert await codes("usage", 120) == [""] * 120 + ["rate_limited"]
    assert await codes("votes", 60) == ["result_not_found"] * 60 + ["rate_limited"]
    assert await codes("address", 300) == [""] * 300 + ["rate_limited"]
    time.now = NOW + timedelta(minutes=1)
    assert await codes("usage", 119) == [""] * 120
