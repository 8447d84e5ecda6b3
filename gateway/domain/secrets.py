"""Secrets that are handed out: how they are made, and the only form in which project keys are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets

KEY_PREFIX = "pk_"
KEY_BYTES = 32
SIGNING_PREFIX = "avs_"
_PURPOSE = b"pepper project key\0"
_FINGERPRINT = b"pepper secret fingerprint\0"


def new_key() -> str:
    """Make a project key: `pk_` and 43 characters of 32 random bytes."""
    return KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def new_signing_secret() -> str:
    """Make what a project's notices are signed with: `avs_` and 43 characters of 32 random bytes."""
    return SIGNING_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def key_digest(secret: bytes, key: str) -> bytes:
    """Give the 32 bytes a key is known by in the database (HMAC-SHA-256 under `PEPPER_SECRET`)."""
    return hmac.digest(secret, _PURPOSE + key.encode("utf-8", "surrogatepass"), hashlib.sha256)


def secret_fingerprint(secret: bytes) -> str:
    """Give what the database remembers of the secret, so that a node started with another one notices."""
    return hmac.digest(secret, _FINGERPRINT, hashlib.sha256).hex()[:32]
