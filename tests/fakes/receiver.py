"""A partner's own address, as a real server in a thread: it keeps what it was told, and answers as a test wants."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import socket
import socketserver
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typing_extensions import override

from tests.services import LOOPBACK

NAME = "localhost"


@dataclass(frozen=True)
class Told:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def notice(self) -> str:
        return self.headers["x-pepper-avviso"]


Answer = Callable[[socket.socket], None]


def reply(status: int, *, body: bytes = b"", **headers: str) -> Answer:
    """An answer of this status."""
    lines = [f"HTTP/1.1 {status} So", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return raw("\r\n".join([*lines, "", ""]).encode() + body)


def raw(data: bytes) -> Answer:
    """Exactly these bytes."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(data)

    return answer


def endless(head: bytes = b"HTTP/1.1 200 So\r\n\r\n") -> Answer:
    """A body that never ends."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(b"x" * 65_536)

    return answer


def silent(seconds: float) -> Answer:
    """Nothing for so long, then yes."""

    def answer(connection: socket.socket) -> None:
        time.sleep(seconds)
        reply(204)(connection)

    return answer


class Receiver:
    """Start it with `with`; `default` answers when nothing is queued in `answers`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.told: list[Told] = []
        self.connections = 0
        self.answers: deque[Answer] = deque()
        self.default: Answer = reply(204)
        receiver = self

        class Handler(socketserver.BaseRequestHandler):
            @override
            def handle(self) -> None:
                receiver.connections += 1
                with contextlib.suppress(OSError):
                    connection = tls.wrap_socket(self.request, server_side=True) if tls else self.request
                    receiver._hear(connection)
                    connection.close()

        self._server = _Server((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._scheme = "https" if tls else "http"

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"{self._scheme}://{NAME}:{self.port}/avvisi"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        self.told.clear()
        self.answers.clear()
        self.default = reply(204)

    def _hear(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += _some(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        first, _, lines = head.partition(b"\r\n")
        headers = {name.lower(): value for name, value in message_from_bytes(lines).items()}
        while len(body) < int(headers["content-length"]):
            body += _some(connection)
        method, path, _ = first.decode().split(" ")
        self.told.append(Told(method, path, headers, body))
        answer = self.answers.popleft() if self.answers else self.default
        answer(connection)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65_536)
    if not data:
        raise ConnectionError("the sender left")
    return data


def make_certificates(folder: Path, name: str = NAME) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS, and the file with the authority to trust for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "una prova")])
    now = dt.datetime.now(dt.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority, private = folder / "authority.pem", folder / "private.pem"
    authority.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, private)
    return context, authority
