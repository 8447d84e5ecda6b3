"""The calls that live in this process: their claims and reservations are kept alive, and settled when they end.

A settlement that the gate did not take is tried again until it does, so an answer finished while the gate was away is
kept when it returns.
"""

from __future__ import annotations

import logging
from collections import deque
from datetime import date

import msgspec

from gateway.chain.budget import BudgetJudge
from gateway.domain.errors import StoreAwayError
from gateway.ports import RESERVATION_SECONDS, AdmissionRequest, Gate, Settlement
from gateway.storage.calls import Calls
from gateway.storage.reservations import Reservation

MOST_UNSETTLED = 10_000

log = logging.getLogger(__name__)


class Lease(msgspec.Struct, kw_only=True):
    """One living call's holdings.

    Attributes:
        in_gate: The gate admitted it.
        in_database: Its reservation stands in the database.
        capped: Its project has a cap.

    """

    request: AdmissionRequest
    in_gate: bool
    in_database: bool
    capped: bool


class Leases:
    """All leases of this process."""

    def __init__(self, gate: Gate, calls: Calls, judge: BudgetJudge) -> None:
        self._gate = gate
        self._calls = calls
        self._judge = judge
        self.gate_away = False
        """The gate did not answer when it was last asked: nobody asks it but `renew`, which finds it back."""
        self._living: dict[str, Lease] = {}
        self._unsettled: deque[Settlement] = deque(maxlen=MOST_UNSETTLED)
        self._abandoned: deque[AdmissionRequest] = deque(maxlen=MOST_UNSETTLED)

    def hold(self, lease: Lease) -> None:
        """Keep a lease alive from now on."""
        self._living[lease.request.request_id] = lease

    async def settle(self, *settlements: Settlement) -> None:
        """End leases in the gate, all in one go. Never fails: what the gate does not take now it is given later."""
        for settlement in settlements:
            self._living.pop(settlement.request.request_id, None)
        present = [self._present(settlement) for settlement in settlements]
        try:
            self.require_gate()
            await self._gate.settle(*present)
        except StoreAwayError:
            self._unsettled.extend(present)
            await self.gate_lost()

    async def release(self, lease: Lease) -> None:
        """Undo a lease that spent nothing; a gate that is away frees it by itself when the lease passes."""
        self._living.pop(lease.request.request_id, None)
        try:
            if lease.in_gate:
                self.require_gate()
                await self._gate.release(self._current(lease.request))
            if lease.in_database:
                await self._calls.release_reservations(lease.request.project, [lease.request.request_id])
        except StoreAwayError as error:
            log.warning(
                "a lease could not be released: %s", error, extra={"request": lease.request.request_id}
            )

    def require_gate(self) -> None:
        """Fail at once, without asking, while the gate is known to be away.

        Raises:
            StoreAwayError: It is.

        """
        if self.gate_away:
            raise StoreAwayError("the key-value store does not answer")

    def abandon(self, request: AdmissionRequest) -> None:
        """Note an admission that the gate may or may not have carried out: undone when it answers again."""
        self._abandoned.append(request)

    async def gate_emptied(self) -> None:
        """The gate answers but has lost its data: the database judges caps while the living write theirs back."""
        if await self._judge.gate_lost():
            await self.write_to_database()

    async def gate_lost(self) -> None:
        """The gate did not answer: let the database judge caps, if it can."""
        if not self.gate_away:
            log.warning("the key-value store does not answer")
        self.gate_away = True
        try:
            if await self._judge.gate_lost():
                await self.write_to_database()
        except StoreAwayError as error:
            log.warning("neither the key-value store nor the database answers: %s", error)

    async def renew(self) -> None:
        """Keep every lease alive, and give the gate what it did not take before. Called every two seconds."""
        try:
            while self._unsettled:
                await self._gate.settle(self._unsettled[0])
                self._unsettled.popleft()
            while self._abandoned:
                if self._abandoned[0].request_id not in self._living:
                    await self._gate.release(self._abandoned[0])
                self._abandoned.popleft()
            living = [self._current(lease.request) for lease in self._living.values() if lease.in_gate]
            if living:
                await self._gate.renew(living)
            elif self.gate_away:
                await self._gate.ping()
        except StoreAwayError:
            await self.gate_lost()
        else:
            if self.gate_away:
                log.warning("the key-value store is back")
            self.gate_away = False
        if self._judge.in_database:
            await self.write_to_database()

    async def write_to_database(self) -> None:
        """During the database's reign: stand there with every living reservation of a capped project."""
        capped = [
            lease for lease in self._living.values() if lease.capped and lease.request.terms is not None
        ]
        if not capped:
            return
        try:
            await self._calls.renew_reservations(
                [reservation_of(lease.request) for lease in capped], lease_seconds=RESERVATION_SECONDS
            )
        except StoreAwayError as error:
            log.warning("living reservations could not be written: %s", error)
            return
        for lease in capped:
            lease.in_database = True

    @property
    def count(self) -> int:
        """How many calls live."""
        return len(self._living)

    def _present(self, settlement: Settlement) -> Settlement:
        request = self._current(settlement.request)
        if request is settlement.request:
            return settlement
        return msgspec.structs.replace(settlement, request=request)

    def _current(self, request: AdmissionRequest) -> AdmissionRequest:
        """The request in the present epoch: what the gate holds of an older one counts for nothing."""
        if request.terms is None or request.terms.epoch == self._judge.epoch:
            return request
        return msgspec.structs.replace(
            request, terms=msgspec.structs.replace(request.terms, epoch=self._judge.epoch)
        )


def reservation_of(request: AdmissionRequest) -> Reservation:
    """The row of a reservation in the database."""
    terms = request.terms
    if terms is None:
        raise ValueError("a request without terms reserves nothing")
    return Reservation(
        project=request.project,
        day=date.fromisoformat(terms.day),
        request_id=request.request_id,
        amount=terms.worst_case,
        record=terms.record,
    )
