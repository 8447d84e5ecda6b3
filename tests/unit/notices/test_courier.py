"""What goes out to a partner's address, and what does not: against a real server, with and without TLS."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.notices import courier as module
from gateway.notices.courier import Courier
from gateway.notices.signature import signature
from tests.fakes.receiver import Receiver, endless, make_certificates, raw, reply, silent
from tests.services import LOOPBACK, find_free_port

BODY = b'{"pratica":"prt_a1b2c3d4e5f6","progetto":"negozio","stato":"pronta","quanti":3}'
SECRET = "avs_segreto"
PUBLIC = "93.184.216.34"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def courier() -> AsyncIterator[Courier]:
    """One that may go to this machine."""
    courier = Courier(ssl.create_default_context, private=True)
    yield courier
    await courier.aclose()


async def outcome(courier: Courier, url: str) -> str:
    delivery = await courier.deliver(url, SECRET, "avv_1", BODY)
    assert delivery.delivered is (delivery.outcome[:1] == "2")
    assert delivery.duration_ms >= 0
    return delivery.outcome


def leads_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Make every name lead to these addresses; the names that were asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        families = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in addresses]
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, port))
            for family, address in zip(families, addresses, strict=True)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


# --- what is sent -------------------------------------------------------------------------------------------------


async def test_what_is_sent(courier: Courier, receiver: Receiver) -> None:
    before = int(time.time())
    delivery = await courier.deliver(receiver.url + "?a=b%20c", SECRET, "avv_1", BODY)
    assert (delivery.outcome, delivery.delivered) == ("204", True)
    [told] = receiver.told
    assert (told.method, told.path, told.body) == ("POST", "/avvisi?a=b%20c", BODY)
    signed = told.headers.pop("x-pepper-firma")
    assert told.headers == {
        "connection": "close",
        "host": f"localhost:{receiver.port}",
        "content-type": "application/json",
        "content-length": str(len(BODY)),
        "user-agent": "Pepper",
        "accept": "*/*",
        "accept-encoding": "identity",
        "x-pepper-avviso": "avv_1",
    }
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", signed)
    assert found
    assert before <= int(found[1]) <= time.time()
    digest = hmac.new(SECRET.encode(), found[1].encode() + b"." + BODY, hashlib.sha256)
    assert found[2] == digest.hexdigest()


def test_a_signature_is_of_time_body_and_secret() -> None:
    mine = signature(SECRET, 7, BODY)
    assert mine == signature(SECRET, 7, BODY)
    others = [signature(SECRET, 8, BODY), signature(SECRET, 7, BODY + b" "), signature("altro", 7, BODY)]
    assert mine not in others


# --- what comes back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 299])
async def test_yes(courier: Courier, receiver: Receiver, status: int) -> None:
    receiver.default = reply(status, body=b"grazie")
    assert await outcome(courier, receiver.url) == str(status)


@pytest.mark.parametrize("status", [300, 301, 302, 307, 400, 401, 404, 410, 429, 500, 503])
async def test_no(courier: Courier, receiver: Receiver, status: int) -> None:
    """A redirect is followed nowhere, not even to where notices may go."""
    receiver.default = reply(status, Location=receiver.url + "/altrove")
    assert await outcome(courier, receiver.url) == str(status)
    assert len(receiver.told) == 1


async def test_a_body_that_does_not_end_is_not_read(courier: Courier, receiver: Receiver) -> None:
    receiver.default = endless()
    assert await outcome(courier, receiver.url) == "200"
    receiver.default = endless(b"HTTP/1.1 200 So\r\nContent-Encoding: gzip\r\n\r\n")
    assert await outcome(courier, receiver.url) == "200"


async def test_a_body_that_does_not_come_changes_nothing(courier: Courier, receiver: Receiver) -> None:
    receiver.default = raw(b"HTTP/1.1 200 So\r\nContent-Length: 9\r\n\r\nabc")
    assert await outcome(courier, receiver.url) == "200"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (raw(b""), module.UNREACHABLE),
        (raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), module.FAULTY),
        (raw(b"HTTP/1.1 200 So\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"), module.FAULTY),
    ],
    ids=["nothing", "no HTTP", "a huge head"],
)
async def test_what_is_no_answer(courier: Courier, receiver: Receiver, answer: Any, told: str) -> None:
    receiver.default = answer
    assert await outcome(courier, receiver.url) == told


async def test_nobody_there(courier: Courier) -> None:
    assert await outcome(courier, f"http://{LOOPBACK}:{find_free_port()}/") == module.UNREACHABLE


async def test_who_is_silent_is_given_up(
    courier: Courier, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.5)
    receiver.default = silent(30)
    assert await outcome(courier, receiver.url) == module.TIMED_OUT
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(1))
    assert await outcome(courier, "https://esempio.it/") == module.TIMED_OUT


async def test_many_at_once(courier: Courier, receiver: Receiver) -> None:
    assert set(await asyncio.gather(*(outcome(courier, receiver.url) for _ in range(50)))) == {"204"}
    assert receiver.connections == len(receiver.told) == 50


# --- where it goes ------------------------------------------------------------------------------------------------


@pytest.fixture
async def strict() -> AsyncIterator[Courier]:
    courier = Courier(ssl.create_default_context)
    yield courier
    await courier.aclose()


async def test_this_machine_and_plain_http_are_out_of_bounds(strict: Courier, receiver: Receiver) -> None:
    port = receiver.port
    for url in (
        receiver.url,
        f"https://localhost:{port}/",
        f"https://{LOOPBACK}:{port}/",
        f"https://[::1]:{port}/",
        f"https://[::ffff:127.0.0.1]:{port}/",
        "http://93.184.216.34/",
    ):
        assert await outcome(strict, url) == module.FORBIDDEN, url
    assert receiver.connections == 0


@pytest.mark.parametrize(
    "addresses", [(LOOPBACK,), (PUBLIC, "10.0.0.1"), ("169.254.169.254",), ("2606:4700::1", "::1")]
)
async def test_a_name_that_leads_inside_even_in_part(
    strict: Courier, monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    leads_to(monkeypatch, *addresses)
    assert await outcome(strict, "https://esempio.it/") == module.FORBIDDEN


async def test_a_name_that_leads_nowhere(strict: Courier, monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch)
    assert await outcome(strict, "https://esempio.it/") == module.UNKNOWN_NAME

    def fails(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert await outcome(strict, "https://esempio.it/") == module.UNKNOWN_NAME


async def test_what_was_checked_is_what_is_connected_to(
    strict: Courier, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is looked up once, and what the operating system is asked to connect to afterwards."""
    asked = leads_to(monkeypatch, PUBLIC)
    connected: list[object] = []

    async def connect(_: object, sock: socket.socket, address: tuple[str, int]) -> None:
        connected.append(address)
        leads_to(monkeypatch, LOOPBACK)  # the name changes its mind
        raise ConnectionRefusedError

    monkeypatch.setattr(type(asyncio.get_running_loop()), "sock_connect", connect)
    assert await outcome(strict, f"https://esempio.it:{receiver.port}/") == module.UNREACHABLE
    assert connected == [(PUBLIC, receiver.port)]
    assert asked == ["esempio.it"]
    assert receiver.connections == 0


async def test_no_proxy_is_used(
    courier: Courier, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://{LOOPBACK}:{find_free_port()}")
    assert await outcome(courier, receiver.url) == "204"


# --- TLS ----------------------------------------------------------------------------------------------------------


async def test_tls_is_with_the_name(tmp_path: Path, courier: Courier) -> None:
    server, authority = make_certificates(tmp_path)
    trusting = Courier(lambda: ssl.create_default_context(cafile=authority), private=True)
    with Receiver(server) as receiver:
        assert await outcome(trusting, receiver.url) == "204"
        # Nobody trusts it; it is another name's.
        assert await outcome(courier, receiver.url) == module.UNTRUSTED
        assert await outcome(trusting, receiver.url.replace("localhost", LOOPBACK)) == module.UNTRUSTED
        assert len(receiver.told) == 1
    await trusting.aclose()
