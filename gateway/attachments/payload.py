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
_SLICE_CHARACTERS = 256 * 1024
_PREFIX = re.compile(r"\s*data:[^,]{0,300};base64,", re.IGNORECASE)
_PREFIX_CHARACTERS = 512
_BLANKS = b" \t\r\n\v\f"
_WRONG = 0
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_STANDARD = bytes(
    byte if byte in _STANDARD + b"=" else {ord("-"): ord("+"), ord("_"): ord("/")}.get(byte, _WRONG)
    for byte in range(256)
)
_VALID_START = re.compile(rb"[A-Za-z0-9+/]*")


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
    characters = b"".join(_slices(written))
    body = characters.rstrip(b"=")
    padding, missing = len(characters) - len(body), -len(body) % 4
    if (
        _WRONG in body or b"=" in body or missing == 3 or padding not in {0, missing}
    ):  # one left over is no byte
        return Payload("", 0, _head(body), valid=False)
    if missing:
        # The last characters may hold bits that belong to no byte: written anew, they are zero.
        whole = len(body) - len(body) % 4
        rest = binascii.a2b_base64(body[whole:] + b"=" * missing)
        body = body[:whole] + binascii.b2a_base64(rest, newline=False)
    text = body.decode("ascii")
    size = len(text) // 4 * 3 - missing
    # Mostly nothing had to be changed: keep one string, not two.
    return Payload(written if text == written else text, size, _head(body), valid=True)


def _slices(written: str) -> list[bytes]:
    prefix = _PREFIX.match(written[:_PREFIX_CHARACTERS])
    start = prefix.end() if prefix else 0
    return [
        written[place : place + _SLICE_CHARACTERS].encode("ascii", "replace").translate(_TO_STANDARD, _BLANKS)
        for place in range(start, len(written), _SLICE_CHARACTERS)
    ]


def _head(body: bytes) -> bytes:
    """Decode the beginning, as far as it is base64."""
    start = _VALID_START.match(body[:_HEAD_CHARACTERS])
    readable = start.group() if start else b""
    spare = len(readable) % 4
    if spare == 1:
        readable = readable[:-1]
    return binascii.a2b_base64(readable + b"=" * (-len(readable) % 4))
