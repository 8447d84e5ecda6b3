"""The text of PDFs: honest ones, those without any, hostile ones; and nothing stays behind."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path

import pytest

from gateway.attachments.pdf_text import PdfTexts, UnreadableError
from gateway.attachments.verdicts import Reading
from tests.unit.attachments.corpus import assembled, encrypted, pdf

MOST = 500_000


def written(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    kids = " ".join(f"{10 + 2 * n} 0 R" for n in range(len(pages)))
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>".encode(),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    }
    for number, text in enumerate(pages):
        place = 10 + 2 * number
        content = b"BT /F1 12 Tf 72 720 Td (" + text.encode("cp1252") + b") Tj ET"
        objects[place] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {place + 1} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>"
        ).encode()
        objects[place + 1] = b"<</Length %d>>stream\n%b\nendstream" % (len(content), content)
    return assembled(objects)


async def outcome(data: bytes, texts: PdfTexts | None = None, most: int = MOST) -> Reading:
    with pytest.raises(UnreadableError) as raised:
        await (texts or PdfTexts()).read(data, most)
    return raised.value.reading


async def test_pages_are_read_in_their_order() -> None:
    text = await PdfTexts().read(written("La quota si paga a marzo.", "Perché è così."), MOST)
    assert text == "La quota si paga a marzo.\n\nPerché è così."


async def test_what_has_no_text_to_give_is_told_apart() -> None:
    assert await outcome(pdf(2)) is Reading.WITHOUT_TEXT
    assert await outcome(encrypted("")) is Reading.ENCRYPTED
    assert await outcome(encrypted("segreta")) is Reading.ENCRYPTED
    assert await outcome(b"%PDF-1.7\nniente") is Reading.DAMAGED
    assert await outcome(b"") is Reading.DAMAGED
    assert await outcome(written("a" * 60, "b" * 60), most=100) is Reading.TOO_LONG


async def test_a_bomb_ends_its_process_and_nothing_else() -> None:
    packed = zlib.compress(b"BT (a) Tj ET\n" * 8_000_000, 9)
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<>>>>",
        4: b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed),
    }
    assert await outcome(assembled(objects), PdfTexts(seconds=20)) is not Reading.READ
    assert await PdfTexts().read(written("Dopo."), MOST) == "Dopo."


async def test_who_gives_up_leaves_no_process() -> None:
    before = children()
    task = asyncio.create_task(PdfTexts().read(written("x" * 1_000), MOST))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() <= before


def children() -> set[str]:
    tasks = Path("/proc/self/task")
    return {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
