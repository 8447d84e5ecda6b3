"""What `prova` quotes of the PDFs it is given: the beginning of their first pages, as far as it is text.

A PDF is a stranger's file: it is read in a thread of its own, little of it and for a short time. One that can't be
read so is not quoted, and nothing else comes of it.
"""

from __future__ import annotations

import asyncio
import binascii
import io
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gateway.domain.completion import PageCitation, Pdf

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall

MOST_PAGES = 3
"""Of each PDF."""
MOST_BASE64_CHARACTERS = 4 * 1024 * 1024
"""Of a larger PDF nothing is quoted."""
LONGEST_QUOTE = 120
SECONDS = 5.0
_MOST_STREAM_BYTES = 1024 * 1024
_MOST_OPERATIONS = 100_000


class Quotes:
    """Reads one PDF at a time."""

    def __init__(self) -> None:
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prova")

    async def of(self, call: ModelCall) -> tuple[PageCitation, ...]:
        """Quote the PDFs that were sent along, if the answer is to cite them."""
        quotes: list[PageCitation] = []
        for part in call.attachments if call.cited else ():
            if isinstance(part, Pdf) and part.data is not None and len(part.data) <= MOST_BASE64_CHARACTERS:
                for number, text in enumerate(await self._texts(part.data), start=1):
                    if quote := " ".join(text.split())[:LONGEST_QUOTE].rstrip():
                        quotes.append(PageCitation(part.name, number, quote))
        return tuple(quotes)

    async def _texts(self, data: str) -> list[str]:
        reading = asyncio.get_running_loop().run_in_executor(self._reading, page_texts, data)
        try:
            await asyncio.wait({reading}, timeout=SECONDS)
        finally:
            reading.cancel()
        # Whatever a broken file raises, it is here and not in the way.
        if reading.cancelled() or reading.exception() is not None:
            return []
        return reading.result()


def page_texts(data: str) -> list[str]:
    """Give the text of the first pages of a base64 PDF; raises whatever a broken file makes it raise."""
    from pypdf import PdfReader, apply_configuration  # noqa: PLC0415 - slow, and most sandboxes never read a PDF

    # It says a lot about broken files.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    ends = time.monotonic() + SECONDS

    def hurry(*_: object) -> None:
        if time.monotonic() > ends:
            raise TimeoutError

    with apply_configuration(
        zlib_maximum_output_length=_MOST_STREAM_BYTES,
        lzw_maximum_output_length=_MOST_STREAM_BYTES,
        run_length_maximum_output_length=_MOST_STREAM_BYTES,
        array_based_stream_maximum_output_length=_MOST_STREAM_BYTES,
        stream_decoding_work_maximum_length=4 * _MOST_STREAM_BYTES,
        stream_parsing_work_maximum_count=_MOST_OPERATIONS,
        xform_maximum_invocations_per_extraction=100,
    ):
        # Strictly: whoever forgives looks through the whole file for every object that isn't where it should be.
        reader = PdfReader(io.BytesIO(binascii.a2b_base64(data)), strict=True)
        pages = reader.pages[:MOST_PAGES]
        return [page.extract_text(visitor_operand_before=hurry) for page in pages]
