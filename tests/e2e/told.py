"""Replies of the gateway, read strictly: whatever is not the contract's to the letter fails the test."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

REQUEST_ID = re.compile(r"req_[0-9a-f]{27}")
CONVERSATION = re.compile(r"cnv_[a-z0-9]{16}")
META = ["progetto", "encode", "provider", "modello", "durata_ms", "versione"]
OPTIONAL_META = [
    "troncata",
    "cache",
    "tentativi",
    "ripiego",
    "citazioni",
    "citazioni_spente",
    "fonti",
    "conoscenza",
    "ricerche",
    "documenti_pagine",
    "idempotente",
    "richiesta",
]


def answer(response: httpx.Response) -> dict[str, Any]:
    """The body of a success."""
    assert response.status_code == 200, (response.status_code, response.text)
    assert response.headers["content-type"].startswith("application/json")
    body: dict[str, Any] = response.json()
    check_answer(body)
    assert REQUEST_ID.fullmatch(response.headers["x-request-id"])
    if not (body["meta"].get("idempotente") or body["meta"].get("cache")):
        assert body["meta"]["richiesta"] == response.headers["x-request-id"]
    return body


def check_answer(body: dict[str, Any]) -> None:
    """Whether an answer's body is the contract's, field by field in its order."""
    assert list(body) == ["ok", "risposta", "conversazione", "meta"]
    assert body["ok"] is True
    assert isinstance(body["risposta"], str)
    assert body["conversazione"] is None or CONVERSATION.fullmatch(body["conversazione"])
    names = list(body["meta"])
    assert names[: len(META)] == META
    rest = names[len(META) :]
    assert rest == [name for name in OPTIONAL_META if name in rest]
    assert isinstance(body["meta"]["durata_ms"], int)
    assert REQUEST_ID.fullmatch(body["meta"]["richiesta"])


def error(response: httpx.Response, status: int, code: str) -> str:
    """The text of an error of this status and code, in the contract's one shape."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert list(body) == ["ok", "errore"]
    assert body["ok"] is False
    assert list(body["errore"]) == ["codice", "messaggio"]
    assert body["errore"]["codice"] == code, body
    assert REQUEST_ID.fullmatch(response.headers["x-request-id"])
    if status in {429, 503}:
        assert re.fullmatch(r"[1-9][0-9]*", response.headers["retry-after"])
    message = body["errore"]["messaggio"]
    assert isinstance(message, str)
    assert message
    return message


@dataclass
class Event:
    """One event of a stream, or a comment (`name` is ':')."""

    name: str
    data: Any
    at: float = field(default_factory=time.monotonic)


class Stream:
    """A streamed reply, event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.began = time.monotonic()

    async def events(self) -> AsyncIterator[Event]:
        """Every frame as it comes; a frame must be whole, with one line of JSON data."""
        assert self.response.status_code == 200, (await self.response.aread(), self.response.status_code)
        assert self.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert "no-cache" in self.response.headers["cache-control"]
        assert REQUEST_ID.fullmatch(self.response.headers["x-request-id"])
        left = ""
        async for text in self.response.aiter_text():
            *frames, left = (left + text).split("\n\n")
            for frame in frames:
                yield _event(frame)
        assert not left, f"half a frame at the end: {left!r}"

    async def all(self) -> list[Event]:
        return [event async for event in self.events()]

    async def told(self) -> dict[str, Any]:
        """The `done` event's data, which the pieces must make up."""
        events = [event for event in await self.all() if event.name != ":"]
        *deltas, last = events
        assert last.name == "done", last
        assert all(event.name == "delta" and list(event.data) == ["text"] for event in deltas)
        check_answer(last.data)
        assert "".join(event.data["text"] for event in deltas) == last.data["risposta"]
        assert isinstance(last.data, dict)
        return last.data

    async def failed(self) -> tuple[str, str]:
        """The pieces before, and the code of the `error` event that ends the stream."""
        events = [event for event in await self.all() if event.name != ":"]
        *deltas, last = events
        assert last.name == "error", last
        assert list(last.data) == ["codice", "messaggio"]
        assert all(event.name == "delta" for event in deltas)
        return "".join(event.data["text"] for event in deltas), last.data["codice"]


def _event(frame: str) -> Event:
    if frame.startswith(":"):
        return Event(":", frame[1:].strip())
    first, second = frame.split("\n")
    assert first.startswith("event: ")
    assert second.startswith("data: ")
    return Event(first.removeprefix("event: "), json.loads(second.removeprefix("data: ")))
