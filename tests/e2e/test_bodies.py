"""Bodies that are malformed, huge or hostile: the contract's errors, never a 500."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import httpx
import pytest

from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.services import LOOPBACK


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in reading a body."""
    return "embedded"


async def post(
    gateway: Gateway, tenant: Tenant, body: bytes, address: str = "/api.php", **headers: str
) -> httpx.Response:
    return await gateway.client.post(
        address,
        content=body,
        headers={**gateway.headers(tenant), "content-type": "application/json", **headers},
    )


def malformed(name: str) -> list[bytes]:
    good = json.dumps({"progetto": name, "encode": "libero", "contenuto": "x"}).encode()
    field = b'{"progetto": "%s", "encode": "libero", "contenuto": ' % name.encode()
    return [
        b"",
        b" ",
        b"null",
        b"[]",
        b"7",
        b'"progetto"',
        b"true",
        b"[%s]" % good,
        b"{",
        good[:-1],
        good + b"x",
        good + good,
        b"\xef\xbb\xbf" + good,
        good.decode().encode("utf-16"),
        field + b"NaN}",
        field + b"Infinity}",
        field + b'"\xff"}',
        field + b'"\xc3"}',
        field + b'"\xed\xa0\x80"}',
        field + b'"\\ud800"}',
        field + b'"\\udc00 x"}',
        field + b'"\x00"}',
        field + b'"a\nb"}',
        field + b'"\\x"}',
        field + b"'x'}",
        good.replace(b'"x"', b'"x",'),
        b"progetto=" + name.encode(),
        b"\x00" * 100,
        b"[" * 100_000,
        b'{"progetto":' * 50_000,
        b"{}",
        b'{"progetto": null}',
        b'{"progetto": ["%s"]}' % name.encode(),
        b'{"progetto": 1e400}',
    ]


