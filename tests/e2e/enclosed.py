"""Entries of `documenti`, as a caller would write them."""

from __future__ import annotations

from typing import Any

from tests.unit.attachments import corpus

PHOTO_BYTES = corpus.PNG


def pdf(name: str = "verbale.pdf", *, pages: int = 1, size: int | None = None) -> dict[str, Any]:
    """An honest PDF; `size` makes it exactly so many bytes heavy."""
    return sent(corpus.pdf(pages, size), name)


def photo(
    name: str = "foto.png", data: bytes = PHOTO_BYTES, kind: str | None = "image/png"
) -> dict[str, Any]:
    """A photo; `kind` is what the caller says that it is."""
    return sent(data, name, kind)


def sent(data: bytes | str, name: str, kind: str | None = None) -> dict[str, Any]:
    """Any file, or any text in the place of its base64."""
    written = data if isinstance(data, str) else corpus.encoded(data)
    return {"nome": name, "dati": written} | ({} if kind is None else {"tipo": kind})


def linked(url: str, name: str = "lontano.pdf", kind: str | None = None) -> dict[str, Any]:
    """A file that the provider fetches."""
    return {"nome": name, "url": url} | ({} if kind is None else {"tipo": kind})


def padded(start: bytes, size: int) -> bytes:
    """A file of exactly so many bytes that begins so."""
    return start + b" " * (size - len(start))


def written_pdf(*texts: str) -> bytes:
    """A PDF with a line of text on each page."""
    objects = {1: corpus.CATALOG, 3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"}
    kids = []
    for number, text in enumerate(texts):
        page, content = 10 + 2 * number, 11 + 2 * number
        kids.append(b"%d 0 R" % page)
        shown = b"BT /F 12 Tf 72 720 Td (%s) Tj ET" % text.encode("latin-1")
        objects[page] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            b"/Resources << /Font << /F 3 0 R >> >> /Contents %d 0 R >>" % content
        )
        objects[content] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(shown), shown)
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return corpus.assembled(objects)
