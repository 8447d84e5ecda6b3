"""Deferred work of `prova`: every answer is made when the work is handed in, and waits in a file until it is due.

A file outlives restarts and is there for every process of the machine; nobody else is needed.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.batches import Ended, Gone, ItemFailure, ItemOutcome, ItemTrouble, Poll, Running
from gateway.domain.sandbox import triggers
from gateway.ports import ProviderError, Trouble
from gateway.providers.outcomes import folded

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from pathlib import Path

    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.completion import Shape
    from gateway.domain.events import ProviderEvents
    from gateway.domain.sandbox import Triggers

EXPIRES = "scade"
FAILS = "fallisce"
BROKEN = "errore_interno"
KEPT_SECONDS = 31 * 86_400
"""A day longer than anybody may collect."""
_NUMBER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"prova_([A-Za-z0-9_-]{1,64})_([0-9]{1,12})")


class _Waiting(msgspec.Struct, frozen=True):
    """What a file holds."""

    id: str
    ready_at: float
    outcomes: tuple[ItemOutcome, ...]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Waiting).decode


class SandboxBatches(ABC):
    """The part of `Sandbox` that defers.

    Args:
        folder: Where the files are; None takes no deferred work.

    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def submit(self, number: str, calls: Sequence[ModelCall], target: Target) -> str:  # noqa: ARG002 - every model is alike here
        """Hand a batch in.

        Raises:
            ProviderError: A text asks for it, or there is nowhere to keep it.

        """
        wanted = [_at_once(triggers(call.turns[-1].text)) for call in calls]
        for call, words in zip(calls, wanted, strict=True):
            self._fail_if_wanted(call, words)
        outcomes = [await self._outcome(call, words) for call, words in zip(calls, wanted, strict=True)]
        now = time.time()
        due = now + max((words.deferral for words in wanted), default=0.0)
        waiting = _Waiting(f"prova_{number}_{int(now)}", due, tuple(outcomes))
        failure = await asyncio.to_thread(self._keep, number, waiting)
        if failure:
            raise ProviderError(Trouble.UNREACHABLE, failure, sent=False)
        return waiting.id

    async def find(self, number: str, sent_at: datetime, total: int, held: Collection[str]) -> str | None:  # noqa: ARG002 - the number is enough
        """Look for the batch of that number."""
        waiting = await asyncio.to_thread(self._read, number)
        return None if waiting is None or waiting.id in held else waiting.id

    async def poll(
        self,
        provider_id: str,
        number: str,  # noqa: ARG002 - the id tells it
        total: int,  # noqa: ARG002 - the file tells it
        *,
        shape: Shape | None,  # noqa: ARG002 - the answers have it already
        documents: Sequence[str],  # noqa: ARG002 - likewise
    ) -> Poll:
        """Ask how far a batch is.

        Raises:
            ProviderError: It is not on this machine, though it may be on another.

        """
        named = _ID.fullmatch(provider_id)
        if named is None:
            return Gone()
        waiting = await asyncio.to_thread(self._read, named[1])
        now = time.time()
        if waiting is None or waiting.id != provider_id:
            if now - int(named[2]) < KEPT_SECONDS:
                raise ProviderError(Trouble.UNREACHABLE, "deferred work that another machine may hold")
            return Gone()
        return Running() if now < waiting.ready_at else Ended(dict(enumerate(waiting.outcomes)))

    @abstractmethod
    def _told(self, call: ModelCall, wanted: Triggers) -> ProviderEvents:
        """Answer one text."""

    @abstractmethod
    def _fail_if_wanted(self, call: ModelCall, wanted: Triggers) -> None:
        """Raise what a text asks for."""

    async def _outcome(self, call: ModelCall, wanted: Triggers) -> ItemOutcome:
        if EXPIRES in wanted.codes:
            return ItemFailure(ItemTrouble.EXPIRED)
        if FAILS in wanted.codes:
            return ItemFailure(ItemTrouble.ERRORED)
        whole = msgspec.structs.replace(call, watched=False)
        try:
            async with aclosing(self._told(whole, wanted)) as events:
                told = [event async for event in events]
        except ProviderError:
            return ItemFailure(ItemTrouble.ERRORED)
        return folded(told) or ItemFailure(ItemTrouble.ERRORED)

    # Files; in a thread

    def _keep(self, number: str, waiting: _Waiting) -> str | None:
        """Write a file, whole or not at all; what kept it from being written, if anything did."""
        if self._folder is None:
            return "there is no folder for deferred work"
        if not _NUMBER.fullmatch(number):
            return "a number that names no file"
        path = _path(self._folder, number)
        temporary = path.with_suffix(f".{secrets.token_hex(4)}.tmp")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(self._folder)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_encode(waiting))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            return f"deferred work can't be kept: {error.strerror}"
        return None

    def _read(self, number: str) -> _Waiting | None:
        if self._folder is None or not _NUMBER.fullmatch(number):
            return None
        try:
            return _decode(_path(self._folder, number).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None


def _path(folder: Path, number: str) -> Path:
    return folder / f"{number}.json"


def _sweep(folder: Path) -> None:
    """Remove what nobody may collect any more."""
    oldest = time.time() - KEPT_SECONDS
    for path in folder.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def _at_once(wanted: Triggers) -> Triggers:
    """Nobody waits for deferred work, and nobody tries it again: the words for that do nothing, nor does a fault."""
    codes = tuple(code for code in wanted.codes if code != BROKEN)
    return msgspec.structs.replace(wanted, codes=codes, silence=0.0, failing_attempts=0)
