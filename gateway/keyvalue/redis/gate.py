"""`RedisGate`: one round trip to admit, one to settle."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from gateway.domain.errors import StoreAwayError
from gateway.keyvalue.redis import scripts
from gateway.keyvalue.redis.link import ANSWER_SECONDS, open_link
from gateway.keyvalue.redis.scripts import LIVE, Call, keys_of
from gateway.ports import (
    Admitted,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Earlier,
    Gate,
    Interrupted,
    LimitReached,
    Mismatch,
    Orphan,
    TotalUnknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.ports import AdmissionRequest, Claim, Settlement, Terms, Verdict

_ANNOUNCE_SECONDS = 20
"""A process puts a project on the list of those with reservations at most so often."""
_ANNOUNCED_SECONDS = 60
"""Announcements so young keep a project on the list; well over the time between two of them."""
_TOTALS_KEPT_DAYS = 2
"""Totals older than the newest by more are dropped: without running calls they can be read again."""
_GARBAGE_SECONDS = 7_200
"""Cached answers outlive their business expiry by at least so long in real time, as a test's clock may stand still."""
_OWNER_BYTES = 9
_TOKEN_BYTES = 9


class RedisGate(Gate):
    """A gate whose state lies in Redis, shared by all nodes. Nothing is connected before the first use.

    Args:
        url: `PEPPER_REDIS_URL`: `redis://`, `rediss://` or `redis+cluster://`.

    """

    def __init__(self, url: str) -> None:
        self._link = open_link(url)
        self._owner = secrets.token_hex(_OWNER_BYTES)
        self._announced: dict[str, float] = {}
        self._server_ahead: float | None = None
        self._asked = itertools.count()

    @override
    async def earlier(
        self, project: str, claim: Claim, now: float
    ) -> Earlier | Interrupted | Mismatch | None:
        key = keys_of(project).claim(claim.key)
        [reply] = await self._run(Call(scripts.EARLIER, (key,), (claim.fingerprint, repr(now))))
        match reply:
            case [b"kept", answer]:
                return Earlier(answer, cached=False)
            case [b"noted", note]:
                return Interrupted(note)
            case [b"mismatch"]:
                return Mismatch()
        return None

    @override
    async def admit(self, request: AdmissionRequest) -> Verdict:
        if self._server_ahead is None:
            await self.ping()
        announcement = self._announcement([] if request.terms is None else [request.project])
        for _ in range(2):
            # The last word names this question: the total that it may ask for is taken for nobody else's.
            call = _admission(request, self._owner, self._deadline(), f"{self._owner}{next(self._asked)}")
            *_, (word, detail, server_time) = await self._run(*announcement, call)
            self._note_time(server_time)
            if word != b"late":
                return _verdict(word, detail)
            # The server's clock was set; by now it is known again.
        raise StoreAwayError("Redis decided too late")

    @override
    async def supply(self, project: str, day: str, epoch: int, token: str, spent: int) -> bool:
        oldest = date.fromisoformat(day) - timedelta(days=_TOTALS_KEPT_DAYS)
        arguments = (day, str(epoch), token, str(spent), oldest.isoformat())
        [accepted] = await self._run(Call(scripts.SUPPLY, (keys_of(project).budget,), arguments))
        return bool(accepted)

    @override
    async def renew(self, requests: Sequence[AdmissionRequest]) -> None:
        by_project: dict[str, list[AdmissionRequest]] = {}
        for request in requests:
            if request.claim is not None or request.terms is not None:
                by_project.setdefault(request.project, []).append(request)
        if by_project:
            # Announced each time: the list may be among what the store lost.
            reserving = {request.project for request in requests if request.terms is not None}
            self._announced = {
                project: at for project, at in self._announced.items() if project not in reserving
            }
            renewals = (_renewal(project, calls, self._owner) for project, calls in by_project.items())
            await self._run(*self._announcement(reserving), *renewals)

    @override
    async def settle(self, *settlements: Settlement) -> None:
        if settlements:
            await self._run(*map(_settling, settlements))

    @override
    async def release(self, request: AdmissionRequest) -> None:
        keys = keys_of(request.project)
        names = (
            keys.window,
            keys.reserved,
            keys.leases,
            keys.budget,
            keys.finished(request.request_id),
            keys.claim(None if request.claim is None else request.claim.key),
        )
        await self._run(Call(scripts.RELEASE, names, (request.request_id, "1" if request.claim else "")))

    @override
    async def orphans(self, limit: int = 100) -> Sequence[Orphan]:
        [listed] = await self._run(Call(scripts.PROJECTS, (LIVE,), ()))
        waiting = [project.decode() for project in listed]
        found: list[Orphan] = []
        idle: list[str] = []
        while waiting and len(found) < limit:
            # So many projects at once, and so many orphans of each, that the limit holds.
            asked, waiting = waiting[: limit - len(found)], waiting[limit - len(found) :]
            share = (limit - len(found)) // len(asked)
            for project, (reserved, *handed) in zip(
                asked, await self._run(*(self._handing(project, share) for project in asked)), strict=True
            ):
                found.extend(_orphan(project, *terms) for terms in handed)
                if not reserved:
                    idle.append(project)
                elif len(handed) == share:
                    waiting.append(project)
        if idle:
            await self._run(Call(scripts.RETIRE, (LIVE,), (str(_ANNOUNCED_SECONDS), *idle)))
        return found

    @override
    async def generation(self, project: str) -> int:
        [number] = await self._run(Call(scripts.GENERATION, (keys_of(project).generation,), ()))
        return int(number)

    @override
    async def forget_total(self, project: str, day: str) -> None:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        await self._run(Call(scripts.FORGET_TOTAL, (keys_of(project).budget,), (day, token)))

    @override
    async def forget_answers(self, project: str) -> None:
        await self._run(Call(scripts.FORGET_ANSWERS, (keys_of(project).generation,), ()))

    @override
    async def forget_project(self, project: str) -> None:
        await self._link.remove(keys_of(project).prefix)

    @override
    async def ping(self) -> None:
        [server_time] = await self._run(Call(scripts.PING, (LIVE,), ()))
        self._note_time(server_time)

    @override
    async def close(self) -> None:
        await self._link.close()

    async def _run(self, *calls: Call) -> list[Any]:
        try:
            return await self._link.run(calls)
        except (StoreAwayError, asyncio.CancelledError):
            # Not said, or it may come back empty.
            self._announced.clear()
            raise

    def _announcement(self, projects: Iterable[str]) -> list[Call]:
        """What keeps projects with reservations on the list, where it is time to say so again."""
        now = time.monotonic()
        due = [project for project in projects if self._announced.get(project, 0) < now]
        self._announced.update(dict.fromkeys(due, now + _ANNOUNCE_SECONDS))
        return [Call(scripts.ANNOUNCE, (LIVE,), tuple(due))] if due else []

    def _handing(self, project: str, limit: int) -> Call:
        keys = keys_of(project)
        # Not this process's own name: what it has lost it must not renew.
        return Call(scripts.ORPHANS, (keys.reserved, keys.leases), (f"{self._owner}+", str(limit)))

    def _deadline(self) -> str:
        """Server time at which a caller has given up: a command that waited in a stuck server is void."""
        return (
            "" if self._server_ahead is None else repr(time.monotonic() + self._server_ahead + ANSWER_SECONDS)
        )

    def _note_time(self, server_time: bytes) -> None:
        self._server_ahead = float(server_time) - time.monotonic()


