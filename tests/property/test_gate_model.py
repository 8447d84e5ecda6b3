"""Any sequence of steps gives the same verdicts as a model that fits on one page."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.ports import (
    AdmissionRequest,
    Admitted,
    BudgetHeld,
    BudgetSpent,
    Busy,
    Claim,
    Earlier,
    LimitReached,
    Mismatch,
    Settlement,
    Terms,
    TotalUnknown,
    Verdict,
)
from tests.contract.test_gate_stores import KINDS, NOW, GateStore, ask, open_store

_HOUR = 3_600
_projects = count(1)


@dataclass
class _Held:
    """A key's holder; `answer` is None while the call runs."""

    request_id: str
    fingerprint: str
    lapsed: bool = False
    kept_at: float = 0
    answer: bytes | None = None


@dataclass
class _Model:
    """One project. Tokens are left out: a total is unknown or it is not."""

    claims: dict[str, _Held] = field(default_factory=dict)
    entries: dict[str, float] = field(default_factory=dict)
    reservations: dict[str, Terms] = field(default_factory=dict)
    lapsed: set[str] = field(default_factory=set)
    handed: set[str] = field(default_factory=set)
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)
    answers: dict[str, tuple[int, float, bytes]] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    generation: int = 0

    def earlier(self, claim: Claim, now: float) -> Earlier | Mismatch | None:
        held = self._holder(claim.key, now)
        if held is None:
            return None
        if held.fingerprint != claim.fingerprint:
            return Mismatch()
        return None if held.answer is None else Earlier(held.answer, cached=False)

    def admit(self, request: AdmissionRequest) -> Verdict | None:
        """The verdict; None for an unknown total."""
        me, now, claim, terms = request.request_id, request.now, request.claim, request.terms
        held = self._holder(claim.key, now) if claim else None
        if claim and held and not (held.request_id == me and held.answer is None):
            return self.earlier(claim, now) or Busy()
        limit = request.hourly_limit
        self.entries = {call: at for call, at in self.entries.items() if at > now - _HOUR}
        if limit is not None and me not in self.entries and len(self.entries) >= limit:
            ages = [*sorted(self.entries.values()), now]
            decisive = ages[len(self.entries) - limit]
            return LimitReached(_HOUR if limit == 0 else max(1, math.ceil(decisive + _HOUR - now)))
        generation, expires, answer = self.answers.get(request.cache_key or "", (-1, 0, b""))
        hit = generation == self.generation and now < expires
        if terms and not hit and me not in self.reservations:
            if terms.cap is not None and (refusal := self._refusal(terms, terms.cap)) != Admitted():
                return refusal
            self.reservations[me] = terms
            self.lapsed.discard(me)
        if limit is not None:
            self.entries.setdefault(me, now)
        if claim:
            self.claims[claim.key] = _Held(me, claim.fingerprint)
        self.finished.discard(me)
        return Earlier(answer, cached=True) if hit else Admitted(self.generation)

    def settle(self, settlement: Settlement) -> None:
        request, claim = settlement.request, settlement.request.claim
        if request.request_id in self.finished:
            return
        self.finished.add(request.request_id)
        reserved = self.reservations.pop(request.request_id, None) or request.terms
        if reserved and reserved.day in self.totals:
            epoch, spent = self.totals[reserved.day]
            self.totals[reserved.day] = epoch, spent + settlement.cost
        if claim:
            held = self._holder(claim.key, settlement.now)
            mine = held is None or (held.request_id == request.request_id and held.answer is None)
            if settlement.answer is None:
                self._drop_claim(request)
            elif mine:
                self.claims[claim.key] = _Held(
                    request.request_id,
                    claim.fingerprint,
                    kept_at=settlement.now,
                    answer=settlement.answer,
                )
        if settlement.cached is not None and request.cache_key and settlement.generation == self.generation:
            expires = settlement.now + settlement.cache_seconds
            self.answers[request.cache_key] = settlement.generation, expires, settlement.cached

    def release(self, request: AdmissionRequest) -> None:
        if request.request_id not in self.finished:
            self.finished.add(request.request_id)
            self.entries.pop(request.request_id, None)
            self.reservations.pop(request.request_id, None)
            self._drop_claim(request)

    def lapse(self) -> None:
        for held in self.claims.values():
            held.lapsed = True
        self.lapsed = set(self.reservations)

    def renew(self, request: AdmissionRequest) -> None:
        me, claim = request.request_id, request.claim
        if me in self.finished:
            return
        if claim:
            held = self.claims.get(claim.key)
            if held is None or (held.answer is None and (held.request_id == me or held.lapsed)):
                self.claims[claim.key] = _Held(me, claim.fingerprint)
        if request.terms and me not in self.reservations:
            self.reservations[me] = request.terms
            self.lapsed.discard(me)
            self.handed.discard(me)
        elif me not in self.handed:
            self.lapsed.discard(me)

    def orphans(self) -> set[str]:
        found = self.lapsed & set(self.reservations)
        self.handed |= found
        self.lapsed = set()
        return found

    def _holder(self, key: str, now: float) -> _Held | None:
        held = self.claims.get(key)
        if held is None or (held.answer is None and held.lapsed):
            return None
        return None if held.answer is not None and now >= held.kept_at + _HOUR else held

    def _drop_claim(self, request: AdmissionRequest) -> None:
        held = self.claims.get(request.claim.key) if request.claim else None
        if request.claim and held and held.answer is None and held.request_id == request.request_id:
            del self.claims[request.claim.key]

    def _refusal(self, terms: Terms, cap: int) -> Verdict | None:
        epoch, spent = self.totals.get(terms.day, (-1, 0))
        if epoch != terms.epoch:
            return None
        if spent >= cap:
            return BudgetSpent()
        worst = [other.worst_case for other in self.reservations.values() if other.day == terms.day]
        judged = worst or terms.strict
        return BudgetHeld() if judged and spent + sum(worst) + terms.worst_case > cap else Admitted()


