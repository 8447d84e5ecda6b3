"""PDFs and photos: what Claude is sent, and where its answer says it comes from."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.domain.completion import Choice, Fields, PageCitation, Part, Pdf, Photo, Shape, Turn
from gateway.ports import Trouble
from tests.fakes import answer, cite, say, status, text
from tests.unit.attachments.corpus import JPEG, encoded, pdf
from tests.unit.providers.stage import Stage, open_stage

PAPER = encoded(pdf(2))
SHOT = encoded(JPEG)
REPORT = Pdf(name="verbale.pdf", data=PAPER, pages=2)
FAR = Pdf(name="bilancio.pdf", url="https://example.org/b.pdf?a=1")
RECEIPT = Photo(name="scontrino.jpg", media_type="image/jpeg", data=SHOT)
FAR_PHOTO = Photo(name="f.webp", media_type="image/webp", url="https://example.org/f.webp")


@pytest_asyncio.fixture
async def claude() -> AsyncIterator[Stage]:
    async with open_stage("claude") as stage:
        yield stage


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def watched(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def paper_block(title: str | None = "verbale.pdf", *, cited: bool = True) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PAPER},
    }
    if title is not None:
        block["title"] = title
    if cited:
        block["citations"] = {"enabled": True}
    return block


def sent(stage: Stage) -> list[dict[str, Any]]:
    content = stage.server.seen[-1].body["messages"][-1]["content"]
    assert isinstance(content, list)
    return content


# What is sent


async def test_attachments_come_in_their_order_before_the_text(claude: Stage, watched: bool) -> None:
    told = await claude.ask(
        "  Che cosa c'è?\n", attachments=(RECEIPT, REPORT, FAR_PHOTO, FAR), watched=watched
    )

    assert told.error is None
    assert sent(claude) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": SHOT}},
        paper_block(),
        {"type": "image", "source": {"type": "url", "url": "https://example.org/f.webp"}},
        {
            "type": "document",
            "source": {"type": "url", "url": "https://example.org/b.pdf?a=1"},
            "title": "bilancio.pdf",
            "citations": {"enabled": True},
        },
        {"type": "text", "text": "  Che cosa c'è?\n"},
    ]


async def test_they_go_with_the_last_turn_alone(claude: Stage) -> None:
    before = (Turn("user", "Ciao"), Turn("assistant", "Ciao!"))

    await claude.ask("Leggi", before=before, attachments=(REPORT,))

    first, second, last = claude.server.seen[0].body["messages"]
    assert first == {"role": "user", "content": "Ciao"}
    assert [block["type"] for block in second["content"]] == ["text"]
    assert [block["type"] for block in last["content"]] == ["document", "text"]


@pytest.mark.parametrize("shape", [Fields(("nome",)), Choice(("sì", "no"))])
async def test_a_forced_shape_is_not_cited(claude: Stage, watched: bool, shape: Shape) -> None:
    told = await claude.ask("Leggi", attachments=(REPORT, RECEIPT), shape=shape, watched=watched)

    assert told.error is None
    assert sent(claude)[0] == paper_block(cited=False)
    assert told.citations == ()


@pytest.mark.parametrize(
    ("name", "title"),
    [("x" * 500, "x" * 500), ("è" * 1_000, "è" * 500), ("🌶" * 501, "🌶" * 500), (" " * 501 + "a", None)],
)
async def test_a_title_has_500_characters_at_most(claude: Stage, name: str, title: str | None) -> None:
    part = Pdf(name=name, data=PAPER)
    claude.server.script(say("Ecco.", citations=[cite("riga")]))

    told = await claude.ask(attachments=(part,))

    assert sent(claude)[0] == paper_block(title)
    assert told.citations == (PageCitation(name, 1, "riga"),)


async def test_large_files_arrive_whole(claude: Stage) -> None:
    data = encoded(pdf(1, 10 * 1024 * 1024))

    told = await claude.ask(attachments=(Pdf(name="a", data=data), Pdf(name="b", data=data)))

    assert told.error is None
    assert [block["source"]["data"] == data for block in sent(claude)[:2]] == [True, True]


async def test_what_the_provider_says_of_a_file_is_a_rejection(claude: Stage, watched: bool) -> None:
    claude.server.script(
        status(400, message="The PDF specified was not valid.", kind="invalid_request_error")
    )

    told = await claude.ask(attachments=(REPORT,), watched=watched)

    assert told.error is not None
    assert told.error.trouble is Trouble.REJECTED
    assert told.error.status == 400
    assert told.events == []


async def test_openai_takes_none(watched: bool) -> None:
    async with open_stage("openai") as stage:
        for part in (REPORT, RECEIPT):
            told = await stage.ask(attachments=(part,), watched=watched)

            assert told.trouble is Trouble.REJECTED
            assert told.events == []
        assert stage.server.seen == []


# What is cited


async def test_pages_are_cited_by_the_names_of_the_files(claude: Stage, watched: bool) -> None:
    parts: tuple[Part, ...] = (RECEIPT, REPORT, FAR_PHOTO, FAR)
    claude.server.script(
        answer(
            "Secondo i documenti ",
            text("il consiglio ha approvato", citations=[cite("all'unanimità", pages=(3, 4))]),
            ". ",
            text(
                "L'utile cresce",
                citations=[
                    cite("utile 12 €", document=1, pages=(7, 9)),
                    cite("+3%", document=1, pages=(8, 9)),
                ],
            ),
        )
    )

    told = await claude.ask(attachments=parts, watched=watched)

    assert told.text == "Secondo i documenti il consiglio ha approvato. L'utile cresce"
    assert told.citations == (
        PageCitation("verbale.pdf", 3, "all'unanimità"),
        PageCitation("bilancio.pdf", 7, "utile 12 €"),
        PageCitation("bilancio.pdf", 8, "+3%"),
    )


async def test_two_files_of_one_name(claude: Stage, watched: bool) -> None:
    long = "n" * 600
    parts = (Pdf(name=long + "1", data=PAPER), Pdf(name=long + "2", data=PAPER))
    claude.server.script(say("Ecco", citations=[cite("a", document=1), cite("b", document=0)]))

    told = await claude.ask(attachments=parts, watched=watched)

    assert told.citations == (PageCitation(long + "2", 1, "a"), PageCitation(long + "1", 1, "b"))
    assert [block["title"] for block in sent(claude)[:2]] == ["n" * 500] * 2


async def test_a_repetition_is_dropped_within_a_block_alone(claude: Stage, watched: bool) -> None:
    one, other = cite("uno"), cite("altro")
    claude.server.script(
        answer(
            text("Prima frase. ", citations=[one, one, other, one]), text("Seconda frase.", citations=[one])
        )
    )

    told = await claude.ask(attachments=(REPORT,), watched=watched)

    assert [citation.text for citation in told.citations] == ["uno", "altro", "uno", "uno"]


async def test_what_is_no_place_in_a_file_sent_is_not_cited(claude: Stage, watched: bool) -> None:
    claude.server.script(
        say(
            "Ecco",
            citations=[
                cite("testo", chars=(0, 5)),
                cite("blocco", blocks=(0, 1)),
                cite("altrove", document=5),
                cite("pagina zero", pages=(0, 1)),
            ],
        )
    )

    told = await claude.ask(attachments=(REPORT,), watched=watched)

    assert told.error is None
    assert told.citations == ()
