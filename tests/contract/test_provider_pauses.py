"""Answers that Claude pauses while it searches the web are continued, and told as the one answer they are."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.domain.calls import Search
from gateway.domain.catalog import Reasoning
from gateway.domain.completion import WebCitation
from gateway.domain.events import Stop
from gateway.domain.usage import Usage
from gateway.ports import Trouble
from gateway.providers.claude.turns import MOST_REQUESTS
from tests.fakes import Answer, answer, cite, cut_after, pause, say, search, status, text, think
from tests.unit.providers.stage import Stage, open_stage

LEAVE = Search(most=3, most_input_tokens=60_000)
PAGE = ("https://www.normattiva.it/a", "Decreto legislativo")


@pytest_asyncio.fixture
async def claude() -> AsyncIterator[Stage]:
    async with open_stage("claude") as stage:
        yield stage


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def watched(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def counted(scripted: Answer, input_tokens: int, output_tokens: int) -> Answer:
    return msgspec.structs.replace(scripted, input_tokens=input_tokens, output_tokens=output_tokens)


def bodies(stage: Stage) -> list[Any]:
    return [seen.body for seen in stage.server.seen]


async def test_a_pause_is_continued(claude: Stage, watched: bool) -> None:
    claude.server.script(
        counted(
            answer(think("dunque"), "Sto cercando. ", search("uno", [PAGE]), stop="pause_turn"), 1_000, 100
        ),
        counted(answer(text("Trovato.", citations=[cite("c", url=PAGE[0], title="T")])), 3_000, 40),
    )

    told = await claude.ask(search=LEAVE, watched=watched, reasoning=Reasoning.LOW, answer_tokens=900)

    assert told.error is None
    assert told.stop is Stop.END
    assert told.text == "Sto cercando. Trovato."
    assert told.citations == (WebCitation(PAGE[0], "T", "c"),)
    assert told.usage == Usage(4_000, 140, searches=1)
    first, second = bodies(claude)
    assert second["messages"][:-1] == first["messages"]
    assert [block["type"] for block in second["messages"][-1]["content"]] == [
        "thinking",
        "text",
        "server_tool_use",
        "web_search_tool_result",
    ]
    assert second["messages"][-1]["role"] == "assistant"
    assert [body["tools"][0]["max_uses"] for body in (first, second)] == [3, 2]
    assert [body["max_tokens"] for body in (first, second)] == [900 + 4_096, 900 + 4_096 - 100]
    same = ("model", "system", "thinking", "output_config", "stream")
    assert [first.get(name) for name in same] == [second.get(name) for name in same]
    if not watched:
        assert len(told.pieces) == 1


async def test_the_blocks_go_back_as_they_came(claude: Stage) -> None:
    parts = (
        think("prima penso"),
        text("Ecco «tutto»", citations=[cite("c", url=PAGE[0]), cite("c", url=PAGE[0])]),
        search('con "virgolette" e 🌶', [PAGE, ("https://b.it/", "B")]),
        search("fallita", error="unavailable"),
    )
    for watched in (False, True):
        claude.server.script(answer(*parts, stop="pause_turn"), say(" fine"))
        assert (await claude.ask(search=LEAVE, watched=watched)).error is None

    whole, pieces = (body["messages"][-1]["content"] for body in bodies(claude)[1::2])

    def anonymous(blocks: Any) -> Any:
        names = {"id", "tool_use_id"}
        return [{key: value for key, value in block.items() if key not in names} for block in blocks]

    assert anonymous(whole) == anonymous(pieces)
    assert whole[1]["citations"][0]["encrypted_index"]
    assert whole[2]["input"] == {"query": 'con "virgolette" e 🌶'}
    assert [found["url"] for found in whole[3]["content"]] == [PAGE[0], "https://b.it/"]


async def test_two_pauses_are_continued(claude: Stage, watched: bool) -> None:
    claude.server.script(
        counted(pause("Uno. "), 10, 5), counted(pause("Due. "), 20, 6), counted(say("Tre."), 30, 7)
    )

    told = await claude.ask(search=LEAVE, watched=watched)

    assert told.stop is Stop.END
    assert told.text == "Uno. Due. Tre."
    assert told.usage == Usage(60, 18, searches=2)
    assert [body["tools"][0]["max_uses"] for body in bodies(claude)] == [3, 2, 1]
    assert len(bodies(claude)[2]["messages"][-1]["content"]) == 6
    assert len(told.searches) == 4


async def test_blank_text_does_not_go_back(claude: Stage, watched: bool) -> None:
    claude.server.script(answer("\n", search("x", [PAGE]), stop="pause_turn"), say("Ecco."))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert told.text == "\nEcco."


async def test_without_searches_left_the_answer_ends(claude: Stage, watched: bool) -> None:
    claude.server.script(pause("Quello che so.", 3))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert told.stop is Stop.TRUNCATED
    assert told.text == "Quello che so."
    assert told.usage.searches == 3
    assert len(bodies(claude)) == 1


async def test_searches_that_failed_are_used_up_too(claude: Stage, watched: bool) -> None:
    claude.server.script(pause("Uno. ", [search("x", error="unavailable")] * 2), say("Due."))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert told.text == "Uno. Due."
    assert bodies(claude)[1]["tools"][0]["max_uses"] == 1


@pytest.mark.parametrize(("tokens", "requests"), [(30_000, 2), (30_001, 1)])
async def test_beyond_what_the_pages_may_weigh_the_answer_ends(
    claude: Stage, watched: bool, tokens: int, requests: int
) -> None:
    claude.server.script(counted(pause("Uno. "), tokens, 10), say("Due."))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert len(bodies(claude)) == requests
    assert told.stop is (Stop.END if requests == 2 else Stop.TRUNCATED)


async def test_without_tokens_left_the_answer_ends(claude: Stage, watched: bool) -> None:
    claude.server.script(counted(pause("Uno. "), 10, 500))

    told = await claude.ask(search=LEAVE, watched=watched, answer_tokens=500)

    assert told.stop is Stop.TRUNCATED
    assert len(bodies(claude)) == 1


@pytest.mark.parametrize(("written", "requests"), [(2_500, 2), (4_500, 1)])
async def test_a_thinking_budget_shrinks_with_the_tokens_left(
    claude: Stage, watched: bool, written: int, requests: int
) -> None:
    claude.server.script(counted(pause("Uno. "), 10, written), say("Due."))

    told = await claude.ask(
        model="claude-haiku-4-5", reasoning=Reasoning.LOW, search=LEAVE, answer_tokens=700, watched=watched
    )

    assert told.error is None
    assert len(bodies(claude)) == requests
    if requests == 2:
        assert bodies(claude)[1]["thinking"] == {"type": "enabled", "budget_tokens": (4_796 - 2_500) // 2}


async def test_pauses_for_nothing_end(claude: Stage, watched: bool) -> None:
    claude.server.script(*(say("a", stop="pause_turn") for _ in range(MOST_REQUESTS + 3)))

    # An assistant's turn without a search, sent back, would be a prefill: the older models take it.
    told = await claude.ask(model="claude-sonnet-4-5", search=LEAVE, watched=watched)

    assert told.stop is Stop.TRUNCATED
    assert told.text == "a" * MOST_REQUESTS


async def test_a_pause_without_text_that_can_not_go_on_is_no_answer(claude: Stage, watched: bool) -> None:
    claude.server.script(counted(pause("", 3), 700, 9))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert told.trouble is Trouble.FAULTY
    assert told.text == ""
    assert told.usage == Usage(700, 9, searches=3)


async def test_a_cut_in_a_continued_turn_is_told_with_both(claude: Stage) -> None:
    claude.server.script(counted(pause("Uno. "), 1_000, 100), counted(cut_after(2), 3_000, 50))

    told = await claude.ask(search=LEAVE, watched=True)

    assert told.trouble is Trouble.UNREACHABLE
    assert told.text.startswith("Uno. ")
    assert told.usage == Usage(4_000, 101, searches=1)


@pytest.mark.parametrize(
    ("failure", "trouble"),
    [
        (status(529), Trouble.OVERLOADED),
        (cut_after(0), Trouble.UNREACHABLE),
        (status(200, body=b"x"), Trouble.FAULTY),
    ],
)
async def test_a_continuation_that_fails_is_told_with_what_was_consumed(
    claude: Stage, failure: Any, trouble: Trouble
) -> None:
    claude.server.script(counted(pause("Uno. "), 1_000, 100), failure)

    told = await claude.ask(search=LEAVE)

    assert told.trouble is trouble
    # Nothing was told of the text: the whole call can be tried again.
    assert told.pieces == []
    assert told.usage == Usage(1_000, 100, searches=1)
