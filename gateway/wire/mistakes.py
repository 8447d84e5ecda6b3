"""What a body that is no JSON probably is: a sentence for the caller who made one of the usual mistakes.

It is asked only after the body has been refused, and promises a sentence for any bytes; what it says is a guess from
how the bytes begin, because the headers of old clients say little.
"""

from __future__ import annotations

import codecs
import re

_USE_JSON = "Pepper vuole un oggetto JSON in UTF-8, con Content-Type: application/json"
_IN_PHP = "in PHP: CURLOPT_POSTFIELDS => json_encode($campi)"

_BEGINNING = 4096
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_GZIP = b"\x1f\x8b"
_FORM = re.compile(rb"\s*[\w.\[\]%+~-]+=")
_FORM_PARTS = re.compile(rb"\s*--[^\r\n]+\r?\ncontent-disposition:", re.IGNORECASE)
_XML = re.compile(rb"\s*<[?!a-z]", re.IGNORECASE)


def what_it_is(body: bytes) -> str:
    """Say in Italian what a body is that could not be read as JSON, and what to send instead."""
    if not body or body.isspace():
        return (
            f"Il corpo della richiesta è vuoto. {_USE_JSON}: "
            "se viene da json_encode() di PHP, controllare che non abbia dato false."
        )
    if body.startswith(codecs.BOM_UTF8):
        return "Il corpo della richiesta comincia con un BOM: va mandato JSON in UTF-8 senza BOM."
    if body.startswith(_GZIP):
        return f"Il corpo della richiesta è compresso: {compressed('gzip')}"
    beginning = body[:_BEGINNING]
    if _FORM_PARTS.match(beginning):
        return f"Il corpo della richiesta è un modulo multipart/form-data. {_USE_JSON} ({_IN_PHP})."
    if _FORM.match(beginning):
        return f"Il corpo della richiesta è un modulo application/x-www-form-urlencoded. {_USE_JSON} ({_IN_PHP})."
    if _XML.match(beginning):
        return f"Il corpo della richiesta è XML o HTML. {_USE_JSON}."
    if body.startswith(_UTF_16) or not _is_utf8(body):
        return (
            "Il corpo della richiesta non è in UTF-8: "
            "i testi in un'altra codifica vanno convertiti (in PHP con mb_convert_encoding)."
        )
    return "Il corpo della richiesta non è JSON valido in UTF-8."


def compressed(coding: str) -> str:
    """Say that a content coding is not taken."""
    return f"Pepper non accetta Content-Encoding: {coding}. Il JSON va mandato non compresso."


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