async def test_what_is_no_request_is_told_so(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    for address in ("/api.php", "/capacita.php"):
        for body in malformed(tenant.name):
            if len(body) > 64 * 1024 and address != "/api.php":
                continue
            response = await post(gateway, tenant, body, address)
            # For `/capacita.php` a body is whole once it names its project.
            if address == "/capacita.php" and response.status_code == 200:
                pytest.fail(f"taken: {body[:100]!r}")
            told.error(response, 400, "richiesta_non_valida")
    assert gateway.fakes.claude.seen == []


async def test_deep_fields_are_no_harm(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    start = b'{"progetto":"%s","encode":"libero","contenuto":"x","extra":' % tenant.name.encode()
    for depth in (10, 500, 5_000, 500_000):
        response = await post(gateway, tenant, start + b'{"a":' * depth + b"1" + b"}" * depth + b"}")
        if response.status_code != 200:
            told.error(response, 400, "richiesta_non_valida")
    for number in (b"1" * 5_000, b"-0", b"1e308", b"1e-400", b"0.1" + b"1" * 10_000):
        response = await post(gateway, tenant, start + b'{"n":' + number + b"}}")
        if response.status_code != 200:
            told.error(response, 400, "richiesta_non_valida")


async def test_a_name_twice_counts_once(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    other = await gateway.desk.project()
    for first, second in ((tenant.name, other.name), (other.name, tenant.name)):
        body = b'{"progetto":"%s","progetto":"%s","encode":"libero","contenuto":"x"}'
        response = await post(gateway, tenant, body % (first.encode(), second.encode()))
        assert response.status_code in {200, 401}
        if response.status_code == 200:
            assert told.answer(response)["meta"]["progetto"] == tenant.name


async def test_noise_is_never_a_fault_of_ours(gateway: Gateway) -> None:
    """Valid requests with random bytes changed."""
    tenant = await gateway.desk.project()
    chance = random.Random(20_261_130)
    base = json.dumps(
        {
            "progetto": tenant.name,
            "encode": "classifica",
            "contenuto": "perché",
            "extra": {"categorie": ["a", "b"]},
            "conversazione": "nuova",
            "documenti": None,
            "stream": False,
        }
    ).encode()
    for _ in range(300):
        body = bytearray(base)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        response = await post(gateway, tenant, bytes(body))
        assert response.status_code in {200, 400, 401, 403, 404}, (response.text, bytes(body))
    gateway.fakes.claude.take_refused()


async def test_hostile_values(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    good = {"progetto": tenant.name, "encode": "libero", "contenuto": "x"}
    values: list[Any] = [
        "'; DROP TABLE calls; --",
        "\x00",
        "../../etc/passwd",
        "{{7*7}}",
        "%s%n",
        "\u202e",
        "🌶" * 300,
    ]
    for value in values:
        for field in ("progetto", "encode", "conversazione", "modo"):
            response = await gateway.client.post(
                "/api.php", json={**good, field: value}, headers=gateway.headers(tenant)
            )
            assert response.status_code in {400, 401, 404}, (field, value, response.text)
        told.answer(await gateway.ask(tenant, f"x {value}"))
    for key in ("", "x" * 256, "a\tb", "é"):
        headers = [(b"x-pepper-key", tenant.key.encode()), (b"idempotency-key", key.encode())]
        response = await gateway.client.post("/api.php", json=good, headers=headers)
        told.error(response, 400, "richiesta_non_valida")
    twice = [*gateway.headers(tenant).items(), ("idempotency-key", "a"), ("idempotency-key", "a")]
    told.error(await gateway.client.post("/api.php", json=good, headers=twice), 400, "richiesta_non_valida")


async def test_a_body_beyond_the_limit_is_not_read_to_its_end(gateway: Gateway) -> None:
    """Chunked, so that its size is not declared."""
    tenant = await gateway.desk.project()
    reader, writer = await asyncio.open_connection(LOOPBACK, gateway.port)
    head = f"POST /capacita.php HTTP/1.1\r\nHost: x\r\nX-Pepper-Key: {tenant.key}\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head.encode())
    writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n" + b"1\r\n \r\n")
    await writer.drain()
    assert (await asyncio.wait_for(reader.readline(), 8)).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_escapes_do_not_count_as_characters(gateway: Gateway) -> None:
    """A hundred thousand characters, each escaped to twelve bytes: more than a megabyte, and fine."""
    tenant = await gateway.desk.project()
    content = b'"' + b"\\ud83c\\udf36" * 100_000 + b'"'
    body = b'{"progetto":"%s","encode":"libero","contenuto":%s}' % (tenant.name.encode(), content)
    told.answer(await post(gateway, tenant, body))


async def test_large_bodies_are_answered(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    filler = b'{"progetto":"%s","encode":"libero","contenuto":"x","altro":"' % tenant.name.encode()
    body = filler + b"y" * (64 * 2**20 - len(filler) - 2) + b'"}'
    told.answer(await post(gateway, tenant, body))
    response = await post(gateway, tenant, body + b" ")
    told.error(response, 413, "contenuto_troppo_grande")


async def test_a_refusal_reaches_who_is_still_sending(gateway: Gateway) -> None:
    """A connection closed on a body under way would be reset, and the reply lost with it."""
    stranger = Tenant("nessuno", "pk_no")
    for size in (1_000_000, 30_000_000):
        told.error(await post(gateway, stranger, b"x" * size), 401, "non_autorizzato")
    told.error(
        await post(gateway, stranger, b"x" * 1_000_000, "/capacita.php"), 413, "contenuto_troppo_grande"
    )
    # And the connection is not spoilt for what follows.
    told.answer(await gateway.ask(await gateway.desk.project()))


@pytest.mark.slow
@pytest.mark.timeout(100)
async def test_a_body_that_does_not_come_is_waited_for_a_minute(gateway: Gateway) -> None:
    tenant = await gateway.desk.project()
    began = time.monotonic()
    reader, writer = await asyncio.open_connection(LOOPBACK, gateway.port)
    head = f"POST /api.php HTTP/1.1\r\nHost: x\r\nX-Pepper-Key: {tenant.key}\r\nContent-Length: 100\r\n\r\n{{"
    writer.write(head.encode())
    await writer.drain()
    line = await asyncio.wait_for(reader.readline(), 80)
    assert line.startswith(b"HTTP/1.1 408")
    assert 59 < time.monotonic() - began < 70
    assert b"richiesta_non_valida" in await asyncio.wait_for(reader.read(65_536), 5)
    writer.close()
