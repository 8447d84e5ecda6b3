"""Conversations, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from gateway.storage import schema
from gateway.storage.conversations import Conversations
from gateway.storage.database import Database
from gateway.storage.tenants import Tenants
from tests.unit.storage.stores import ANNA, KINDS, NOW, opened, pair, place_of, project


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(place_of(request, tmp_path)) as database:
        for name in ("alfa", "beta"):
            await Tenants(database).add_project(project(name), ANNA)
        yield database


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)


async def questions(conversations: Conversations, name: str = "alfa", room: int = 10_000) -> list[str] | None:
    history = await conversations.history(name, "cnv_1", NOW, room)
    return None if history is None else [each.question for each in history]


async def test_a_conversation_begins_with_its_first_pair(conversations: Conversations) -> None:
    assert not await conversations.exists("alfa", "cnv_1", NOW)
    assert await questions(conversations) is None
    await conversations.append(pair("a", question="uno"))
    await conversations.append(pair("b", question="due"))
    assert await conversations.exists("alfa", "cnv_1", NOW)
    assert await questions(conversations) == ["uno", "due"]


async def test_a_foreign_conversation_is_not_there(conversations: Conversations) -> None:
    await conversations.append(pair("a", question="mia"))
    assert not await conversations.exists("beta", "cnv_1", NOW)
    assert await questions(conversations, "beta") is None
    # The same id in another project is another conversation.
    await conversations.append(pair("b", "beta", question="tua"))
    assert await questions(conversations) == ["mia"]
    assert await questions(conversations, "beta") == ["tua"]


async def test_what_is_too_old_is_not_there(conversations: Conversations) -> None:
    await conversations.append(pair("a", at=NOW - timedelta(microseconds=1)))
    assert not await conversations.exists("alfa", "cnv_1", NOW)
    await conversations.append(pair("b"))
    await conversations.append(pair("c", at=NOW - timedelta(days=1)))
    assert await conversations.exists("alfa", "cnv_1", NOW)


async def test_the_newest_whole_pairs_that_fit(conversations: Conversations) -> None:
    for number, name in enumerate("abc"):
        await conversations.append(pair(name, question="🍋" * (10 + number), answer="è" * 10))
    assert await questions(conversations, room=10_000) == ["🍋" * 10, "🍋" * 11, "🍋" * 12]
    assert await questions(conversations, room=43) == ["🍋" * 11, "🍋" * 12]
    assert await questions(conversations, room=42) == ["🍋" * 12]
    assert await questions(conversations, room=21) == []


async def test_a_pair_is_written_once_per_call(conversations: Conversations) -> None:
    for _ in range(2):
        await conversations.append(pair("a", question="uno"))
    await conversations.append(pair("b", question="due"))
    await conversations.append(pair("a", question="uno"))
    await conversations.append(pair("c", question="vuoto", answer=""))
    await conversations.append(pair("d", question="tre"))
    history = await conversations.history("alfa", "cnv_1", NOW, 10_000)
    assert history is not None
    assert [(each.number, each.question) for each in history] == [(1, "uno"), (2, "due"), (3, "tre")]


async def test_a_repeat_takes_the_place_of_the_cut_pair(conversations: Conversations) -> None:
    await conversations.append(pair("a", question="q", answer="mezz"))
    await conversations.append(pair("b", question="due"))
    for _ in range(2):
        await conversations.append(pair("c", question="q", answer="intera", replaces="a"))
    await conversations.append(pair("d", question="tre", replaces="never written"))
    history = await conversations.history("alfa", "cnv_1", NOW, 10_000)
    assert history is not None
    assert [(each.question, each.answer) for each in history[:1]] == [("q", "intera")]
    assert [each.question for each in history] == ["q", "due", "tre"]


async def test_the_pair_about_to_be_replaced_is_passed_over(conversations: Conversations) -> None:
    await conversations.append(pair("a", question="uno"))
    await conversations.append(pair("b", question="due"))
    history = await conversations.history("alfa", "cnv_1", NOW, 10_000, without="b")
    assert history is not None
    assert [each.question for each in history] == ["uno"]


async def test_concurrent_turns_interleave_as_whole_pairs(conversations: Conversations) -> None:
    await asyncio.gather(*(conversations.append(pair(f"r-{number}")) for number in range(20)))
    history = await conversations.history("alfa", "cnv_1", NOW, 10_000)
    assert history is not None
    assert [each.number for each in history] == list(range(1, 21))


async def test_no_conversation_without_a_project(conversations: Conversations) -> None:
    await conversations.append(pair("a", "gamma"))
    assert not await conversations.exists("gamma", "cnv_1", NOW)


async def test_long_texts_and_all_of_unicode(conversations: Conversations) -> None:
    long = "a\x00'\"\\%s;-- 🍋\n" * 20_000
    await conversations.append(pair("a", question=long, answer="b"))
    history = await conversations.history("alfa", "cnv_1", NOW, 1_000_000)
    assert history is not None
    assert history[0].question == long


async def test_old_conversations_are_deleted_with_their_pairs(
    conversations: Conversations, database: Database
) -> None:
    for number in range(450):
        await conversations.append(
            pair(f"r-{number}", conversation=f"c-{number}", at=NOW - timedelta(days=1))
        )
    await conversations.append(pair("young"))
    assert await conversations.delete_older_than(NOW) == 450
    assert await conversations.delete_older_than(NOW) == 0
    async with database.connect() as connection:
        for table in (schema.conversations, schema.pairs):
            assert await connection.scalar(select(func.count()).select_from(table)) == 1
