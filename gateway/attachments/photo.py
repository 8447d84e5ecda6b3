"""What a file is by its first bytes, whatever its name or its sender say.

The promise of this module: a media type that it gives is one the provider takes, and every other file has a
sentence that says what it is or what it should be.
"""

from __future__ import annotations

from gateway.domain.limits import IMAGE_TYPES

PDF_TYPE = "application/pdf"
ACCEPTED = "si accettano PDF e foto JPEG, PNG, GIF o WebP"

_BEFORE_A_PDF = b"\xef\xbb\xbf\x00\t\n\v\f\r "
_PDF_WITHIN = 1024
_HEIC_BRANDS = frozenset(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")
)
_AVIF_BRANDS = (b"avif", b"avis")

_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "sembra un file Office o un archivio ZIP: va esportato in PDF"),
    (b"PK\x05\x06", "è un archivio ZIP vuoto"),
    (b"\xd0\xcf\x11\xe0", "sembra un file Office (.doc, .xls, .ppt): va esportato in PDF"),
    (b"{\\rtf", "è un documento RTF: va esportato in PDF"),
    (b"II*\x00", f"è un'immagine TIFF: {ACCEPTED}"),
    (b"MM\x00*", f"è un'immagine TIFF: {ACCEPTED}"),
    (b"BM", f"è un'immagine BMP: {ACCEPTED}"),
    (b"\x00\x00\x00\x0cJXL ", f"è un'immagine JPEG XL: {ACCEPTED}"),
    (b"\xff\x0a", f"è un'immagine JPEG XL: {ACCEPTED}"),
    (b"\x00\x00\x00\x0cjP  ", f"è un'immagine JPEG 2000: {ACCEPTED}"),
    (b"8BPS", f"è un'immagine Photoshop: {ACCEPTED}"),
    (b"%!PS", "è un file PostScript: va esportato in PDF"),
    (b"JVBERi0", "è codificato in base64 due volte"),
    (b"data:", "è codificato in base64 due volte"),
)


def type_by_bytes(head: bytes) -> str | None:
    """Give the media type of a PDF or of a photo, or None.

    A PDF begins with `%PDF-`. Before it only blanks, zeros and a byte order mark are let through (careless programs
    send them ahead of a file, and readers take it), within the first 1,024 bytes; the file is passed on as it is.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:_PDF_WITHIN].lstrip(_BEFORE_A_PDF).startswith(b"%PDF-"):
        return PDF_TYPE
    return None


def what_else(head: bytes) -> str:
    """Say in Italian what a file is that is neither a PDF nor an accepted photo."""
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    if brand in _AVIF_BRANDS or (
        brand in {b"mif1", b"msf1"} and any(known in head[:64] for known in _AVIF_BRANDS)
    ):
        return f"è un'immagine AVIF: {ACCEPTED}"
    if brand in _HEIC_BRANDS:
        return HEIC
    if brand:
        return f"è un video o un file multimediale: {ACCEPTED}"
    for magic, what in _OTHERS:
        if head.startswith(magic):
            return what
    start = head[:1024].lstrip(_BEFORE_A_PDF).lower()
    if start.startswith((b"<svg", b"<?xml")) and b"<svg" in start:
        return f"è un'immagine SVG: {ACCEPTED}"
    if start.startswith((b"<!doctype html", b"<html")):
        return f"è una pagina HTML: {ACCEPTED}"
    return f"non è un file leggibile: {ACCEPTED}"


def why_not_this_type(media_type: str) -> str | None:
    """Say in Italian why an image type that the caller names is refused; None: it is accepted."""
    if media_type in IMAGE_TYPES:
        return None
    if media_type in {"image/heic", "image/heif", "image/heic-sequence", "image/heif-sequence"}:
        return HEIC
    return f"ha un tipo di immagine che non si legge: {ACCEPTED}"


HEIC = "è una foto HEIC, il formato dell'iPhone: va convertita in JPEG prima di mandarla"
