"""The provider `prova` names the files it is given, quotes the PDFs, and pretends to search the web."""

import asyncio
import base64
import io
import logging
import time
from typing import Any

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.errors import LimitReachedError, PyPdfError
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from gateway.domain.calls import Search
from gateway.domain.completion import Choice, Fields, PageCitation, Pdf, Photo, WebCitation
from gateway.domain.events import Finished, Metered, Piece, Searched, Searching, Stop
from gateway.ports import Trouble
from gateway.providers.sandbox import Sandbox, quotes
from tests.unit.attachments import corpus
from tests.unit.attachments.corpus import encoded, pdf
from tests.unit.providers.stage import Outcome, call_of, outcome_of, target_of

LEAVE = Search(most=3, domains=("normattiva.it",), most_input_tokens=60_000)
PHOTO = Photo(name="scontrino.jpg", media_type="image/jpeg", data=encoded(corpus.JPEG))


async def ask(content: str = "Che cosa dice?", *, watched: bool = True, **how: Any) -> Outcome:
    return await outcome_of(Sandbox(), call_of(content, watched=watched, **how), target_of("prova"))


def written(*pages: str | bytes) -> str:
    """A PDF with these texts (or operators), one a page."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
            NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
        }
    )
    for content in pages:
        page = writer.add_blank_page(595, 842)
        stream = DecodedStreamObject()
        text = (
            content
            if isinstance(content, bytes)
            else b"BT /F1 12 Tf 50 800 Td (%s) Tj ET" % content.encode("cp1252")
        )
        stream.set_data(text)
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    out = io.BytesIO()
    writer.write(out)
    return encoded(out.getvalue())


# Files


async def test_files_are_named() -> None:
    parts = (
        Pdf(name="verbale.pdf", data=encoded(pdf(12)), pages=12),
        PHOTO,
        Pdf(name="lontano.pdf", url="https://example.org/l.pdf"),
        Photo(name="f.png", media_type="image/png", url="https://example.org/f.png"),
        Pdf(name="n" * 1_000, data=encoded(pdf()), pages=1),
    )

    told = await ask(attachments=parts)

    assert told.stop is Stop.END
    assert "«verbale.pdf» (PDF, 12 pagine)" in told.text
    assert f"«scontrino.jpg» (foto image/jpeg, {len(corpus.JPEG)} byte)" in told.text
    assert "«lontano.pdf» (PDF da un indirizzo)" in told.text
    assert "«f.png» (foto image/png da un indirizzo)" in told.text
    assert f"«{'n' * 120}» (PDF, 1 pagina)" in told.text
    assert told.usage.input_tokens > 14 * 2_000 + 2 * 1_500


async def test_the_first_pages_of_a_pdf_are_quoted() -> None:
    first = Pdf(name="a.pdf", data=written("Perché  no? Costa 12 €", "", "Terza", "Quarta"), pages=4)
    second = Pdf(name="a.pdf", data=written("x" * 1_000), pages=1)

    told = await ask(attachments=(first, PHOTO, second))

    assert told.citations == (
        PageCitation("a.pdf", 1, "Perché no? Costa 12 €"),
        PageCitation("a.pdf", 3, "Terza"),
        PageCitation("a.pdf", 1, "x" * 120),
    )
    assert told == await ask(attachments=(first, PHOTO, second))


async def test_whoever_is_not_to_cite_does_not() -> None:
    part = Pdf(name="a.pdf", data=written("Nome: Ada"), pages=1)

    for shape in (Fields(("nome",)), Choice(("sì", "no"))):
        assert (await ask(attachments=(part,), shape=shape)).citations == ()


@pytest.mark.parametrize(
    "data",
    [
        encoded(b"%PDF-1.7\nnothing"),
        encoded(corpus.cyclic()),
        encoded(corpus.no_pages()),
        encoded(corpus.deep_array(20_000)),
        encoded(corpus.object_stream_bomb(50_000_000)),
        encoded(corpus.encrypted("segreta")),
        "non è base64",
        written(b"BT (a) Tj " * 400_000),
    ],
    ids=["damaged", "cyclic", "empty", "deep", "bomb", "encrypted", "no base64", "long"],
)
async def test_a_pdf_that_can_not_be_read_is_not_quoted(data: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    good = Pdf(name="b.pdf", data=written("Bene"), pages=1)

    told = await ask(attachments=(Pdf(name="a.pdf", data=data, pages=1), good))

    assert told.citations == (PageCitation("b.pdf", 1, "Bene"),)
    assert caplog.text == ""


async def test_a_large_pdf_is_not_read() -> None:
    told = await ask(attachments=(Pdf(name="a.pdf", data=encoded(pdf(1, 4 * 1024 * 1024)), pages=1),))

    assert told.stop is Stop.END
    assert told.citations == ()


async def test_a_pdf_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(data: str) -> list[str]:
        time.sleep(0.5)
        raise ValueError(data)

    monkeypatch.setattr(quotes, "page_texts", slow)
    monkeypatch.setattr(quotes, "SECONDS", 0.05)
    started = time.monotonic()

    told = await ask(attachments=(Pdf(name="a.pdf", data=encoded(pdf()), pages=1),) * 5)

    assert told.stop is Stop.END
    assert time.monotonic() - started < 0.5
    await asyncio.sleep(0.6)


def test_objects_that_are_missing_are_not_looked_for() -> None:
    started = time.monotonic()
    with pytest.raises(PyPdfError):
        quotes.page_texts(encoded(corpus.endless(2)))

    assert time.monotonic() - started < 5


def test_reading_gives_up_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotes, "SECONDS", -1)

    with pytest.raises(TimeoutError):
        quotes.page_texts(written("Bene"))


def test_reading_leaves_the_limits_of_others_alone() -> None:
    data = written(b"BT (a) Tj ET " * 60_000)
    with pytest.raises(LimitReachedError):
        quotes.page_texts(data)

    content = PdfReader(io.BytesIO(base64.b64decode(data))).pages[0].get_contents()
    assert content is not None
    assert len(content.operations) == 180_000


# Searches


async def test_searches_as_wanted() -> None:
    for watched in (False, True):
        told = await ask("Che ore sono? [[prova:ricerca:2]]", search=LEAVE, watched=watched)

        assert told.searches == [
            Searching("ricerca_1", "Che ore sono?"),
            Searched("ricerca_1"),
            Searching("ricerca_2", "Che ore sono? (2)"),
            Searched("ricerca_2"),
        ]
        assert told.usage.searches == 2
        assert [type(event) for event in told.citations] == [WebCitation] * 2
        assert all("https://example.com/" in str(citation) for citation in told.citations)
        kinds = [type(event) for event in told.events if not isinstance(event, Metered)]
        assert kinds[:4] == [Searching, Searched] * 2
        assert set(kinds[4:]) == {Piece, Finished}


@pytest.mark.parametrize(
    ("content", "how", "searches"),
    [
        ("Ciao", {"search": LEAVE}, 0),
        ("[[prova:ricerca:2]]", {}, 0),
        ("[[prova:ricerca:0]]", {"search": LEAVE}, 0),
        ("[[prova:ricerca:99]]", {"search": LEAVE}, 3),
        ("[[prova:ricerca:1]] [[prova:usa:10:20]]", {"search": LEAVE}, 1),
        ("[[prova:ricerca:1]]", {"search": LEAVE, "shape": Choice(("sì", "no"))}, 0),
    ],
)
async def test_searches_as_allowed(content: str, how: dict[str, Any], searches: int) -> None:
    told = await ask(content, **how)

    assert told.error is None
    assert told.usage.searches == searches
    assert len(told.searches) == 2 * searches
    assert len(told.citations) == searches


async def test_a_cut_tells_the_searches_made() -> None:
    told = await ask("[[prova:ricerca:2]] [[prova:taglio:0]]", search=LEAVE)

    assert told.trouble is Trouble.UNREACHABLE
    assert told.usage.searches == 2


async def test_files_come_before_the_web_among_the_sources() -> None:
    part = Pdf(name="a.pdf", data=written("Ciao"), pages=1)

    told = await ask("[[prova:ricerca:1]]", search=LEAVE, attachments=(part,))

    assert [type(citation) for citation in told.citations] == [PageCitation, WebCitation]
    assert "Citazioni: 2." in told.text
