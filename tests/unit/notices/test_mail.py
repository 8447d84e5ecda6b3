"""Mail on its way out: what is said to the server, and what each way of failing is called."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.domain.alerts import Letter
from gateway.domain.notices import Delivery
from gateway.domain.operator_settings import MailServer, Security
from gateway.notices import mail
from gateway.notices.mail import Postman
from tests.fakes.receiver import make_certificates
from tests.fakes.smtp import PASSWORD, USER, SmtpServer
from tests.services import LOOPBACK, find_free_port

AT = datetime(2026, 3, 3, 12, tzinfo=UTC)
LETTER = Letter(
    "Perché è così: l'80%", "Una riga.\n\n.un punto in testa\n" + "parola " * 400 + "\nÈ tutto.\n"
)
NAME = "localhost"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    return make_certificates(tmp_path_factory.mktemp("posta"))


@pytest.fixture
def plain() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


@pytest.fixture
def starttls(tls: tuple[ssl.SSLContext, Path]) -> Iterator[SmtpServer]:
    with SmtpServer(tls[0], login=True) as server:
        yield server


@pytest.fixture
def wrapped(tls: tuple[ssl.SSLContext, Path]) -> Iterator[SmtpServer]:
    with SmtpServer(tls[0], wrapped=True, login=True) as server:
        yield server


def postman(tls: tuple[ssl.SSLContext, Path] | None = None) -> Postman:
    return Postman(lambda: ssl.create_default_context(cafile=tls[1] if tls else None))


async def send(
    sender: Postman,
    port: int,
    security: Security = Security.NONE,
    *,
    host: str = NAME,
    user: str = "",
    password: str | None = None,
    to: tuple[str, ...] = ("uno@example.it", "due@example.it"),
) -> Delivery:
    server = MailServer(host=host, port=port, security=security, user=user, sender="pepper@example.it")
    return await sender.deliver(server, password, to, LETTER, name="all_prova", at=AT)


async def test_a_letter_arrives_as_it_was_written(plain: SmtpServer) -> None:
    delivery = await send(postman(), plain.port)
    assert (delivery.delivered, delivery.outcome) == (True, "250")
    (one,) = plain.mails
    assert one.sender == "pepper@example.it"
    assert one.recipients == ("uno@example.it", "due@example.it")
    assert one.message["subject"] == LETTER.subject
    assert one.message["to"] == "uno@example.it, due@example.it"
    assert one.message["message-id"] == "<all_prova@example.it>"
    assert one.message["date"].datetime == AT
    assert one.message.get_content_type() == "text/plain"
    assert one.text.replace("\r\n", "\n") == LETTER.text
    assert not one.secured
    assert plain.refused == []


@pytest.mark.parametrize("kind", [Security.STARTTLS, Security.TLS])
async def test_the_password_travels_in_tls_alone(
    kind: Security, starttls: SmtpServer, wrapped: SmtpServer, tls: tuple[ssl.SSLContext, Path]
) -> None:
    server = starttls if kind is Security.STARTTLS else wrapped
    delivery = await send(postman(tls), server.port, kind, user=USER, password=PASSWORD)
    assert delivery.delivered, delivery
    assert [(one.secured, one.user) for one in server.mails] == [(True, USER)]
    assert server.refused == []


async def test_a_wrong_password_is_told(starttls: SmtpServer, tls: tuple[ssl.SSLContext, Path]) -> None:
    delivery = await send(postman(tls), starttls.port, Security.STARTTLS, user=USER, password="sbagliata")
    assert delivery == Delivery(outcome="accesso_rifiutato", duration_ms=delivery.duration_ms)
    assert starttls.mails == []


async def test_no_mail_goes_to_a_server_that_proves_nothing(
    starttls: SmtpServer, wrapped: SmtpServer, plain: SmtpServer, tls: tuple[ssl.SSLContext, Path]
) -> None:
    for server, kind in ((starttls, Security.STARTTLS), (wrapped, Security.TLS)):
        delivery = await send(postman(), server.port, kind, user=USER, password=PASSWORD)
        assert delivery.outcome == "certificato"
        other = await send(postman(tls), server.port, kind, host=LOOPBACK, user=USER, password=PASSWORD)
        assert other.outcome == "certificato"
        assert server.mails == []
    delivery = await send(postman(tls), plain.port, Security.STARTTLS, user=USER, password=PASSWORD)
    assert delivery.outcome == "non_offerto"
    assert plain.mails == []


async def test_refusals_are_told(plain: SmtpServer) -> None:
    plain.moods.recipients = frozenset({"uno@example.it", "due@example.it"})
    assert (await send(postman(), plain.port)).outcome == "destinatari_rifiutati"
    plain.moods.recipients = frozenset({"uno@example.it"})
    assert (await send(postman(), plain.port)).delivered
    assert plain.mails[-1].recipients == ("due@example.it",)
    plain.moods.recipients = frozenset()
    plain.moods.data = "451 più tardi"
    assert (await send(postman(), plain.port)).outcome == "451"
    assert len(plain.mails) == 1


async def test_what_was_taken_stays_delivered(plain: SmtpServer) -> None:
    plain.moods.hangs_up = True
    assert (await send(postman(), plain.port)).delivered
    assert len(plain.mails) == 1


def unknown_name(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "no")


async def test_nobody_there(monkeypatch: pytest.MonkeyPatch, plain: SmtpServer) -> None:
    assert (await send(postman(), find_free_port())).outcome == "irraggiungibile"
    with monkeypatch.context() as without_names:
        without_names.setattr(socket, "getaddrinfo", unknown_name)
        assert (await send(postman(), 25, host="nessuno.invalid")).outcome == "nome_sconosciuto"
    monkeypatch.setattr(mail, "MAIL_SECONDS", 0.3)
    plain.moods.silent = 1.0
    assert (await send(postman(), plain.port)).outcome == "tempo_scaduto"
    assert plain.mails == []
