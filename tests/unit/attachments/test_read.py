"""The attachments of a call: every check, its edge and its place in the order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from typing_extensions import override

from gateway.attachments.pdf import PageCounter
from gateway.attachments.read import Attachments
from gateway.domain import errors
from gateway.domain.completion import Attachment, Part, Pdf, Photo
from gateway.domain.errors import Failure, Fault
from gateway.domain.limits import BYTES_PER_MB
from gateway.domain.tenants import Permission, Project
from tests.unit.attachments import corpus

DOCUMENTS, IMAGES = Permission.DOCUMENTS, Permission.IMAGES
URL = "https://example.com/"
BAD = "!!!!"


class Told(PageCounter):
    """Gives the same number for every PDF, and remembers for whom."""

    def __init__(self, pages: int = 1) -> None:
        super().__init__()
        self.pages = pages
        self.asked: list[tuple[str, str]] = []

    @override
    async def count(self, project: str, name: str, text: str) -> int:
        self.asked.append((project, name))
        return self.pages


def project(*permissions: Permission) -> Project:
    return Project(name="dossiero", permissions=frozenset(permissions), created_at=datetime.now(UTC))


EVERYTHING = project(DOCUMENTS, IMAGES)


def sent(data: bytes | str, name: str = "a.pdf", said: str | None = None) -> Attachment:
    return Attachment(
        name=name, media_type=said, data=data if isinstance(data, str) else corpus.encoded(data)
    )


def linked(path: str, said: str | None = None, name: str = "a.pdf") -> Attachment:
    return Attachment(name=name, media_type=said, url=path if ":" in path else URL + path)


def weighing(size: int, start: bytes = b"%PDF-1.7\n") -> bytes:
    return start + b" " * (size - len(start))


async def read(
    *attachments: Attachment, by: Project = EVERYTHING, pages: int = 1, most: int = 600
) -> tuple[Part, ...]:
    return await Attachments(Told(pages)).read(by, attachments, most_pages=most)


async def refusal(
    *attachments: Attachment, by: Project = EVERYTHING, pages: int = 1, most: int = 600
) -> tuple[Fault, str]:
    with pytest.raises(Failure) as caught:
        await read(*attachments, by=by, pages=pages, most=most)
    return caught.value.fault, caught.value.message


@pytest.fixture
async def real() -> AsyncIterator[Attachments]:
    attachments = Attachments()
    yield attachments
    await attachments.aclose()


async def test_files_come_out_in_order_with_what_they_are(real: Attachments) -> None:
    parts = await real.read(
        EVERYTHING,
        [
            sent(corpus.encoded(corpus.pdf(3)).rstrip("="), "verbale.pdf", "image/png"),
            sent("data:text/plain;base64," + corpus.encoded(corpus.PNG), "foto.jpg", "application/pdf"),
            linked("b.pdf", name="lontano.pdf"),
            linked("c.webp", name="lontana.webp"),
            sent(corpus.pdf(4), "bilancio"),
        ],
        most_pages=7,
    )
    assert parts == (
        Pdf(name="verbale.pdf", data=corpus.encoded(corpus.pdf(3)), pages=3),
        Photo(name="foto.jpg", media_type="image/png", data=corpus.encoded(corpus.PNG)),
        Pdf(name="lontano.pdf", url=URL + "b.pdf"),
        Photo(name="lontana.webp", media_type="image/webp", url=URL + "c.webp"),
        Pdf(name="bilancio", data=corpus.encoded(corpus.pdf(4)), pages=4),
    )


async def test_nothing_is_nothing() -> None:
    assert await read(by=project()) == ()


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (corpus.encrypted("segreto"), "protetto da password"),
        (corpus.encrypted(""), "protetto da password"),
        (corpus.pdf(100)[:6000], "danneggiato"),
        (corpus.cyclic(), "danneggiato"),
        (corpus.no_pages(), "senza pagine"),
        (corpus.deep_tree(5000), "complesso"),
    ],
)
async def test_pdfs_that_cannot_be_counted(real: Attachments, data: bytes, part: str) -> None:
    with pytest.raises(Failure) as caught:
        await real.read(EVERYTHING, [sent(data, "brutto.pdf")], most_pages=600)
    assert caught.value.fault is errors.INVALID_DOCUMENT
    assert "'brutto.pdf'" in caught.value.message
    assert part in caught.value.message


async def test_five_pass_and_six_do_not() -> None:
    assert len(await read(*[sent(corpus.PNG)] * 5)) == 5
    fault, message = await refusal(*[sent(corpus.PNG)] * 6)
    assert fault is errors.TOO_MANY_ATTACHMENTS
    assert "6 allegati" in message


@pytest.mark.parametrize("name", ["", " \t", "a\nb", "a\x00", "a\x7f", "a\u2028b", "x" * 1001])
async def test_names_that_are_none(name: str) -> None:
    fault, message = await refusal(sent(corpus.PNG), sent(corpus.PNG, name))
    assert fault is errors.INVALID_REQUEST
    assert "documenti[1]" in message


@pytest.mark.parametrize(
    "name", ["x" * 1000, "verbale dell'8 perché.pdf", "👩\u200d🔬.png", "../../etc/passwd"]
)
async def test_names_that_are_kept_as_they_are(name: str) -> None:
    (part,) = await read(sent(corpus.PNG, name))
    assert part.name == name


async def test_either_a_file_or_an_address() -> None:
    both = Attachment(name="a", data="QQ==", url=URL)
    assert (await refusal(both))[0] is errors.INVALID_REQUEST
    assert (await refusal(Attachment(name="a")))[0] is errors.INVALID_REQUEST


async def test_an_address_with_a_fault_names_the_file() -> None:
    fault, message = await refusal(linked("http://example.com/a.pdf", name="x.pdf"))
    assert fault is errors.INVALID_DOCUMENT
    assert "'x.pdf'" in message


@pytest.mark.parametrize(
    ("attachment", "said"),
    [(linked("foto", "image/heic"), "convertita in JPEG"), (linked("foto", "image/tiff"), "non si legge")],
)
async def test_an_address_of_a_type_nobody_reads(attachment: Attachment, said: str) -> None:
    fault, message = await refusal(attachment)
    assert fault is errors.INVALID_DOCUMENT
    assert said in message


PDF, PNG, JUNK = sent(corpus.pdf()), sent(corpus.PNG), sent(b"ciao a tutti")


@pytest.mark.parametrize(
    ("by", "attachment", "fault"),
    [
        (project(), PDF, errors.DOCUMENTS_NOT_ENABLED),
        (project(), PNG, errors.IMAGES_NOT_ENABLED),
        (project(), JUNK, errors.DOCUMENTS_NOT_ENABLED),
        (project(), sent(BAD), errors.DOCUMENTS_NOT_ENABLED),
        (project(IMAGES), PDF, errors.DOCUMENTS_NOT_ENABLED),
        (project(IMAGES), sent(corpus.pdf(), "a.png", "image/png"), errors.DOCUMENTS_NOT_ENABLED),
        (project(IMAGES), JUNK, errors.INVALID_DOCUMENT),
        (project(IMAGES), linked("a"), errors.DOCUMENTS_NOT_ENABLED),
        (project(DOCUMENTS), PNG, errors.IMAGES_NOT_ENABLED),
        (project(DOCUMENTS), sent(corpus.PNG, "a.pdf", "application/pdf"), errors.IMAGES_NOT_ENABLED),
        (project(DOCUMENTS), JUNK, errors.INVALID_DOCUMENT),
        (project(DOCUMENTS), linked("a.jpg"), errors.IMAGES_NOT_ENABLED),
        (project(DOCUMENTS), linked("a", "image/heic"), errors.IMAGES_NOT_ENABLED),
    ],
)
async def test_permissions_follow_what_a_file_is(by: Project, attachment: Attachment, fault: Fault) -> None:
    assert (await refusal(attachment, by=by))[0] is fault


async def test_one_permission_is_enough_for_its_kind() -> None:
    assert len(await read(PDF, linked("a"), by=project(DOCUMENTS))) == 2
    assert len(await read(PNG, linked("a.gif"), by=project(IMAGES))) == 2


@pytest.mark.parametrize(
    ("data", "part"),
    [("", "vuoto"), ("  \n", "vuoto"), (BAD, "base64"), (corpus.encoded(corpus.PNG)[:-1] + "*", "base64")],
)
async def test_base64_that_is_none(data: str, part: str) -> None:
    fault, message = await refusal(sent(data, "storto.pdf"))
    assert fault is errors.INVALID_DOCUMENT
    assert "'storto.pdf'" in message
    assert part in message


@pytest.mark.parametrize("name", corpus.OTHERS)
async def test_other_files(name: str) -> None:
    fault, message = await refusal(sent(corpus.OTHERS[name], "altro", "application/pdf"))
    assert fault is errors.INVALID_DOCUMENT
    assert message.startswith("L'allegato 'altro' ")


async def test_heic() -> None:
    fault, message = await refusal(sent(corpus.HEIC, "IMG_1.HEIC", "image/jpeg"))
    assert fault is errors.INVALID_DOCUMENT
    assert "convertita in JPEG" in message


@pytest.mark.parametrize(
    ("start", "most_mb"), [(b"%PDF-1.7\n", 10), (corpus.PNG, 5), (corpus.JPEG, 5)], ids=["pdf", "png", "jpeg"]
)
async def test_the_last_byte_that_passes(start: bytes, most_mb: int) -> None:
    most = most_mb * BYTES_PER_MB
    assert len(await read(sent(weighing(most, start)))) == 1
    fault, message = await refusal(sent(weighing(most + 1, start), "grande"))
    assert fault is errors.DOCUMENT_TOO_LARGE
    assert "'grande'" in message
    assert f"{most_mb} MB" in message
    assert f"{most + 1:,}".replace(",", ".") in message


async def test_a_broken_text_is_not_judged_by_its_weight() -> None:
    fault, _ = await refusal(sent(corpus.encoded(weighing(12 * BYTES_PER_MB)) + "!"))
    assert fault is errors.INVALID_DOCUMENT


async def test_together_they_have_a_limit_of_their_own() -> None:
    ten, five = weighing(10 * BYTES_PER_MB), weighing(5 * BYTES_PER_MB, corpus.PNG)
    assert len(await read(sent(ten), sent(five), sent(five), linked("b.pdf"))) == 4
    fault, message = await refusal(sent(ten), sent(five), sent(five), sent(corpus.PNG))
    assert fault is errors.DOCUMENT_TOO_LARGE
    assert "20 MB" in message


async def test_pages_of_all_pdfs_count_together() -> None:
    assert len(await read(PDF, PDF, PNG, linked("b.pdf"), pages=50, most=100)) == 4
    fault, message = await refusal(PDF, PDF, pages=51, most=100)
    assert fault is errors.DOCUMENT_TOO_LARGE
    assert "102 pagine" in message
    assert "100" in message
    fault, message = await refusal(PDF, PNG, pages=601)
    assert "'a.pdf' ha 601 pagine" in message


async def test_only_pdfs_that_were_sent_are_counted() -> None:
    counter = Told()
    await Attachments(counter).read(EVERYTHING, [PNG, linked("b.pdf"), PDF], most_pages=1)
    assert counter.asked == [("dossiero", "a.pdf")]


async def test_checks_are_made_on_all_attachments_before_the_next_one() -> None:
    heavy = sent(weighing(10 * BYTES_PER_MB + 1))
    nameless = sent(corpus.PNG, "")
    assert (await refusal(nameless, *[PDF] * 5))[0] is errors.TOO_MANY_ATTACHMENTS
    assert (await refusal(PDF, nameless, by=project()))[0] is errors.DOCUMENTS_NOT_ENABLED
    assert (await refusal(PDF, nameless))[0] is errors.INVALID_REQUEST
    assert (await refusal(sent(BAD), PNG, by=project(DOCUMENTS)))[0] is errors.IMAGES_NOT_ENABLED
    assert (await refusal(heavy, sent(BAD)))[0] is errors.INVALID_DOCUMENT
    assert (await refusal(heavy, JUNK))[0] is errors.INVALID_DOCUMENT
    assert (await refusal(PDF, heavy, pages=700))[0] is errors.DOCUMENT_TOO_LARGE


async def test_long_names_are_shortened_in_messages() -> None:
    _, message = await refusal(sent(BAD, "n" * 1000))
    assert "n" * 100 + "…'" in message
    assert "n" * 101 not in message
