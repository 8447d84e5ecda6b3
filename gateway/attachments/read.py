"""The attachments of a call, from what the caller sent to what the model gets.

The promise of this module: what comes out is a PDF or a photo by its own first bytes, within every limit of the
contract, its pages counted; or the call is refused by the first rule that any of its attachments breaks, in the
order in which `Attachments.read` asks.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence

import msgspec

from gateway.attachments import address
from gateway.attachments.payload import Payload, open_payload
from gateway.attachments.pdf import PageCounter
from gateway.attachments.photo import PDF_TYPE, type_by_bytes, what_else, why_not_this_type
from gateway.attachments.refusals import malformed, too_heavy, too_heavy_together, too_many_pages, unreadable
from gateway.domain.completion import Attachment, Part, Pdf, Photo
from gateway.domain.errors import (
    DOCUMENTS_NOT_ENABLED,
    IMAGES_NOT_ENABLED,
    TOO_MANY_ATTACHMENTS,
    Failure,
)
from gateway.domain.limits import (
    BYTES_PER_MB,
    MAX_ATTACHMENT_NAME_CHARACTERS,
    MAX_ATTACHMENTS,
    MAX_ATTACHMENTS_MB,
    MAX_DOCUMENT_MB,
    MAX_IMAGE_MB,
)
from gateway.domain.tenants import Permission, Project

INLINE_CHARACTERS = 64 * 1024
"""So much base64 is read where it is; more in a thread."""
_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment that was looked at.

    Attributes:
        media_type: `application/pdf`, an image type, or None for what is neither.
        payload: Of a file that was sent; None for one that the provider fetches from `url`.

    """

    name: str
    media_type: str | None
    payload: Payload | None = None
    url: str | None = None

    @property
    def is_pdf(self) -> bool:
        return self.media_type == PDF_TYPE


class Attachments:
    """Reads attachments; owns the processes that count pages."""

    def __init__(self, counter: PageCounter | None = None) -> None:
        self._counter = counter or PageCounter()
        # Several threads would take turns with the event loop and be no faster.
        self._looking = asyncio.Lock()

    async def read(
        self, project: Project, attachments: Sequence[Attachment], *, most_pages: int
    ) -> tuple[Part, ...]:
        """Give what goes to the model, in the caller's order.

        Each check is made on all attachments before the next one begins: permissions, how many, names and addresses,
        readable, weights, pages.

        Raises:
            Failure: The first check that fails; 429 or 503 if the pages could not be counted now.

        """
        _check_permissions(project, [_kind_of(one) for one in attachments])
        if len(attachments) > MAX_ATTACHMENTS:
            raise Failure(
                TOO_MANY_ATTACHMENTS,
                f"La chiamata ha {len(attachments)} allegati: il massimo è {MAX_ATTACHMENTS}.",
            )
        for number, attachment in enumerate(attachments):
            _check_shape(number, attachment)
        files = await self._look_at(attachments)
        for file in files:
            _check_readable(file)
        _check_weights(files)
        pages = [await self._count(project, file) for file in files]
        _check_pages(files, pages, most_pages)
        return tuple(_part(file, count) for file, count in zip(files, pages, strict=True))

    async def aclose(self) -> None:
        """End the counting processes."""
        await self._counter.aclose()

    async def _look_at(self, attachments: Sequence[Attachment]) -> list[_File]:
        if sum(len(one.data or "") for one in attachments) <= INLINE_CHARACTERS:
            return [_look(one) for one in attachments]
        async with self._looking:
            return await asyncio.to_thread(lambda: [_look(one) for one in attachments])

    async def _count(self, project: Project, file: _File) -> int | None:
        # One after the other: a call with five PDFs holds one of its project's two turns.
        if file.payload is None or not file.is_pdf:
            return None
        return await self._counter.count(project.name, file.name, file.payload.text)


def is_photo(attachment: Attachment) -> bool:
    """Whether an attachment is a photo by its own first bytes (or its address); whatever else it is, it may be wrong."""
    return (_kind_of(attachment) or "").startswith("image/")


