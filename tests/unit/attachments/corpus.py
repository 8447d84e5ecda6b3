"""Files for the tests of attachments, made when they are asked for: honest ones, damaged ones, hostile ones."""

from __future__ import annotations

import base64
import functools
import io
import random
import zlib
from collections.abc import Mapping

from pypdf import PdfWriter

JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xdb\x00C\x00" + b"\x08" * 64 + b"\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00"
    b"\xff\xc4\x00\x14\x00\x01" + b"\x00" * 16 + b"\xff\xda\x00\x08\x01\x01\x00\x00?\x00\x00\xff\xd9"
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
PHOTOS = {"image/jpeg": JPEG, "image/png": PNG, "image/gif": GIF, "image/webp": WEBP}

HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + b"\x00" * 40
MIF1 = b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1heic" + b"\x00" * 40
AVIF = b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf" + b"\x00" * 40
MIF1_AVIF = b"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00avifmif1miaf" + b"\x00" * 40
OTHERS = {
    "MP4": b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2",
    "TIFF little": b"II*\x00\x08\x00\x00\x00",
    "TIFF big": b"MM\x00*\x00\x00\x00\x08",
    "BMP": b"BM\x3a\x00\x00\x00",
    "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "SVG with a declaration": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "HTML": b"\n<!DOCTYPE html><html><body>404</body></html>",
    "docx": b"PK\x03\x04\x14\x00\x06\x00[Content_Types].xml",
    "doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "RTF": b"{\\rtf1\\ansi ciao}",
    "PostScript": b"%!PS-Adobe-3.0",
    "text": b"Caro cliente, le scrivo per",
    "a PDF after a letter": b"From: a@b.it\n\n%PDF-1.7\n",
    "a PDF twice in base64": base64.b64encode(b"%PDF-1.7\n"),
}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@functools.cache
def pdf(pages: int = 1, size: int | None = None) -> bytes:
    """An honest PDF; `size` makes it exactly so many bytes heavy."""
    writer = PdfWriter()
    for _ in range(pages):
        writer.add_blank_page(595, 842)
    written = io.BytesIO()
    writer.write(written)
    plain = written.getvalue()
    if size is None:
        return plain
    marker = plain.rindex(b"startxref")
    # A comment between the trailer and `startxref` moves no object.
    room = size - len(plain) - 2
    noise = random.Random(1).randbytes(room).translate(bytes.maketrans(b"\r\n%", b"   "))
    return plain[:marker] + b"%" + noise + b"\n" + plain[marker:]


def encrypted(user_password: str, algorithm: str = "AES-256") -> bytes:
    writer = PdfWriter()
    writer.add_blank_page(595, 842)
    writer.encrypt(user_password, "owner", algorithm=algorithm)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def assembled(objects: Mapping[int, bytes], *, root: int = 1) -> bytes:
    """A PDF of these objects, with a right cross-reference table."""
    out = bytearray(b"%PDF-1.7\n")
    places: dict[int, int] = {}
    for number, body in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        out += b"%d 1\n%010d 00000 n \n" % (number, place)
    out += b"trailer\n<< /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (max(objects) + 1, root, start)
    return bytes(out)


CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>"


def lying(real: int, said: int) -> bytes:
    kids = b" ".join(b"%d 0 R" % (3 + number) for number in range(real))
    tree = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, said)
    return assembled({1: CATALOG, 2: tree, **{3 + number: PAGE for number in range(real)}})


def no_pages() -> bytes:
    return assembled({1: CATALOG, 2: b"<< /Type /Pages /Kids [] /Count 0 >>"})


def cyclic() -> bytes:
    return assembled(
        {
            1: CATALOG,
            2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            3: b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            4: b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>",
        }
    )


def deep_tree(depth: int) -> bytes:
    objects = {1: CATALOG}
    for number in range(2, depth + 2):
        objects[number] = b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (number + 1)
    objects[depth + 2] = PAGE
    return assembled(objects)


def deep_array(depth: int) -> bytes:
    return assembled(
        {1: b"<< /Type /Catalog /Pages 2 0 R /X %s%s >>" % (b"[" * depth, b"]" * depth), 2: PAGE}
    )


def object_stream_bomb(unpacked: int, streams: int = 1) -> bytes:
    """Each page lies in a stream of its own that unpacks to so many bytes, all of which a reader keeps."""
    kids = b" ".join(b"%d 0 R" % (10 + number) for number in range(streams))
    objects = {1: CATALOG, 2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, streams)}
    rows = dict.fromkeys(range(10 + 2 * streams), b"\x00" * 6)
    for number in range(streams):
        stream = 10 + streams + number
        head = b"%d 0 " % (10 + number)
        content = zlib.compress(head + b"<< /Type /Page >> " + b"x" * unpacked, 1)
        objects[stream] = (
            b"<< /Type /ObjStm /N 1 /First %d /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream"
            % (len(head), len(content), content)
        )
        rows[10 + number] = b"\x02" + stream.to_bytes(4, "big") + b"\x00"
    out = bytearray(b"%PDF-1.7\n")
    for number, body in objects.items():
        rows[number] = b"\x01" + len(out).to_bytes(4, "big") + b"\x00"
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(rows[number] for number in sorted(rows))
    start = len(out)
    out += b"9 0 obj\n<< /Type /XRef /Size %d /W [1 4 1] /Root 1 0 R /Length %d >>\n" % (
        len(rows),
        len(table),
    )
    out += b"stream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % (table, start)
    return bytes(out)


@functools.cache
def endless(megabytes: int = 8, kids: int = 20_000) -> bytes:
    """Names thousands of objects that aren't there; a reader that forgives looks through the whole file for each."""
    missing = b" ".join(b"%d 0 R" % (1_000_000 + number) for number in range(kids))
    tree = b"<< /Type /Pages /Kids [%s] /Count 1 >>" % missing
    filler = b"<< /Length %d >>\nstream\n%s\nendstream" % (
        megabytes << 20,
        b" 12345678 obj" * ((megabytes << 20) // 13),
    )
    return assembled({1: CATALOG, 2: tree, 3: filler})
