"""The web search: how Claude is let search, and what is told of it."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic.types
import msgspec
import pytest
import pytest_asyncio

from gateway.domain.calls import Search
from gateway.domain.completion import Choice, PageCitation, Pdf, WebCitation
from gateway.domain.events import Metered, Piece, Searched, Searching, Stop
from gateway.ports import Trouble
from gateway.providers.claude.search import SEARCH_TYPE
from tests.fakes import answer, cite, cut_after, search, text
from tests.unit.attachments.corpus import encoded, pdf
from tests.unit.providers.stage import Outcome, Stage, open_stage

LEAVE = Search(most=3, most_input_tokens=60_000)
PAGE = ("https://www.normattiva.it/a", "Decreto legislativo")


@pytest_asyncio.fixture
async def claude() -> AsyncIterator[Stage]:
    async with open_stage("claude") as stage:
        yield stage


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def watched(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def bodies(stage: Stage) -> list[Any]:
    return [seen.body for seen in stage.server.seen]


def order(told: Outcome) -> list[str]:
    """The events without their counts, consecutive pieces as one."""
    kinds = [type(event).__name__ for event in told.events if not isinstance(event, Metered)]
    return [
        kind
        for number, kind in enumerate(kinds)
        if kind != "Piece" or kinds[number - 1 : number] != ["Piece"]
    ]


# The tool


def test_the_tool_is_the_newest_that_the_sdk_knows() -> None:
    types = [name for name in dir(anthropic.types) if name.startswith("WebSearchTool2")]
    newest = max(name.removeprefix("WebSearchTool").removesuffix("Param") for name in types)

    assert f"web_search_{newest}" == SEARCH_TYPE


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-haiku-4-5", "claude-sonnet-4-5"])
async def test_the_tool_as_it_is_sent(claude: Stage, watched: bool, model: str) -> None:
    assert (await claude.ask(model=model, search=LEAVE, watched=watched)).error is None
    domains = Search(most=2, domains=("normattiva.it", "gazzettaufficiale.it"), most_input_tokens=1)
    assert (await claude.ask(model=model, search=domains, watched=watched)).error is None

    any_page, some_pages = (body["tools"] for body in bodies(claude))
    tool = {"type": SEARCH_TYPE, "name": "web_search", "allowed_callers": ["direct"]}
    assert any_page == [tool | {"max_uses": 3}]
    assert some_pages == [
        tool | {"max_uses": 2, "allowed_domains": ["normattiva.it", "gazzettaufficiale.it"]}
    ]


async def test_without_leave_there_is_no_tool(claude: Stage) -> None:
    await claude.ask()

    assert "tools" not in bodies(claude)[0]


async def test_a_forced_shape_is_answered_without(claude: Stage, watched: bool) -> None:
    told = await claude.ask(search=LEAVE, shape=Choice(("sì", "no")), watched=watched)

    assert told.error is None
    assert "tools" not in bodies(claude)[0]


async def test_openai_does_not_search(watched: bool) -> None:
    async with open_stage("openai") as stage:
        assert (await stage.ask(search=LEAVE, watched=watched)).error is None
        assert "tools" not in bodies(stage)[0]


# What is told


async def test_searches_are_told_with_their_sources(claude: Stage, watched: bool) -> None:
    claude.server.script(
        answer(
            "Cerco. ",
            search("decreto «2026»", [PAGE]),
            search("altro", [PAGE]),
            text(
                "L'articolo 3 prevede che…",
                citations=[cite("l'articolo 3", url=PAGE[0], title=PAGE[1]), cite("b", url="https://x.it/")],
            ),
        )
    )

    told = await claude.ask(search=LEAVE, watched=watched)

    first, second = (event.id for event in told.searches if isinstance(event, Searching))
    assert told.searches == [
        Searching(first, "decreto «2026»"),
        Searched(first),
        Searching(second, "altro"),
        Searched(second),
    ]
    assert told.text == "Cerco. L'articolo 3 prevede che…"
    assert told.citations == (
        WebCitation(PAGE[0], PAGE[1], "l'articolo 3"),
        WebCitation("https://x.it/", "", "b"),
    )
    assert told.usage.searches == 2
    searches = ["Searching", "Searched"] * 2
    assert order(told) == (["Piece"] if watched else []) + [*searches, "Piece", "Finished"]


async def test_pages_of_files_and_of_the_web_are_cited_in_the_order_of_the_answer(
    claude: Stage, watched: bool
) -> None:
    claude.server.script(
        answer(search("x", [PAGE]), text("Uno", citations=[cite("w", url=PAGE[0]), cite("p"), cite("p")]))
    )

    told = await claude.ask(
        search=LEAVE, attachments=(Pdf(name="a.pdf", data=encoded(pdf())),), watched=watched
    )

    assert told.citations == (WebCitation(PAGE[0], "", "w"), PageCitation("a.pdf", 1, "p"))


@pytest.mark.parametrize("error", ["unavailable", "query_too_long", "too_many_requests"])
async def test_a_search_that_fails_is_no_error(claude: Stage, watched: bool, error: str) -> None:
    claude.server.script(answer(search("x", error=error), "Non ho trovato niente."))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert told.stop is Stop.END
    assert [type(event) for event in told.searches] == [Searching, Searched]
    assert told.text == "Non ho trovato niente."


async def test_searches_beyond_the_leave_are_not_counted(claude: Stage, watched: bool) -> None:
    claude.server.script(answer(*(search(f"n. {n}", [PAGE]) for n in range(5)), "Ecco."))

    told = await claude.ask(search=LEAVE, watched=watched)

    assert len(told.searches) == 10
    assert told.usage.searches == 3


async def test_a_search_in_a_stream_is_counted_before_it_ends(claude: Stage) -> None:
    scripted = answer(search("x", [PAGE]), "Ecco la risposta.", pieces=4)
    claude.server.script(msgspec.structs.replace(scripted, ending=cut_after(1).ending))

    told = await claude.ask(search=LEAVE, watched=True)

    assert told.trouble is Trouble.UNREACHABLE
    assert told.usage.searches == 1
    assert [type(event) for event in told.events if not isinstance(event, Metered)] == [
        Searching,
        Searched,
        Piece,
    ]