def _kind_of(attachment: Attachment) -> str | None:
    """What an attachment is, by its beginning alone; None for what is neither a PDF nor a photo."""
    if attachment.url is None:
        return type_by_bytes(open_payload((attachment.data or "")[:INLINE_CHARACTERS]).head)
    if address.problem_of(attachment.url):
        return None
    return address.type_of(attachment.url, attachment.media_type) or PDF_TYPE


def _check_shape(number: int, attachment: Attachment) -> None:
    name = attachment.name
    if not name or name.isspace():
        raise malformed(number, "ha un 'nome' vuoto")
    if len(name) > MAX_ATTACHMENT_NAME_CHARACTERS:
        raise malformed(
            number,
            f"ha un 'nome' di {len(name)} caratteri: il massimo è {MAX_ATTACHMENT_NAME_CHARACTERS}",
        )
    if any(unicodedata.category(character) in _CONTROL_CATEGORIES for character in name):
        raise malformed(number, "ha un 'nome' con caratteri di controllo")
    if (attachment.data is None) == (attachment.url is None):
        raise malformed(number, "vuole uno solo fra 'dati' e 'url'")
    if attachment.url is not None and (problem := address.problem_of(attachment.url)):
        raise unreadable(name, problem)


def _look(attachment: Attachment) -> _File:
    if attachment.url is not None:
        media_type = address.type_of(attachment.url, attachment.media_type) or PDF_TYPE
        return _File(name=attachment.name, media_type=media_type, url=attachment.url)
    payload = open_payload(attachment.data or "")
    return _File(name=attachment.name, media_type=type_by_bytes(payload.head), payload=payload)


def _check_permissions(project: Project, kinds: list[str | None]) -> None:
    """Refuse what the project may not send; what is neither PDF nor photo counts as a document if it may send nothing."""
    documents, images = project.may(Permission.DOCUMENTS), project.may(Permission.IMAGES)
    for kind in kinds:
        if kind is None:
            if not documents and not images:
                raise Failure(DOCUMENTS_NOT_ENABLED)
        elif kind == PDF_TYPE:
            if not documents:
                raise Failure(DOCUMENTS_NOT_ENABLED)
        elif not images:
            raise Failure(IMAGES_NOT_ENABLED)


def _check_readable(file: _File) -> None:
    if file.payload is None:
        what = None if file.is_pdf else why_not_this_type(file.media_type or "")
        if what:
            raise unreadable(file.name, what)
        return
    if not file.payload.valid:
        raise unreadable(file.name, "non è in base64 valido")
    if not file.payload.size:
        raise unreadable(file.name, "è vuoto")
    if file.media_type is None:
        raise unreadable(file.name, what_else(file.payload.head))


def _check_weights(files: list[_File]) -> None:
    together = 0
    for file in files:
        if file.payload is None:
            continue
        most_mb = MAX_DOCUMENT_MB if file.is_pdf else MAX_IMAGE_MB
        if file.payload.size > most_mb * BYTES_PER_MB:
            raise too_heavy(file.name, file.payload.size, most_mb)
        together += file.payload.size
    if together > MAX_ATTACHMENTS_MB * BYTES_PER_MB:
        raise too_heavy_together(together, MAX_ATTACHMENTS_MB)


def _check_pages(files: list[_File], pages: list[int | None], most: int) -> None:
    """Refuse more pages than the model reads, over all PDFs that were sent."""
    together = sum(count or 0 for count in pages)
    if together > most:
        counted = [file.name for file, count in zip(files, pages, strict=True) if count is not None]
        raise too_many_pages(counted, together, most)


def _part(file: _File, pages: int | None) -> Part:
    data = file.payload.text if file.payload else None
    if file.is_pdf:
        return Pdf(name=file.name, data=data, url=file.url, pages=pages)
    return Photo(name=file.name, media_type=file.media_type or "", data=data, url=file.url)
