"""A provider that costs next to nothing: prebuilt replies of both APIs over bare asyncio, in a process of its own.

What a request's text says decides the reply: `BAD` a status 400, `SILENT` a stream that stops after its first piece
and stays open, `SLOW` an answer after `SLOW_SECONDS`; a body with `"stream":true` is streamed, `PIECES` pieces with
`PAUSE_SECONDS` between them, or with `FAST` all at once. Texts to be embedded get vectors that are somewhat alike.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import sys
from functools import cache
from typing import Any, cast

import numpy as np
from typing_extensions import override

from tests.bench.loops import run

PIECES = 50
PAUSE_SECONDS = 0.02
BAD = "[[bench:bad]]"
SILENT = "[[bench:silent]]"
FAST = "[[bench:fast]]"
SLOW = "[[bench:slow]]"
SLOW_SECONDS = 2.0
DIMENSIONS = 1_536
VECTORS = 256

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TEXT = (
    "La delibera approva il bilancio di previsione, conferma le tariffe dell'anno passato e rinvia a una seduta "
    "successiva il regolamento degli impianti sportivi. Il sindaco ricorda che i lavori della scuola media "
    "cominciano a giugno e che il servizio di trasporto resta invariato. Due consiglieri chiedono che il verbale "
    "riporti per intero il loro intervento sul piano delle opere pubbliche. La seduta si chiude alle 22.40."
)
_PIECE = "parole che vengono "


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _whole(body: bytes, status: str = "200 OK") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\n".encode() + _data(value)


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _message(text: str | None, stop: str | None, output_tokens: int) -> dict[str, Any]:
    return {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [] if text is None else [{"type": "text", "text": text}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 412,
            "output_tokens": output_tokens,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    }


def _completion_chunk(delta: dict[str, str], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5.5",
        "choices": [choice],
    }


_OPENAI_USAGE = {"prompt_tokens": 412, "completion_tokens": 131, "total_tokens": 543}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_REFUSED = _whole(
    _json({"type": "error", "error": {"type": "invalid_request_error", "message": "bench"}}),
    "400 Bad Request",
)


_NOWHERE = _whole(b"{}", "404 Not Found")
_EMBEDDINGS = b"/v1/embeddings"


class Voice:
    """One API's replies: whole, and a stream's beginning, piece and end."""

    def __init__(self, whole: bytes, begin: bytes, piece: bytes, end: bytes) -> None:
        self.whole = _whole(whole)
        self.begin = _STREAM_HEAD + _chunk(begin)
        self.piece = _chunk(piece)
        self.end = _chunk(end) + b"0\r\n\r\n"


VOICES = {
    b"/v1/messages": Voice(
        whole=_json(_message(_TEXT, "end_turn", 131)),
        begin=_event({"type": "message_start", "message": _message(None, None, 1)})
        + _event(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ),
        piece=_event(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _PIECE}}
        ),
        end=_event({"type": "content_block_stop", "index": 0})
        + _event(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 150},
            }
        )
        + _event({"type": "message_stop"}),
    ),
    b"/v1/chat/completions": Voice(
        whole=_json(
            {
                "id": "chatcmpl-bench",
                "object": "chat.completion",
                "created": 1,
                "model": "gpt-5.5",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": _TEXT, "refusal": None},
                        "finish_reason": "stop",
                    }
                ],
                "usage": _OPENAI_USAGE,
            }
        ),
        begin=_data(_completion_chunk({"role": "assistant", "content": ""}, None)),
        piece=_data(_completion_chunk({"content": _PIECE}, None)),
        end=_data(_completion_chunk({}, "stop"))
        + _data({**_completion_chunk({}, None), "choices": [], "usage": _OPENAI_USAGE})
        + b"data: [DONE]\n\n",
    ),
}


@cache
def _vectors() -> list[str]:
    numbers = np.random.default_rng(7)
    common = numbers.standard_normal(DIMENSIONS)
    rows = (common + numbers.standard_normal((VECTORS, DIMENSIONS))).astype("<f4")
    return [base64.b64encode(row.tobytes()).decode() for row in rows]


def _embedded(body: bytes) -> bytes:
    texts = json.loads(body)["input"]
    pool = _vectors()
    data = [
        {"object": "embedding", "index": index, "embedding": pool[hash(text) % VECTORS]}
        for index, text in enumerate(texts)
    ]
    return _whole(_json({"object": "list", "data": data, "usage": {"prompt_tokens": 9, "total_tokens": 9}}))


class Connection(asyncio.Protocol):
    """One kept connection; requests follow each other on it."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._expected = 0
        """Bytes of the request that has begun, once its head is there."""
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    @override
    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) < self._expected:
            return
        while (head := self._unread.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._unread, 0, head)
            self._expected = head + 4 + (int(length[1]) if length else 0)
            if len(self._unread) < self._expected:
                return
            request = bytes(self._unread[: self._expected])
            del self._unread[: self._expected]
            self._expected = 0
            self._answer(request.split(b" ", 2)[1], request[head + 4 :])

    def _answer(self, path: bytes, body: bytes) -> None:
        voice = VOICES.get(path)
        if voice is None:
            self._write(_embedded(body) if path == _EMBEDDINGS else _NOWHERE)
        elif BAD.encode() in body:
            self._write(_REFUSED)
        elif SLOW.encode() in body:
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._write, voice.whole)
        elif b'"stream":true' not in body.replace(b'"stream": true', b'"stream":true'):
            self._write(voice.whole)
        elif FAST.encode() in body:
            self._write(voice.begin + voice.piece * PIECES + voice.end)
        else:
            self._write(voice.begin)
            self._tell(voice, 1 if SILENT.encode() in body else PIECES, silent=SILENT.encode() in body)

    def _tell(self, voice: Voice, left: int, *, silent: bool) -> None:
        if self._transport is None:
            return
        self._write(voice.piece)
        if left > 1:
            asyncio.get_running_loop().call_later(
                PAUSE_SECONDS, lambda: self._tell(voice, left - 1, silent=silent)
            )
        elif not silent:
            self._write(voice.end)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run(serve(int(sys.argv[1])))
