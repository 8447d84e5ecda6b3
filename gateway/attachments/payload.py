"""Base64 as callers write it, made into the one form that is passed on.

The promise of this module: what it accepts can be read in one way only, and comes out as standard base64 without
line breaks. Blanks, a `data:...;base64,` in front, the alphabet of URLs and missing padding are accepted; anything
else, a wrong padding included, is not. A large text is worked on in slices, so that a thread that does it lets
the others run.
"""

from __future__ import annotations

import binascii
import re
from typing import NamedTuple

HEAD_BYTES = 3 * 512
"""How much of a file is looked at to recognise it."""

_HEAD_CHARACTERS = HEAD_BYTES // 3 * 4
_SLICE_CHARACTERS = 64 * 1024
_PREFIX = re.compile(r"\s*data:[^,]{0,300};base64,", re.IGNORECASE)
_PREFIX_CHARACTERS = 512
_BLANKS = b" \t\r\n\v\f"
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_WRONG = ord("!")
_TO_STANDARD = bytes(
    byte if byte in _STANDARD + b"=" else {ord("-"): ord("+"), ord("_"): ord("/")}.get(byte, _WRONG)
    for byte in range(256)
)
_STANDARD_START = re.compile(r"[A-Za-z0-9+/]*")


class Payload(NamedTuple):
    """A file as it is passed on.

    Attributes:
        text: Standard base64 without breaks; empty when the caller's isn't base64.
        size: Of the file, in bytes.
        head: Its first bytes, as far as they could be read.
        valid: Whether the caller's text is base64 at all.

    """

    text: str
    size: int
    head: bytes
    valid: bool


def open_payload(written: str) -> Payload:
    """Read a caller's base64, without decoding more of it than its head."""
    prefix = _PREFIX.match(written[:_PREFIX_CHARACTERS])
    text, end = written, _end_of_standard(written)
    if prefix or end is None:
        text = _folded(written, prefix.end() if prefix else 0)
        end = _end_of_standard(text)
    if end is None:
        return Payload("", 0, _head(text), valid=False)
    whole, missing, padding = end - end % 4, -end % 4, len(text) - end
    if missing == 3 or padding not in {0, missing}:  # one character left over is less than a byte
        return Payload("", 0, _head(text), valid=False)
    # The last characters may hold bits that belong to no byte: written anew, they are zero.
    rest = _encoded(_decoded(text[whole:end]))
    if text[whole:] != rest:
        text = text[:whole] + rest
    return Payload(text, len(text) // 4 * 3 - missing, _head(text), valid=True)


def _end_of_standard(text: str) -> int | None:
    """Give where the padding begins, or None if anything else than base64 is in the text.

    Mostly this is all that is done to a large text: nothing of its size is copied.
    """
    end = text.find("=")
    if end == -1:
        end = len(text)
    elif text[end:].strip("="):
        return None
    for place in range(0, end, _SLICE_CHARACTERS):
        piece = text[place : min(place + _SLICE_CHARACTERS, end)].encode("ascii", "replace")
        if piece.translate(None, _STANDARD):
            return None
    return end


def _folded(written: str, start: int) -> str:
    """Leave out blanks and put the standard alphabet in place of the one of URLs; the rest becomes wrong."""
    return "".join(
        written[place : place + _SLICE_CHARACTERS]
        .encode("ascii", "replace")
        .translate(_TO_STANDARD, _BLANKS)
        .decode("ascii")
        for place in range(start, len(written), _SLICE_CHARACTERS)
    )


def _head(text: str) -> bytes:
    """Decode the beginning, as far as it is base64."""
    start = _STANDARD_START.match(text[:_HEAD_CHARACTERS])
    readable = start.group() if start else ""
    return _decoded(readable[:-1] if len(readable) % 4 == 1 else readable)


def _decoded(characters: str) -> bytes:
    return binascii.a2b_base64(characters + "=" * (-len(characters) % 4))


def _encoded(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
