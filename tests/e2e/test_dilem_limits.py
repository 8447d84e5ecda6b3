"""Dilem's limits and bodies: who may ask how often, what is too large or too slow, and where Dilem is served at all."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from gateway.dilem.contract import Session
from gateway.dilem.operations import API
from tests.e2e import deciding
from tests.e2e.agents import QUESTION, Agent, Raw, body, code_of, exchange, fresh_case, refusal
from tests.e2e.deciding import turning
from tests.e2e.harness import Gateway

ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "3",
    "PEPPER_DILEM_DAILY_LIMIT": "50",
    "PEPPER_DILEM_CAPACITY": "2",
    "PEPPER_DILEM_IP_PER_MINUTE": "40",
    "PEPPER_DILEM_BASE_URL": "https://dilem.example",
    "PEPPER_TRUSTED_PROXIES": "127.0.0.1",
}
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
LIMIT = 300_000
_addresses = itertools.count(1)


@pytest.fixture(scope="module")
def backend() -> str:
    """What the stores have to do with it, tests/contract/test_storage_dilem.py tries on both."""
    return "embedded"


@pytest.fixture(scope="module")
def served(served: Gateway) -> Gateway:
    assert served.command("project", "set", "dilem", "--sandbox").returncode == 0
    return served


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    gateway.set_clock(NOON)
    async with httpx.AsyncClient(base_url=gateway.address, timeout=60) as opened:
        yield opened
    gateway.free_clock()


def fresh_address() -> dict[str, str]:
    return {"x-forwarded-for": f"203.0.113.{next(_addresses)}"}


async def start(client: httpx.AsyncClient, address: str) -> httpx.Response:
    return await client.post(f"{API}/session", headers={"x-forwarded-for": address})


async def test_new_sessions_of_an_address(gateway: Gateway, client: httpx.AsyncClient) -> None:
    found = await asyncio.gather(*(start(client, "192.0.2.1") for _ in range(6)))
    refused = [response for response in found if response.status_code != 200]
    assert [refusal(response) for response in refused] == [(429, "rate_limited")] * 3
    assert {response.headers["retry-after"] for response in refused} == {"3600"}
    token = body(next(each for each in found if each.status_code == 200), Session)["session"]
    renewal = {"x-forwarded-for": "192.0.2.1", "authorization": f"Bearer {token}"}
    body(await client.post(f"{API}/session", headers=renewal), Session)
    body(await start(client, "192.0.2.2"), Session)
    # What a caller claims of itself is not believed, only what the proxy saw.
    for claimed in ("8.8.8.8, 192.0.2.1", "127.0.0.1, 192.0.2.1"):
        assert refusal(await start(client, claimed)) == (429, "rate_limited")
    for hours in (1, 2):
        gateway.set_clock(NOON + timedelta(hours=hours))
        for _ in range(3):
            body(await start(client, "192.0.2.1"), Session)
    gateway.set_clock(NOON + timedelta(hours=3))
    response = await start(client, "192.0.2.1")
    assert refusal(response) == (429, "rate_limited")
    assert response.headers["retry-after"] == str(9 * 3_600)
    gateway.set_clock(NOON + timedelta(hours=12))
    body(await start(client, "192.0.2.1"), Session)


async def test_an_ipv6_household_is_one_address(client: httpx.AsyncClient) -> None:
    for host in ("1", "2:3:4:5", "ffff::1"):
        body(await start(client, f"2001:db8:1:2:{host}{'' if host.count(':') else '::'}"), Session)
    assert refusal(await start(client, "2001:db8:1:2::9")) == (429, "rate_limited")
    body(await start(client, "2001:db8:1:3::9"), Session)


async def test_requests_of_an_address(gateway: Gateway, client: httpx.AsyncClient) -> None:
    address = fresh_address()
    found = [await client.get(f"{API}/usage", headers=address) for _ in range(41)]
    assert [refusal(response) for response in found[:40]] == [(403, "session_required")] * 40
    assert refusal(found[40]) == (429, "rate_limited")
    assert found[40].headers["retry-after"] == "60"
    assert refusal(await client.get(f"{API}/usage", headers=fresh_address()))[0] == 403
    gateway.set_clock(NOON + timedelta(seconds=60))
    assert refusal(await client.get(f"{API}/usage", headers=address))[0] == 403


async def test_so_many_turns_at_once(client: httpx.AsyncClient) -> None:
    agent = await Agent.started(client, **fresh_address())
    text = f"{QUESTION} [[prova:lento:2]]"
    found = await asyncio.gather(*(agent.decide(fresh_case(), text) for _ in range(5)))
    refused = [response for response in found if response.status_code != 200]
    assert [refusal(response) for response in refused] == [(429, "capacity_exceeded")] * 3
    assert {response.headers["retry-after"] for response in refused} == {"5"}
    assert (await agent.usage())["dilemmas"]["used"] == 2
    await agent.decided(fresh_case())


async def test_pages_of_the_public_origin_alone(client: httpx.AsyncClient) -> None:
    address = fresh_address()
    for origin in ("https://dilem.example", "https://DILEM.example:443"):
        response = await client.get(f"{API}/usage", headers=address | {"origin": origin})
        assert refusal(response) == (403, "session_required")
    for origin in ("http://dilem.example", str(client.base_url).rstrip("/"), "null", ""):
        response = await client.get(f"{API}/usage", headers=address | {"origin": origin})
        assert refusal(response) == (403, "origin_rejected")


# --- bodies ---------------------------------------------------------------------------------------------------------


def dripping(opened: socket.socket) -> None:
    """A byte now and then, until the reply has begun."""
    opened.settimeout(0.2)
    while True:
        try:
            if opened.recv(1, socket.MSG_PEEK):
                break
        except TimeoutError:
            opened.sendall(b" ")
    opened.settimeout(30)


async def test_bodies_that_are_too_large_or_too_slow(gateway: Gateway, client: httpx.AsyncClient) -> None:
    agent = await Agent.started(client, **fresh_address())

    def head(*more: str, method: str = "POST /api/v1/decide") -> str:
        lines = (
            f"{method} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {agent.token}",
            "X-Dilem-Case-ID: caso",
            "Content-Type: application/json",
            *more,
        )
        return "\n".join(lines)

    async def ask(
        head: str, sent: bytes = b"", meanwhile: Callable[[socket.socket], None] | None = None
    ) -> Raw:
        return await asyncio.to_thread(exchange, gateway.port, head, sent, meanwhile=meanwhile)

    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    large = await asyncio.gather(
        ask(head(f"Content-Length: {LIMIT + 1}")),
        ask(head(f"Content-Length: {LIMIT + 1}", "Expect: 100-continue")),
        ask(head(f"Content-Length: {LIMIT + 1}", method="GET /api/v1/usage")),
        ask(head("Content-Length: 2000000"), b"x" * 2_000_000),
        ask(head("Transfer-Encoding: chunked"), chunk * 5 + b"0\r\n\r\n"),
        ask(head("Transfer-Encoding: chunked", method="GET /api/v1/usage"), chunk * 5 + b"0\r\n\r\n"),
    )
    assert [code_of(raw) for raw in large] == [(413, "body_too_large")] * len(large)
    began = time.monotonic()
    slow = await asyncio.gather(
        ask(head("Content-Length: 100")),
        ask(head("Content-Length: 100000"), b"{", dripping),
        ask(head("Transfer-Encoding: chunked"), b"1\r\n{\r\n"),
    )
    assert [code_of(raw) for raw in slow] == [(408, "body_timeout")] * len(slow)
    assert all(raw.first_byte > 9.5 for raw in slow)
    assert time.monotonic() - began < 20
    assert all(raw.headers["connection"] == "close" for raw in (*large, *slow))
    assert not any(raw.body.startswith(b"HTTP/1.1 100") for raw in large)
    assert (await agent.usage("caso"))["case"]["admitted"] is False


async def test_headers_that_stand_twice(gateway: Gateway, client: httpx.AsyncClient) -> None:
    agent = await Agent.started(client, **fresh_address())
    sent = b'{"text":"a","language":"en"}'
    usual = {
        "Authorization": f"Bearer {agent.token}",
        "X-Dilem-Case-ID": "caso",
        "Content-Type": "application/json",
        "Origin": "https://dilem.example",
    }
    expected = {
        "Authorization": (403, "session_invalid"),
        "X-Dilem-Case-ID": (422, "case_id_invalid"),
        "Content-Type": (422, "invalid_input"),
        "Origin": (403, "origin_rejected"),
    }
    for name, refused in expected.items():
        lines = ["POST /api/v1/decide HTTP/1.1", "Host: localhost", f"Content-Length: {len(sent)}"]
        lines += [f"{header}: {value}" for header, value in usual.items()] + [f"{name}: {usual[name]}"]
        raw = await asyncio.to_thread(exchange, gateway.port, "\n".join(lines), sent)
        assert code_of(raw) == refused, name


# --- where it is served ---------------------------------------------------------------------------------------------


async def test_unasked_for_it_is_served_to_this_machine_alone(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway()
    gateway.start()
    async with httpx.AsyncClient(base_url=gateway.address) as client:
        body(await client.post(f"{API}/session"), Session)
        same = {"origin": gateway.address}
        body(await client.post(f"{API}/session", headers=same), Session)
        for name in ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"):
            response = await client.post(f"{API}/session", headers={name: "198.51.100.7"})
            assert refusal(response) == (404, "not_found"), name
        # And it stands on the same providers as everything else.
        gateway.fakes.claude.reset()
        gateway.fakes.claude.script(turning(deciding.QUESTION), turning(deciding.RESULT))
        agent = await Agent.started(client)
        case = fresh_case()
        assert (await agent.decided(case, "Treno o bus?"))["question"] == deciding.QUESTION["question"]
        result = await agent.decided(case, "Treno o bus?", refinements=["Quanti chilometri? 10"])
        assert (result["type"], result["selected"]) == ("result", "treno")
        assert len(gateway.fakes.claude.seen) == 2
        assert gateway.fakes.claude.refused == []
    gateway.kill()


async def test_where_it_is_off_nothing_of_it_is_there(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway(environment={"PEPPER_TRUSTED_PROXIES": "10.0.0.0/8"})
    gateway.start()
    async with httpx.AsyncClient(base_url=gateway.address) as client:
        response = await client.post(f"{API}/session")
        assert (response.status_code, response.json()["errore"]["codice"]) == (404, "indirizzo_sconosciuto")
    gateway.kill()
