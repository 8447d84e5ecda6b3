"""Passwords: argon2id hashes, made and checked off the event loop, a few at a time."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION

AT_ONCE = 2
"""A hash takes tens of megabytes and all of a core: a crowd at the login must not take the machine."""

_hasher = PasswordHasher()
_turns = asyncio.Semaphore(AT_ONCE)
_NOBODYS = (
    f"$argon2id$v={ARGON2_VERSION}$m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}"
    f"${'A' * 22}${'A' * 43}"
)
"""The form of a hash: as costly to check as any, and no password is known to have it."""


async def hash_password(password: str) -> str:
    """Give the hash that is kept of a password."""
    async with _turns:
        return await asyncio.to_thread(_hasher.hash, password)


async def password_fits(kept: str | None, password: str) -> bool:
    """Whether a password is the one of a kept hash. Without one it takes as long and is False."""
    async with _turns:
        fits = await asyncio.to_thread(_verify, kept or _NOBODYS, password)
    return fits and kept is not None


def _verify(kept: str, password: str) -> bool:
    try:
        return _hasher.verify(kept, password)
    except (VerificationError, InvalidHashError):
        return False