def _admission(request: AdmissionRequest, owner: str, deadline: str, token: str) -> Call:
    keys, claim = keys_of(request.project), request.claim
    names = (
        keys.window,
        keys.reserved,
        keys.leases,
        keys.budget,
        keys.generation,
        keys.finished(request.request_id),
        keys.claim(None if claim is None else claim.key),
        keys.answer(request.cache_key),
    )
    arguments = (
        request.request_id,
        owner,
        repr(request.now),
        deadline,
        "" if request.hourly_limit is None else str(request.hourly_limit),
        "" if claim is None else claim.fingerprint,
        "" if request.cache_key is None else "1",
    )
    terms = request.terms
    waited = "1" if claim is not None and claim.waited else ""
    if terms is None:
        return Call(scripts.ADMIT, names, (*arguments, "", "", "", "", "", "", waited, ""))
    cap = "" if terms.cap is None else str(terms.cap)
    reserving = (terms.day, str(terms.epoch), cap, str(terms.worst_case), terms.record)
    ending = (token, waited, "1" if terms.strict else "")
    return Call(scripts.ADMIT, names, (*arguments, *reserving, *ending))


def _verdict(word: bytes, detail: bytes) -> Verdict:
    match word:
        case b"admitted":
            return Admitted(int(detail))
        case b"kept" | b"cached":
            return Earlier(detail, cached=word == b"cached")
        case b"noted":
            return Interrupted(detail)
        case b"busy":
            return Busy()
        case b"mismatch":
            return Mismatch()
        case b"limit":
            return LimitReached(int(detail))
        case b"unknown":
            return TotalUnknown(detail[1:].decode(), traced=detail[:1] == b"1")
        case b"spent":
            return BudgetSpent()
        case b"held":
            return BudgetHeld()
    raise StoreAwayError(f"Redis gave no verdict: {word!r}")


def _renewal(project: str, requests: Sequence[AdmissionRequest], owner: str) -> Call:
    keys = keys_of(project)
    names = [keys.reserved, keys.leases, keys.budget]
    arguments: list[str | bytes] = [owner]
    for request in requests:
        claim = request.claim
        names += (keys.finished(request.request_id), keys.claim(None if claim is None else claim.key))
        arguments += (
            request.request_id,
            "" if claim is None else claim.fingerprint,
            *_written(request.terms),
        )
    return Call(scripts.RENEW, tuple(names), tuple(arguments))


def _written(terms: Terms | None) -> tuple[str, str, str, bytes]:
    if terms is None:
        return "", "", "", b""
    return terms.day, str(terms.epoch), str(terms.worst_case), terms.record


def _settling(settlement: Settlement) -> Call:
    request = settlement.request
    keys, claim, terms = keys_of(request.project), request.claim, request.terms
    names = (
        keys.reserved,
        keys.leases,
        keys.budget,
        keys.generation,
        keys.finished(request.request_id),
        keys.claim(None if claim is None else claim.key),
        keys.answer(request.cache_key),
    )
    caches = settlement.cached is not None and request.cache_key is not None
    arguments = (
        request.request_id,
        "" if terms is None else terms.day,
        str(settlement.cost),
        repr(settlement.now),
        "" if claim is None else claim.fingerprint,
        "a" if settlement.answer is not None else "n" if settlement.note is not None else "",
        settlement.answer or settlement.note or b"",
        "1" if caches else "",
        settlement.cached or b"",
        str(settlement.generation),
        repr(settlement.now + settlement.cache_seconds),
        str(int(settlement.cache_seconds) + _GARBAGE_SECONDS),
    )
    return Call(scripts.SETTLE, names, arguments)


def _orphan(project: str, request_id: bytes, day: bytes, epoch: bytes, record: bytes) -> Orphan:
    return Orphan(project, request_id.decode(), day.decode(), int(epoch), record)
