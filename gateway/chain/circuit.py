"""A dead first choice should cost nothing: a circuit per provider and model, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

OPEN_SECONDS = 15.0
FAILURES_TO_OPEN = 5
FAILURES_WITHIN_SECONDS = 30.0


class Circuit:
    """Opens after five calls in a row failed within 30 seconds; then, every 15 seconds, one call tries again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: list[float] = []
        self._open_until = 0.0

    def lets_through(self) -> bool:
        """Whether a call may go this way; while open, the one that comes after the pause is the probe."""
        now = self._clock()
        if not self._open_until:
            return True
        if now < self._open_until:
            return False
        self._open_until = now + OPEN_SECONDS
        return True

    @property
    def open(self) -> bool:
        """Whether it is open now."""
        return bool(self._open_until)

    def answered(self) -> None:
        """Note that the model answered, in whatever way (a refusal or a 4xx is an answer too): it closes."""
        self._failures.clear()
        self._open_until = 0.0

    def failed(self) -> None:
        """Note a call (not an attempt) that got nothing."""
        now = self._clock()
        self._failures = [at for at in self._failures if now - at < FAILURES_WITHIN_SECONDS]
        self._failures.append(now)
        del self._failures[:-FAILURES_TO_OPEN]
        if len(self._failures) >= FAILURES_TO_OPEN:
            self._open_until = now + OPEN_SECONDS


class Circuits:
    """All circuits of this process, by provider and model."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._circuits: dict[tuple[str, str], Circuit] = {}

    def of(self, provider: str, model: str) -> Circuit:
        """The circuit of one model."""
        circuit = self._circuits.get((provider, model))
        if circuit is None:
            circuit = self._circuits[provider, model] = Circuit(self._clock)
        return circuit

    def open_ones(self) -> list[tuple[str, str]]:
        """Which are open now, for metrics."""
        return [name for name, circuit in self._circuits.items() if circuit.open]
