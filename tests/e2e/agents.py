"""Somebody's agent in front of Dilem: a session and the operations, every reply held to the contract."""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
from jsonschema import Draft202012Validator

from gateway.dilem.contract import DecisionResponse, Error, Feedback, FeedbackAck, Session, Usage
from gateway.dilem.errors import code_named
from gateway.dilem.operations import API
from gateway.dilem.schemas import schema_of
from tests.services import LOOPBACK

JSON = {"content-type": "application/json"}
RESULT = "Treno o auto? [[prova:risultato]]"
QUESTION = "Treno o auto? [[prova:chiarimento]]"
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "vary": "Origin, Authorization"}
_SCHEMAS = {
    kind: Draft202012Validator(schema_of(kind))
    for kind in (Session, Usage, DecisionResponse, Feedback, FeedbackAck, Error)
}
_numbers = itertools.count(1)


def body(response: httpx.Response, kind: Any) -> dict[str, Any]:
    """A success of this kind."""
    assert response.status_code == 200, response.text
    _check(response)
    told: dict[str, Any] = response.json()
    _SCHEMAS[kind].validate(told)
    return told


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and code of an error of the table."""
    _check(response)
    told = response.json()
    _SCHEMAS[Error].validate(told)
    row = code_named(told["code"])
    assert (response.status_code, told["retryable"]) == (row.status, row.retryable)
    assert ("resets_at" in told) == row.renews
    return response.status_code, told["code"]


def _check(response: httpx.Response) -> None:
    assert response.headers["content-type"] == "application/json"
    assert {name: response.headers[name] for name in _HEADERS} == _HEADERS
    assert re.fullmatch(r"req_[0-9a-f]{27}", response.headers["x-request-id"])
    assert "set-cookie" not in response.headers
    assert "www-authenticate" not in response.headers
    assert not any(name.startswith("access-control-") for name in response.headers)


def fresh_case() -> str:
    return f"caso-{next(_numbers)}"


@dataclass
class Agent:
    """One identity."""

    client: httpx.AsyncClient
    token: str

    @classmethod
    async def started(cls, client: httpx.AsyncClient, **headers: str) -> Agent:
        response = await client.post(f"{API}/session", headers=headers)
        return cls(client, body(response, Session)["session"])

    def headers(self, case_id: str | None = None, **more: str) -> dict[str, str]:
        found = {"authorization": f"Bearer {self.token}"} | more
        return found if case_id is None else found | {"x-dilem-case-id": case_id}

    async def decide(self, case_id: str, text: str = RESULT, **fields: Any) -> httpx.Response:
        return await self.client.post(
            f"{API}/decide", json={"text": text, "language": "it"} | fields, headers=self.headers(case_id)
        )

    async def decided(self, case_id: str, text: str = RESULT, **fields: Any) -> dict[str, Any]:
        return body(await self.decide(case_id, text, **fields), DecisionResponse)

    async def usage(self, case_id: str | None = None) -> dict[str, Any]:
        return body(await self.client.get(f"{API}/usage", headers=self.headers(case_id)), Usage)

    async def vote(self, result_id: str) -> httpx.Response:
        return await self.client.get(f"{API}/feedback/{result_id}", headers=self.headers())


@dataclass
class Raw:
    """A reply read from the socket."""

    status: int
    headers: dict[str, str]
    body: bytes
    first_byte: float
    """Seconds from the end of the request's headers."""


@contextmanager
def connection(port: int) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, port), timeout=30) as opened:
        yield opened


def exchange(
    port: int,
    head: str,
    sent: bytes = b"",
    *,
    meanwhile: Callable[[socket.socket], None] | None = None,
) -> Raw:
    """Send a head (lines without their ends) and what follows, byte by byte as it is; read the reply to its end."""
    with connection(port) as opened:
        opened.sendall(head.strip().replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n")
        began = time.monotonic()
        if sent:
            opened.sendall(sent)
        if meanwhile is not None:
            meanwhile(opened)
        data = opened.recv(65_536)
        first = time.monotonic() - began
        while b"\r\n\r\n" not in data:
            data += opened.recv(65_536)
        top, _, rest = data.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        while len(rest) < int(headers.get("content-length", 0)):
            more = opened.recv(65_536)
            assert more, rest
            rest += more
    return Raw(int(lines[0].split()[1]), headers, rest, first)


def code_of(raw: Raw) -> tuple[int, str]:
    error = msgspec.json.decode(raw.body, type=Error)
    return raw.status, error.code
