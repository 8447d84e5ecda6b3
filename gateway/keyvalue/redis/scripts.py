"""The atomic steps, written in Lua beside this file, and the names of the keys they work on."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "lua"
_COMMON = (_FOLDER / "common.lua").read_text()

LIVE = "pepper:live"
"""Projects that may have reservations: the one key that belongs to no project."""


class Script(NamedTuple):
    """A Lua program, and the digest under which a server that has seen it knows it."""

    body: str
    digest: str


class Call(NamedTuple):
    """One run of a script; all keys lie in one slot."""

    script: Script
    keys: tuple[str, ...]
    arguments: tuple[str | bytes, ...]

    def words(self, *, by_digest: bool) -> tuple[str | bytes, ...]:
        """The command, with the digest or with the whole program."""
        head = ("EVALSHA", self.script.digest) if by_digest else ("EVAL", self.script.body)
        return (*head, str(len(self.keys)), *self.keys, *self.arguments)


def _load(name: str) -> Script:
    body = _COMMON + (_FOLDER / f"{name}.lua").read_text()
    return Script(body, hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest())


ADMIT = _load("admit")
ANNOUNCE = _load("announce")
EARLIER = _load("earlier")
FORGET_ANSWERS = _load("forget_answers")
FORGET_TOTAL = _load("forget_total")
GENERATION = _load("generation")
ORPHANS = _load("orphans")
PING = _load("ping")
PROJECTS = _load("projects")
RELEASE = _load("release")
RENEW = _load("renew")
RETIRE = _load("retire")
SETTLE = _load("settle")
SUPPLY = _load("supply")


class Keys:
    """The keys of one project. Its name is their hash tag, so a cluster keeps them on one node.

    Args:
        project: A name without braces or colons.

    """

    __slots__ = ("budget", "generation", "leases", "nothing", "prefix", "reserved", "window")

    def __init__(self, project: str) -> None:
        self.prefix = f"pepper:{{{project}}}:"
        self.window = f"{self.prefix}window"
        self.reserved = f"{self.prefix}reserved"
        self.leases = f"{self.prefix}leases"
        self.budget = f"{self.prefix}budget"
        self.generation = f"{self.prefix}generation"
        self.nothing = f"{self.prefix}nothing"

    def claim(self, key: str | None) -> str:
        """The key of an Idempotency-Key, which may hold any character; a placeholder without one."""
        return self.nothing if key is None else f"{self.prefix}claim:{_hashed(key)}"

    def answer(self, cache_key: str | None) -> str:
        return self.nothing if cache_key is None else f"{self.prefix}answer:{_hashed(cache_key)}"

    def finished(self, request_id: str) -> str:
        return f"{self.prefix}finished:{request_id}"


@lru_cache(maxsize=1024)
def keys_of(project: str) -> Keys:
    """The keys of a project, made once for the projects that call most."""
    return Keys(project)


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
