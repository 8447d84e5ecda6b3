"""What is measured: each case is one request, asked again and again by so many callers."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from tests.bench.caller import NUMBER, Job
from tests.bench.mock_provider import FAST, PIECES, SLOW, SLOW_SECONDS

SENTENCE = (
    "Il consiglio comunale si è riunito in seduta ordinaria per discutere il bilancio di previsione, le tariffe "
    "dei servizi e il piano triennale delle opere pubbliche. "
)
CONTENT = SENTENCE * 4
STREAM_SECONDS = 1.2
"""A stream takes 50 pauses of 20 ms; two of each caller are enough."""
IN_FLIGHT = 1_000
PDF_BYTES = 10_000_000


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        voice: Whose API the other gateways are asked by for the same; None where they have nothing to compare.
        project: Whose key is shown; None asks an address that needs none.
        fields: Of the request's body, besides the project.
        headers: Besides the key.
        seconds: How long a round is, in place of the usual.
        units: What of each answer is counted (50 pieces of a stream).
        prime: Asked once before, so that there is something to repeat.
        workers: Only a gateway with so many is asked.
        pdf: A file of 10 MB goes with each request.

    """

    name: str
    callers: int
    voice: str | None = None
    project: str | None = "bench"
    fields: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    marker: str = '"ok":true'
    units: int = 1
    seconds: float | None = None
    prime: bool = False
    workers: int = 1
    pdf: bool = False

    def job(self, port: int, keys: Mapping[str, str], seconds: float) -> Job:
        """The job of one round."""
        return Job(
            port=port,
            callers=self.callers,
            seconds=self.seconds or seconds,
            request=self._request(keys),
            marker=self.marker.encode(),
        )

    def _request(self, keys: Mapping[str, str]) -> bytes:
        if self.project is None:
            return b"GET /stato.php HTTP/1.1\r\nhost: bench\r\n\r\n"
        fields = self.fields
        if self.pdf:
            fields = {
                **fields,
                "documenti": [{"nome": "verbale.pdf", "tipo": "application/pdf", "dati": pdf()}],
            }
        return request(self.project, keys[self.project], fields, self.headers)


def request(
    project: str, key: str, fields: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> bytes:
    """The bytes of a call."""
    body = msgspec.json.encode({"progetto": project, **fields})
    return head_and_body("/api.php", {"x-pepper-key": key, **(headers or {})}, body)


def head_and_body(path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of a POST."""
    shown = {"host": "bench", "content-type": "application/json", "content-length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@cache
def pdf() -> str:
    """A PDF of one page and 10 MB, as base64."""
    noise = random.Random(7).randbytes(PDF_BYTES - 600)
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R>>",
        b"<</Length %d>>\nstream\n%b\nendstream" % (len(noise), noise),
    ]
    written, places = bytearray(b"%PDF-1.4\n"), []
    for number, part in enumerate(parts, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, part)
    table = len(written)
    written += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"trailer\n<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % table
    return base64.b64encode(written).decode()


_FREE = {"encode": "libero", "contenuto": CONTENT}
_STREAM = {**_FREE, "stream": True}
_NUMBER = NUMBER.decode()

CASES = (
    *(
        Case(name="whole call, Claude", callers=callers, voice="claude", fields=_FREE)
        for callers in (1, 16, 64)
    ),
    *(
        Case(name="whole call, OpenAI", callers=callers, voice="openai", project="bench-openai", fields=_FREE)
        for callers in (16, 64)
    ),
    Case(
        name=f"piece of a stream of {PIECES}, 20 ms between them",
        callers=64,
        voice="openai",
        project="bench-openai",
        fields=_STREAM,
        marker="event: done",
        units=PIECES,
        seconds=STREAM_SECONDS,
    ),
    Case(
        name=f"piece of a stream of {PIECES}, all at once",
        callers=64,
        voice="openai",
        project="bench-openai",
        fields={**_STREAM, "contenuto": f"{FAST} {CONTENT}"},
        marker="event: done",
        units=PIECES,
    ),
    Case(
        name=f"piece of a stream of {PIECES}, Claude",
        callers=64,
        fields=_STREAM,
        marker="event: done",
        units=PIECES,
        seconds=STREAM_SECONDS,
    ),
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
        name="question to 10,000 passages",
        callers=16,
        project="bench-knowledge",
        fields={"encode": "libero", "contenuto": f"{_NUMBER} Che cosa dice il regolamento delle tariffe?"},
        marker='"fonti":[',
    ),
    Case(
        name="a PDF of 10 MB",
        callers=4,
        project="bench-files",
        fields=_FREE,
        marker='"documenti_pagine":1',
        pdf=True,
    ),
    Case(
        name=f"provider that takes {SLOW_SECONDS:.0f} s",
        callers=IN_FLIGHT,
        fields={**_FREE, "contenuto": f"{SLOW} {CONTENT}"},
        seconds=3 * SLOW_SECONDS,
    ),
    Case(name="whole call, two workers", callers=64, fields=_FREE, workers=2),
    Case(name="GET /stato.php", callers=64, project=None),
)
