"""The sentences that refuse an attachment: each names the file, and says what the caller can do about it."""

from __future__ import annotations

from gateway.domain.errors import DOCUMENT_TOO_LARGE, INVALID_DOCUMENT, INVALID_REQUEST, Failure
from gateway.domain.limits import BYTES_PER_MB

SHOWN_NAME_CHARACTERS = 100


def unreadable(name: str, what: str) -> Failure:
    """Give the refusal of a file that isn't what it should be; `what` goes on after the file's name."""
    return Failure(INVALID_DOCUMENT, f"L'allegato '{shown(name)}' {what}.")


def malformed(number: int, what: str) -> Failure:
    """Give the refusal of an entry that can't even be named; entries count from 0, as in JSON paths."""
    return Failure(INVALID_REQUEST, f"Il campo 'documenti[{number}]' {what}.")


def too_heavy(name: str, size: int, most_mb: int) -> Failure:
    """Give the refusal of a file beyond its own limit, in bytes, so that one byte too many can be seen."""
    return Failure(DOCUMENT_TOO_LARGE, f"L'allegato '{shown(name)}' {_weight('pesa', size, most_mb)}")


def too_heavy_together(size: int, most_mb: int) -> Failure:
    """Give the refusal of files that are too much only together."""
    return Failure(DOCUMENT_TOO_LARGE, f"Gli allegati {_weight('pesano insieme', size, most_mb)}")


def too_many_pages(names: list[str], pages: int, most: int) -> Failure:
    """Give the refusal of the counted PDFs of a call."""
    limit = f"con questo modello il massimo è {most} in tutto"
    if len(names) == 1:
        return Failure(DOCUMENT_TOO_LARGE, f"L'allegato '{shown(names[0])}' ha {pages} pagine: {limit}.")
    return Failure(DOCUMENT_TOO_LARGE, f"I PDF allegati hanno insieme {pages} pagine: {limit}.")


def shown(name: str) -> str:
    """Shorten a name for a sentence."""
    return name if len(name) <= SHOWN_NAME_CHARACTERS else f"{name[:SHOWN_NAME_CHARACTERS]}…"


def _weight(verb: str, size: int, most_mb: int) -> str:
    return f"{verb} {_dotted(size)} byte: il massimo è {most_mb} MB ({_dotted(most_mb * BYTES_PER_MB)} byte)."


def _dotted(number: int) -> str:
    """Write a number as Italians do."""
    return f"{number:,}".replace(",", ".")
