"""A mail server as a real server in a thread. It speaks SMTP to the letter, and answers otherwise as a test wants.

What a client does wrong (a command out of turn, a password before TLS, a line that is too long or has no CR) is refused
on the wire and noted in `refused`.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import socketserver
import ssl
import threading
import time
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from types import TracebackType
from typing import Self

from typing_extensions import override

from tests.services import LOOPBACK

MOST_COMMAND = 512
MOST_LINE = 1_000
"""Octets with their CRLF, says RFC 5321."""
USER = "pepper"
PASSWORD = "una parola d'ordine"
_ADDRESS = re.compile(r"<([^<>\s]+@[^<>\s]+)>")


@dataclass(frozen=True)
class Mail:
    """What was handed in."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    secured: bool
    user: str | None

    @property
    def text(self) -> str:
        return str(self.message.get_content())


@dataclass
class Moods:
    """How the server behaves; by default it takes everything."""

    data: str | None = None
    """Reply to a message, instead of taking it."""
    recipients: frozenset[str] = frozenset()
    """Whom it takes no mail for."""
    silent: float = 0.0
    """Seconds before it greets."""
    hangs_up: bool = False
    """After the message was taken, before QUIT is answered."""


@dataclass
class SmtpServer:
    """Start it with `with`.

    `tls` is offered as STARTTLS, or is there from the start with `wrapped`; with `login` nobody sends without.
    """

    tls: ssl.SSLContext | None = None
    wrapped: bool = False
    login: bool = False
    mails: list[Mail] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    moods: Moods = field(default_factory=Moods)
    connections: int = 0

    def __post_init__(self) -> None:
        server = self

        class Handler(socketserver.BaseRequestHandler):
            @override
            def handle(self) -> None:
                server.connections += 1
                with contextlib.suppress(OSError, _GoneError):
                    time.sleep(server.moods.silent)
                    connection = self.request
                    if server.wrapped and server.tls is not None:
                        connection = _secured(server.tls, connection)
                    session = _Session(server, connection)
                    try:
                        session.run()
                    finally:
                        session.connection.close()

        self._server = _Server((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        self.mails.clear()
        self.refused.clear()
        self.moods = Moods()
        self.connections = 0


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


def _secured(tls: ssl.SSLContext, connection: socket.socket) -> ssl.SSLSocket:
    secured = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
    except OSError:
        secured.close()
        raise
    return secured


class _GoneError(Exception):
    """The client hung up."""


class _Session:
    def __init__(self, server: SmtpServer, connection: socket.socket) -> None:
        self._server = server
        self.connection = connection
        self._buffer = b""
        self._secured = server.wrapped
        self._greeted = False
        self._user: str | None = None
        self._sender: str | None = None
        self._recipients: list[str] = []

    def run(self) -> None:
        self._say("220 posta.example ESMTP")
        while True:
            line = self._line(MOST_COMMAND)
            verb, _, rest = line.partition(" ")
            if verb.upper() == "QUIT":
                self._say("221 a presto")
                return
            self._obey(verb.upper(), rest)
            if self._server.moods.hangs_up and self._server.mails:
                return

    def _obey(self, verb: str, rest: str) -> None:
        match verb:
            case "EHLO":
                self._greet(rest)
            case "STARTTLS":
                self._start_tls()
            case "AUTH":
                self._authenticate(rest)
            case "MAIL":
                self._begin(rest)
            case "RCPT":
                self._address(rest)
            case "DATA":
                self._take()
            case "RSET":
                self._sender, self._recipients = None, []
                self._say("250 va bene")
            case _:
                self._refuse(f"500 {verb}")

    def _greet(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9a-fA-F.:IPv]+\]", name):
            self._refuse(f"501 EHLO {name!r}")
            return
        self._greeted = True
        offers = ["posta.example"]
        if self._server.tls is not None and not self._secured:
            offers.append("STARTTLS")
        if self._server.login and self._secured:
            offers.append("AUTH PLAIN LOGIN")
        for offer in offers[:-1]:
            self._say(f"250-{offer}")
        self._say(f"250 {offers[-1]}")

    def _start_tls(self) -> None:
        if self._server.tls is None or self._secured or not self._greeted:
            self._refuse("503 STARTTLS")
            return
        self._say("220 avanti")
        self.connection = _secured(self._server.tls, self.connection)
        self._secured, self._greeted, self._buffer = True, False, b""

    def _authenticate(self, rest: str) -> None:
        if not self._secured or not self._server.login or not self._greeted:
            self._refuse("538 AUTH without TLS")
            return
        kind, _, given = rest.partition(" ")
        if kind.upper() == "PLAIN":
            if not given:
                self._say("334 ")
                given = self._line(MOST_COMMAND)
            _, user, password = base64.b64decode(given, validate=True).decode().split("\0")
        else:
            self._say("334 " + base64.b64encode(b"Username:").decode())
            user = base64.b64decode(given or self._line(MOST_COMMAND)).decode()
            self._say("334 " + base64.b64encode(b"Password:").decode())
            password = base64.b64decode(self._line(MOST_COMMAND)).decode()
        if (user, password) != (USER, PASSWORD):
            self._say("535 no")
            return
        self._user = user
        self._say("235 benvenuto")

    def _begin(self, rest: str) -> None:
        found = _ADDRESS.search(rest)
        if not self._greeted or (self._server.login and self._user is None) or self._sender is not None:
            self._refuse("503 MAIL")
        elif not rest.upper().startswith("FROM:") or found is None:
            self._refuse(f"501 MAIL {rest}")
        else:
            self._sender = found[1]
            self._say("250 va bene")

    def _address(self, rest: str) -> None:
        found = _ADDRESS.search(rest)
        if self._sender is None or found is None or not rest.upper().startswith("TO:"):
            self._refuse(f"503 RCPT {rest}")
        elif found[1] in self._server.moods.recipients:
            self._say("550 sconosciuto")
        else:
            self._recipients.append(found[1])
            self._say("250 va bene")

    def _take(self) -> None:
        if not self._recipients or self._sender is None:
            self._refuse("503 DATA")
            return
        self._say("354 avanti")
        lines: list[str] = []
        while (line := self._line(MOST_LINE)) != ".":
            lines.append(line.removeprefix("."))
        if self._server.moods.data is not None:
            self._say(self._server.moods.data)
        else:
            raw = "".join(f"{line}\r\n" for line in lines).encode()
            message = BytesParser(policy=policy.default).parsebytes(raw)
            assert isinstance(message, EmailMessage)
            mail = Mail(self._sender, tuple(self._recipients), message, self._secured, self._user)
            self._server.mails.append(mail)
            self._say("250 presa")
        self._sender, self._recipients = None, []

    def _say(self, line: str) -> None:
        self.connection.sendall(line.encode() + b"\r\n")

    def _refuse(self, line: str) -> None:
        self._server.refused.append(line)
        self._say(line if line[:3].isdigit() else f"500 {line}")

    def _line(self, most: int) -> str:
        while b"\n" not in self._buffer:
            some = self.connection.recv(65_536)
            if not some:
                raise _GoneError
            self._buffer += some
        line, _, self._buffer = self._buffer.partition(b"\n")
        if not line.endswith(b"\r") or len(line) + 1 > most or not line.isascii():
            self._server.refused.append(f"a line: {line[:80]!r}")
        return line.rstrip(b"\r").decode("latin-1")
