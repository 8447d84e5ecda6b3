"""A server that says exactly the bytes it is told to, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.services import LOOPBACK

STOP_SECONDS = 10.0
RESET = object()
"""As the last step of a reply: the connection is reset and not closed."""

Reply = Sequence[Any]
"""Steps: bytes to say, seconds to wait, RESET."""


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: Any
    at: float = field(default_factory=time.monotonic)

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, values
        return values[0] if values else None

    @property
    def key(self) -> str | None:
        return self.header("idempotency-key")


class Teller:
    """One reply of the script for each connection, and one connection for each reply."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._script: list[Reply] = []
        self._stop = threading.Event()
        self._listener = socket.create_server((LOOPBACK, 0))
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._listener.getsockname()[1]}"

    def script(self, *replies: Reply) -> None:
        """What to say from now on; what was asked before is forgotten."""
        self.seen, self._script = [], list(replies)

    def finished(self) -> None:
        """Every reply of the script has been asked for, and nothing else."""
        assert self._script == []

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        socket.create_connection(self._listener.getsockname()).close()  # wakes who accepts
        for thread in self._threads:
            thread.join(STOP_SECONDS)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._stop.is_set():
                connection.close()
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(STOP_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._seen(connection)
                reply = self._script.pop(0) if self._script else [say(500, {"unexpected": True})]
                for step in reply:
                    if step is RESET:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    elif isinstance(step, bytes):
                        connection.sendall(step)
                    elif self._stop.wait(step):
                        return
            except (OSError, ValueError):
                return  # the client has left, or came only to try the door

    def _seen(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            method, path, _ = lines.readline().decode().split(" ")
            headers = []
            while line := lines.readline().decode().strip():
                name, _, value = line.partition(":")
                headers.append((name.lower(), value.strip()))
            body = lines.read(int(dict(headers).get("content-length", "0")))
            self.seen.append(Seen(method, path, headers, json.loads(body)))


# --- what to say ----------------------------------------------------------------------------------------------------------


def say(status: int, body: object, *, kind: str = "application/json", **headers: str) -> bytes:
    """A whole reply; a body of bytes goes out as it is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}Connection: close\r\n\r\n"
    return head.encode() + content


def fail(status: int, code: str, message: str = "Non si può.", **headers: str) -> bytes:
    return say(status, {"ok": False, "errore": {"codice": code, "messaggio": message}}, **headers)


def answer(text: str = "Sono le tre.") -> dict[str, Any]:
    return {"ok": True, "risposta": text, "conversazione": None, "meta": {"versione": "Pepper 6"}}


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\nX-Request-Id: req_1\r\nConnection: close\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(part), part)


def stream(parts: Iterable[bytes]) -> list[bytes]:
    """A whole stream in these portions."""
    return [STREAM_HEAD + b"".join(chunk(part) for part in parts if part) + STREAM_END]


def event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def delta(text: str) -> bytes:
    return event("delta", {"text": text})


def done(text: str = "Sono le tre.") -> bytes:
    return event("done", answer(text))
