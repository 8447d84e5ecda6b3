"""Addresses that the provider will fetch: checked by their letters alone, never asked.

The promise of this module: nothing here opens a connection or resolves a name.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import PurePosixPath
from urllib.parse import SplitResult, urlsplit

from gateway.domain.limits import MAX_ADDRESS_CHARACTERS

EXTENSIONS = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
"""Where the address of a photo ends, and the type it then is."""

_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_ALLOWED = re.compile(r"[!-~]*")
_NEVER = frozenset('\\"<>')
_HOST_CHARACTERS = 253


def problem_of(url: str) -> str | None:
    """Say in Italian what is wrong with an address; None: nothing."""
    if not url:
        return "ha un indirizzo vuoto"
    if len(url) > MAX_ADDRESS_CHARACTERS:
        return f"ha un indirizzo di {len(url)} caratteri: il massimo è {MAX_ADDRESS_CHARACTERS}"
    if url[:5].lower() == "data:":
        return "ha il contenuto nel campo 'url': va nel campo 'dati'"
    if not _ALLOWED.fullmatch(url) or not _NEVER.isdisjoint(url):
        return "ha un indirizzo con caratteri non ammessi: spazi, accenti e simili vanno codificati con %"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "ha un indirizzo non valido"
    if parts.scheme != "https":
        return "ha un indirizzo che non comincia per https://"
    if "@" in parts.netloc:
        return "ha un indirizzo con nome utente o password, che non si accettano"
    if port == 0 or parts.netloc.endswith(":") or not _is_host(parts):
        return "ha un indirizzo non valido"
    return None


def type_of(url: str, said: str | None) -> str | None:
    """Give the media type of a photo by its address, or None for what counts as a PDF.

    The extension of the path decides; where it is none of a photo's nor `.pdf`, an image type that the caller says
    is taken, even one that is not accepted (so that it can be refused by name).
    """
    extension = PurePosixPath(urlsplit(url).path).suffix.lower()
    if extension in EXTENSIONS:
        return EXTENSIONS[extension]
    if extension == ".pdf":
        return None
    kind = (said or "").split(";")[0].strip().lower()
    return _ALIASES.get(kind, kind) if kind.startswith("image/") else None


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if "[" in parts.netloc or host.replace(".", "").isdigit():
        return _is_ip(host)
    labels = host.removesuffix(".").split(".")
    return len(host) <= _HOST_CHARACTERS and all(_LABEL.fullmatch(label) for label in labels)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
