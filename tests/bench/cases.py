"""What is measured: each case is one request, asked again and again by so many callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.bench.caller import NUMBER, Job
from tests.bench.mock_provider import PIECES

SENTENCE = (
    "Il consiglio comunale si è riunito in seduta ordinaria per discutere il bilancio di previsione, le tariffe "
    "dei servizi e il piano triennale delle opere pubbliche. "
)
CONTENT = SENTENCE * 4
STREAM_SECONDS = 1.2
"""A stream takes 50 pauses of 20 ms; two of each caller are enough."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        project: Whose key is shown; None asks an address that needs none.
        fields: Of the request's body, besides the project.
        headers: Besides the key.
        units: What of each answer is counted (50 pieces of a stream).
        prime: Asked once before, so that there is something to repeat.

    """

    name: str
    callers: int
    project: str | None = "bench"
    fields: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    marker: str = '"ok":true'
    units: int = 1
    seconds: float | None = None
    prime: bool = False

    def job(self, port: int, keys: Mapping[str, str], seconds: float) -> Job:
        """The job of one round."""
        return Job(
            port=port,
            callers=self.callers,
            seconds=min(seconds, self.seconds or seconds),
            request=self._request(keys),
            marker=self.marker.encode(),
        )

    def _request(self, keys: Mapping[str, str]) -> bytes:
        if self.project is None:
            return b"GET /stato.php HTTP/1.1\r\nhost: bench\r\n\r\n"
        return request(self.project, keys[self.project], self.fields, self.headers)


def request(
    project: str, key: str, fields: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> bytes:
    """The bytes of a call."""
    body = msgspec.json.encode({"progetto": project, **fields})
    shown = {
        "host": "bench",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-pepper-key": key,
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    return f"POST /api.php HTTP/1.1\r\n{head}\r\n".encode() + body


_FREE = {"encode": "libero", "contenuto": CONTENT}
_NUMBER = NUMBER.decode()

CASES = (
    *(Case(name="whole call, Claude", callers=callers, fields=_FREE) for callers in (1, 16, 64)),
    Case(name="whole call, OpenAI", callers=64, project="bench-openai", fields=_FREE),
    Case(name="whole call, sandbox", callers=64, project="bench-prova", fields=_FREE),
    Case(
        name="call into the cache",
        callers=64,
        fields={"encode": "riassumi", "contenuto": f"{_NUMBER} {CONTENT}"},
    ),
    Case(
        name="answer from the cache",
        callers=64,
        fields={"encode": "riassumi", "contenuto": f"Sempre lo stesso testo. {CONTENT}"},
        marker='"cache":true',
        prime=True,
    ),
    Case(
        name="new Idempotency-Key",
        callers=64,
        fields=_FREE,
        headers={"idempotency-key": f"bench-{_NUMBER}"},
    ),
    Case(
        name="repeated Idempotency-Key",
        callers=64,
        fields=_FREE,
        headers={"idempotency-key": "bench-always-the-same"},
        marker='"idempotente":true',
        prime=True,
    ),
    Case(
        name=f"piece of a stream of {PIECES}",
        callers=64,
        fields={**_FREE, "stream": True},
        marker="event: done",
        units=PIECES,
        seconds=STREAM_SECONDS,
    ),
    Case(name="GET /stato.php", callers=64, project=None),
)
