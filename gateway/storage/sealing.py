"""Secrets at rest: what Pepper must be able to read again (a provider's key, a signing secret) is kept sealed.

AES-256-GCM under a key derived from `PEPPER_SECRET`; the purpose is bound in, so that a value copied from one place
of the database to another does not open.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12
_INFO = b"pepper sealed values\0"
_VERSION = b"\x01"


class SealBrokenError(Exception):
    """A sealed value does not open: it was sealed under another secret or for another purpose, or is damaged."""


class Seal:
    """Seals and opens values under one `PEPPER_SECRET`."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(HKDF(algorithm=SHA256(), length=32, salt=None, info=_INFO).derive(secret))

    def close(self, purpose: str, value: str) -> bytes:
        """Seal a text; `purpose` names what it is for and must be given again to open it."""
        nonce = os.urandom(NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, value.encode(), purpose.encode())

    def open(self, purpose: str, sealed: bytes) -> str:
        """Open what `close` gave.

        Raises:
            SealBrokenError: It does not open.

        """
        nonce, text = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        if sealed[:1] != _VERSION or len(nonce) != NONCE_BYTES:
            raise SealBrokenError("a sealed value is damaged")
        try:
            return self._cipher.decrypt(nonce, text, purpose.encode()).decode()
        except InvalidTag:
            raise SealBrokenError("a sealed value does not open under this secret") from None