class _Run:
    """The same steps taken on a gate and on the model."""

    def __init__(self, store: GateStore) -> None:
        self.store = store
        self.gates = [store.make(), store.make()]
        self.project = f"p{next(_projects)}"
        self.model = _Model()
        self.now = NOW
        self.seen: list[AdmissionRequest] = []

    async def take(self, step: tuple[str, int, AdmissionRequest]) -> None:
        word, number, shape = step
        gate, model = self.gates[number % 2], self.model
        past = self.seen[number % len(self.seen)] if self.seen else None
        match word, past:
            case "admit", _:
                await self._admit(ask(self.project, now=self.now, per_hour=shape.hourly_limit), shape, number)
            case "again", AdmissionRequest():
                await self._check_admission(past, number)
            case "settle", AdmissionRequest():
                settlement = Settlement(
                    request=past,
                    cost=number,
                    now=self.now,
                    answer=b"%d" % number if number % 3 else None,
                    cached=b"%d" % number if number % 2 else None,
                    cache_seconds=600,
                    generation=await gate.generation(self.project) - (number % 5 == 0),
                )
                await gate.settle(settlement)
                model.settle(settlement)
            case "release", AdmissionRequest():
                await gate.release(past)
                model.release(past)
            case "renew", AdmissionRequest():
                # Renewing is the admitting process's business.
                await self.gates[self.seen.index(past) % 2].renew([past])
                model.renew(past)
            case "earlier", AdmissionRequest(claim=Claim()):
                assert past.claim is not None
                found = await gate.earlier(self.project, past.claim, self.now)
                assert found == model.earlier(past.claim, self.now)
            case "forget", _:
                await gate.forget_answers(self.project)
                model.generation += 1
            case "lapse", _:
                self.store.lapse(self.project)
                model.lapse()
            case "orphans", _:
                found_ids = {o.request_id for o in await gate.orphans() if o.project == self.project}
                assert found_ids == model.orphans()
            case "wait", _:
                self.now += number * 97.25

    async def _admit(self, bare: AdmissionRequest, shape: AdmissionRequest, number: int) -> None:
        request = AdmissionRequest(
            project=self.project,
            request_id=bare.request_id,
            now=self.now,
            hourly_limit=shape.hourly_limit,
            claim=shape.claim,
            cache_key=shape.cache_key,
            terms=shape.terms,
        )
        self.seen.append(request)
        await self._check_admission(request, number)

    async def _check_admission(self, request: AdmissionRequest, number: int) -> None:
        # By the gate that renews it, so that the model needs no owners.
        gate = self.gates[self.seen.index(request) % 2]
        verdict = await gate.admit(request)
        expected = self.model.admit(request)
        if expected is None:
            assert isinstance(verdict, TotalUnknown)
            assert request.terms is not None
            day, epoch = request.terms.day, request.terms.epoch
            assert await gate.supply(self.project, day, epoch, verdict.token, number)
            self.model.totals[day] = epoch, number
        else:
            assert verdict == expected

    async def close(self) -> None:
        for gate in self.gates:
            await gate.forget_project(self.project)
            await gate.close()


def _maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


_SHAPES = st.builds(
    AdmissionRequest,
    project=st.just(""),
    request_id=st.just(""),
    now=st.just(0.0),
    hourly_limit=_maybe(st.integers(0, 5)),
    claim=_maybe(st.builds(Claim, st.sampled_from(["k1", "k2"]), st.sampled_from(["f1", "f2"]))),
    cache_key=_maybe(st.sampled_from(["c1", "c2"])),
    terms=_maybe(
        st.builds(
            Terms,
            day=st.sampled_from(["2026-11-30", "2026-12-01"]),
            epoch=st.sampled_from([1, 1, 1, 2]),
            cap=_maybe(st.integers(0, 120)),
            worst_case=st.integers(0, 60),
            strict=st.booleans(),
            record=st.binary(max_size=8),
        )
    ),
)
_WORDS = (
    ["admit"] * 6
    + ["settle"] * 3
    + ["again", "release", "renew", "earlier", "forget", "lapse", "orphans", "wait"]
)
_STEPS = st.lists(st.tuples(st.sampled_from(_WORDS), st.integers(0, 40), _SHAPES), min_size=5, max_size=40)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> GateStore:
    return open_store(request)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=_STEPS)
def test_a_gate_does_what_the_model_does(
    store: GateStore, steps: list[tuple[str, int, AdmissionRequest]]
) -> None:
    async def run() -> None:
        both = _Run(store)
        try:
            for step in steps:
                await both.take(step)
        finally:
            await both.close()

    asyncio.run(run())
