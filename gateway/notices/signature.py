"""How a notice proves where it comes from: `t=UNIX,v1=HEX`, an HMAC-SHA-256 over the time and the body."""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, at: int, body: bytes) -> str:
    """Give the value of `X-Pepper-Firma`.

    Args:
        secret: The project's signing secret, as it was shown.
        at: Seconds since the epoch; the receiver may refuse what is old.
        body: Exactly what is sent.

    """
    digest = hmac.digest(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={digest.hex()}"
