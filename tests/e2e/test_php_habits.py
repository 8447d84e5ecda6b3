"""What old clients send besides the contract: bodies in all manners of HTTP, and things that are no JSON, told so."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
from typing import Any

import pytest

from tests.e2e import told
from tests.e2e.desk import Tenant
from tests.e2e.harness import Gateway
from tests.services import LOOPBACK, require

READ_SECONDS = 15.0


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in it."""
    return "embedded"


@pytest.fixture
async def tenant(gateway: Gateway) -> Tenant:
    return await gateway.desk.project(sandbox=True)


def body_of(tenant: Tenant, **fields: Any) -> bytes:
    return json.dumps({"progetto": tenant.name, "encode": "libero", "contenuto": "Ciao", **fields}).encode()


def head(tenant: Tenant, *lines: str, version: str = "1.1", path: str = "/api.php") -> bytes:
    said = [f"POST {path} HTTP/{version}", "Host: pepper", f"X-Pepper-Key: {tenant.key}", *lines]
    return "\r\n".join([*said, "", ""]).encode()


class Line:
    """A connection on which anything can be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, gateway: Gateway) -> Line:
        return cls(*await asyncio.open_connection(LOOPBACK, gateway.port))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of one whole reply of declared length."""
        async with asyncio.timeout(READ_SECONDS):
            status = int((await self.reader.readline()).split()[1])
            headers = {}
            while line := (await self.reader.readline()).decode().strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            if status == 100:
                return status, headers, None
            return status, headers, json.loads(await self.reader.readexactly(int(headers["content-length"])))

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(READ_SECONDS):
            return await self.reader.read()

    def hang_up(self) -> None:
        self.writer.close()


async def talk(gateway: Gateway, *said: bytes) -> tuple[int, dict[str, str], Any]:
    """Say it in these packets, and give the reply."""
    line = await Line.to(gateway)
    for part in said:
        await line.say(part)
        await asyncio.sleep(0.01 if len(said) > 1 else 0)
    reply = await line.reply()
    line.hang_up()
    return reply


# --- HTTP -----------------------------------------------------------------------------------------------------------


def chunked(body: bytes, size: int) -> bytes:
    parts = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%X;x=y\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nX-Trailer: 1\r\n\r\n"


async def test_bodies_come_whole_in_chunks_and_in_drops(gateway: Gateway, tenant: Tenant) -> None:
    body = body_of(tenant)
    length = f"Content-Length: {len(body)}"
    for said in (
        [head(tenant, length) + body],
        [head(tenant, length), body],
        [bytes([byte]) for byte in head(tenant, length) + body],
        [head(tenant, "Transfer-Encoding: chunked") + chunked(body, 1)],
        [head(tenant, "Transfer-Encoding: chunked"), chunked(body, 1000)],
        [head(tenant, length, "Connection: close") + body],
        [head(tenant, length, version="1.0") + body],
        [head(tenant, length, "Connection: keep-alive", version="1.0") + body],
        [head(tenant, length).replace(b"Host: pepper\r\n", b"") + body],
        [head(tenant, length).replace(b"\r\n", b"\n") + body],
        [head(tenant, length, path="http://pepper/api.php") + body],
        [head(tenant, length, path="/api.php?debug=1") + body],
        [b"\r\n" + head(tenant, length) + body],
    ):
        status, _, answer = await talk(gateway, *said)
        assert status == 200, (said, answer)
        told.check_answer(answer)


async def test_a_kept_connection_serves_again_and_again(gateway: Gateway, tenant: Tenant) -> None:
    """After answers, after errors of every kind, and with several requests sent ahead."""
    line = await Line.to(gateway)
    body, broken = body_of(tenant), b"{"
    good = head(tenant, f"Content-Length: {len(body)}") + body
    bad = head(tenant, f"Content-Length: {len(broken)}") + broken
    stranger = head(Tenant("x", "pk_no"), f"Content-Length: {len(body)}") + body
    for request, expected in [
        (good, 200),
        (bad, 400),
        (stranger, 401),
        (good, 200),
        (good + b"\r\n", 200),
        (good, 200),
    ]:
        await line.say(request)
        assert (await line.reply())[0] == expected
    await line.say(good * 3)
    assert [(await line.reply())[0] for _ in range(3)] == [200] * 3
    line.hang_up()


async def test_http_10_gets_a_stream_without_chunks(gateway: Gateway, tenant: Tenant) -> None:
    body = body_of(tenant, stream=True)
    line = await Line.to(gateway)
    await line.say(head(tenant, f"Content-Length: {len(body)}", version="1.0") + body)
    headers, _, events = (await line.rest()).partition(b"\r\n\r\n")
    assert headers.startswith(b"HTTP/1.0 200")
    assert b"transfer-encoding" not in headers.lower()
    assert events.startswith(b"event: delta\ndata: ")
    assert b"\n\nevent: done\ndata: " in events
    assert events.endswith(b"}\n\n")
    line.hang_up()


async def test_who_announces_a_body_is_let_on(gateway: Gateway, tenant: Tenant) -> None:
    body = body_of(tenant, altro="x" * 1_500_000)
    line = await Line.to(gateway)
    await line.say(head(tenant, f"Content-Length: {len(body)}", "Expect: 100-continue"))
    assert (await line.reply())[0] == 100
    await line.say(body)
    assert (await line.reply())[0] == 200
    line.hang_up()


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "does not wait"])
async def test_who_announces_a_body_that_is_refused(gateway: Gateway, *, waits: bool) -> None:
    """It need not be sent; and whoever sends it all the same hears the refusal too."""
    stranger = Tenant("x", "pk_no")
    size = 20_000_000
    line = await Line.to(gateway)
    await line.say(head(stranger, f"Content-Length: {size}", "Expect: 100-continue"))
    if not waits:
        await line.say(b"x" * size)
    status, _, error = await line.reply()
    assert (status, error["errore"]["codice"]) == (401, "non_autorizzato")
    line.hang_up()


async def test_a_half_closed_connection_gets_nothing(gateway: Gateway, tenant: Tenant) -> None:
    """The HTTP server takes it for a caller who left; docs/clients.md says so. The key makes a repeat safe."""
    body = body_of(tenant)
    request = head(tenant, f"Content-Length: {len(body)}", "Idempotency-Key: mezza") + body
    with socket.create_connection((LOOPBACK, gateway.port)) as line:
        line.settimeout(READ_SECONDS)
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        assert await asyncio.to_thread(line.recv, 100) == b""
    assert (await talk(gateway, request))[0] == 200
    assert len(await gateway.desk.rows(tenant)) == 1


async def test_a_body_that_stops_half_way_is_told_so(gateway: Gateway, tenant: Tenant) -> None:
    body = body_of(tenant)
    line = await Line.to(gateway)
    await line.say(head(tenant, f"Content-Length: {len(body) + 5}") + body)
    line.writer.write_eof()
    status, _, error = await line.reply()
    assert (status, error["errore"]["codice"]) == (400, "richiesta_non_valida")
    assert "intero" in error["errore"]["messaggio"]
    line.hang_up()


# --- things that are no JSON ------------------------------------------------------------------------------------------

FORM = b"progetto=demo&encode=libero&contenuto=Ciao+mondo"
PARTS = (
    b"--------------------------d74496d66958873e\r\n"
    b'Content-Disposition: form-data; name="progetto"\r\n\r\ndemo\r\n'
    b"--------------------------d74496d66958873e--\r\n"
)
DEFLATED = b"\xab\x56\x2a\x28\xca\x4f\x2f\x4a\x2d"


@pytest.mark.parametrize("address", ["/api.php", "/capacita.php", "/pratica.php"])
@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (FORM, {"content-type": "application/x-www-form-urlencoded"}, ["x-www-form-urlencoded", "json_encode"]),
        (FORM, {}, ["x-www-form-urlencoded", "JSON"]),
        (b"dati%5Bprogetto%5D=demo", {"content-type": "application/json"}, ["x-www-form-urlencoded"]),
        (PARTS, {"content-type": "multipart/form-data; boundary=d74496d66958873e"}, ["multipart", "json_encode"]),
        (b"", {}, ["vuoto", "json_encode"]),
        (b" \r\n", {}, ["vuoto"]),
        (b'\xef\xbb\xbf{"progetto": "demo"}', {}, ["BOM"]),
        (b'{"progetto": "perch\xe8"}', {}, ["UTF-8", "mb_convert_encoding"]),
        ('{"progetto": "demo"}'.encode("utf-16"), {}, ["UTF-8"]),
        (b'"{\\"progetto\\": \\"demo\\"}"', {}, ["stringa", "due volte"]),
        (b"<?xml version='1.0'?><progetto/>", {}, ["XML"]),
        (b"[1]", {}, ["oggetto"]),
        (b"{'progetto': 'demo'}", {}, ["JSON"]),
        (gzip.compress(b"{}", mtime=0), {"content-encoding": "gzip"}, ["Content-Encoding: gzip", "non compresso"]),
        (gzip.compress(b"{}", mtime=0), {}, ["Content-Encoding: gzip", "non compresso"]),
        (DEFLATED, {"content-encoding": "Deflate"}, ["Content-Encoding: deflate"]),
        (DEFLATED, {"content-encoding": "identity, br"}, ["Content-Encoding: br"]),
    ],
)  # fmt: skip
async def test_the_usual_mistakes_are_named(
    gateway: Gateway, tenant: Tenant, *, address: str, body: bytes, headers: dict[str, str], words: list[str]
) -> None:
    response = await gateway.client.post(address, content=body, headers=gateway.headers(tenant, more=headers))
    message = told.error(response, 400, "richiesta_non_valida")
    for word in words:
        assert word in message


async def test_large_things_that_are_no_json(gateway: Gateway, tenant: Tenant) -> None:
    """To name a mistake is no work, whatever the body."""
    for body in (b"a" * 30_000_000, b" " * 30_000_000, b"a=" * 15_000_000, b"--" + b"x" * 30_000_000):
        response = await gateway.client.post("/api.php", content=body, headers=gateway.headers(tenant))
        told.error(response, 400, "richiesta_non_valida")


async def test_the_key_comes_before_every_mistake(gateway: Gateway) -> None:
    for body, headers in ((FORM, {}), (gzip.compress(b"{}", mtime=0), {"content-encoding": "gzip"})):
        response = await gateway.client.post(
            "/api.php", content=body, headers={"x-pepper-key": "pk_no", **headers}
        )
        told.error(response, 401, "non_autorizzato")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=ISO-8859-1"},
        {"content-type": "nonsense"},
        {"content-encoding": "UTF-8"},
        {"content-encoding": "identity"},
        {"content-encoding": ""},
        {"accept-encoding": "gzip, br", "accept": "text/html"},
    ],
    ids=str,
)
async def test_headers_that_do_not_matter(gateway: Gateway, tenant: Tenant, headers: dict[str, str]) -> None:
    """What counts is the body; `Content-Encoding: UTF-8` is a confusion of long standing."""
    response = await gateway.client.post(
        "/api.php", content=body_of(tenant), headers=gateway.headers(tenant, more=headers)
    )
    told.answer(response)
    assert "content-encoding" not in response.headers


# --- real PHP ---------------------------------------------------------------------------------------------------------

CURL = """
$ch = curl_init($url);
curl_setopt_array($ch, [CURLOPT_RETURNTRANSFER => true, CURLOPT_POST => true, CURLOPT_TIMEOUT => 30,
    CURLOPT_HTTPHEADER => array_merge(['X-Pepper-Key: ' . $key], $headers), CURLOPT_POSTFIELDS => $body] + $more);
for ($i = 0; $i < $times; ++$i) {
    echo curl_exec($ch), "\\n", curl_getinfo($ch, CURLINFO_RESPONSE_CODE), "\\n";
    echo curl_getinfo($ch, CURLINFO_NUM_CONNECTS), "\\n";
}
"""
WRAPPER = """
$context = stream_context_create(['http' => ['method' => 'POST', 'ignore_errors' => true, 'timeout' => 30,
    'header' => array_merge(['X-Pepper-Key: ' . $key], $headers), 'content' => $body] + $more]);
echo @file_get_contents($url, false, $context), "\\n", explode(' ', $http_response_header[0])[1], "\\n";
"""
SOCKET = """
$socket = stream_socket_client('tcp://' . parse_url($url, PHP_URL_HOST) . ':' . parse_url($url, PHP_URL_PORT));
fwrite($socket, "POST /api.php HTTP/1.0\\r\\nX-Pepper-Key: $key\\r\\nContent-Length: " . strlen($body) . "\\r\\n\\r\\n");
fwrite($socket, $body);
[$head, $reply] = explode("\\r\\n\\r\\n", stream_get_contents($socket), 2);
echo $reply, "\\n", explode(' ', $head)[1], "\\n";
"""


async def php(gateway: Gateway, tenant: Tenant, program: str, **settings: str) -> list[str]:
    """The lines that a program prints; its settings are PHP expressions."""
    words = {"body": "$good", "headers": "[]", "more": "[]", "times": "1", **settings}
    given = "".join(f"${name} = {value};\n" for name, value in words.items())
    start = (
        f"$url = '{gateway.address}/api.php'; $key = '{tenant.key}';\n"
        f"$fields = ['progetto' => '{tenant.name}', 'encode' => 'libero', 'contenuto' => 'Perché? 🌶'];\n"
        "$good = json_encode($fields);\n"
        "$large = json_encode($fields + ['altro' => str_repeat('x', 1500000)]);\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(require("php"), "-d", "display_errors=stderr", "-d", "error_reporting=-1"),
        *("-r", start + given + program),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (0, b""), err
    return out.decode().splitlines()


@pytest.mark.php
@pytest.mark.parametrize(
    ("program", "settings"),
    [
        (CURL, {}),
        (CURL, {"headers": "['Content-Type: application/json']"}),
        (CURL, {"body": "$large"}),  # Expect: 100-continue
        (CURL, {"more": "[CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_0]"}),
        (CURL, {"more": "[CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_2_0]"}),
        (CURL, {"headers": "['Transfer-Encoding: chunked']"}),
        (CURL, {"headers": "['Connection: close', 'Accept-Encoding: gzip']"}),
        (CURL, {"more": "[CURLOPT_ENCODING => '']"}),
        (WRAPPER, {}),
        (WRAPPER, {"body": "$large"}),
        (WRAPPER, {"more": "['protocol_version' => 1.0]"}),
        (WRAPPER, {"more": "['protocol_version' => 1.1]"}),
        (SOCKET, {}),
    ],
    ids=lambda value: {CURL: "curl", WRAPPER: "wrapper", SOCKET: "socket"}.get(str(value), str(value)),
)
async def test_php_in_its_ways(
    gateway: Gateway, tenant: Tenant, program: str, settings: dict[str, str]
) -> None:
    reply, status, *_ = await php(gateway, tenant, program, **settings)
    assert status == "200", reply
    answer = json.loads(reply)
    told.check_answer(answer)
    assert "«Perché? 🌶»" in answer["risposta"]


@pytest.mark.php
async def test_php_keeps_its_connection(gateway: Gateway, tenant: Tenant) -> None:
    lines = await php(gateway, tenant, CURL, times="5")
    assert lines[1::3] == ["200"] * 5
    assert lines[2::3] == ["1", "0", "0", "0", "0"]


@pytest.mark.php
@pytest.mark.parametrize(
    ("program", "settings", "status", "words"),
    [
        (CURL, {"body": "$fields"}, "400", "multipart/form-data"),
        (CURL, {"body": "http_build_query($fields)"}, "400", "x-www-form-urlencoded"),
        (WRAPPER, {"body": "http_build_query($fields)"}, "400", "x-www-form-urlencoded"),
        (CURL, {"body": "json_encode(['contenuto' => \"\\xe8\"])"}, "400", "vuoto"),  # it gives false
        (CURL, {"body": "json_encode($good)"}, "400", "due volte"),
        (CURL, {"body": "gzencode($good)", "headers": "['Content-Encoding: gzip']"}, "400", "Content-Encoding"),
        (CURL, {"body": "json_encode($fields + ['extra' => []])"}, "400", "extra"),  # a list; (object) [] is none
        (CURL, {"body": "json_encode($fields + ['stream' => 1])"}, "400", "stream"),
        (CURL, {"headers": "['X-Pepper-Key: pk_no']"}, "401", "Chiave"),  # two keys
        (CURL, {"body": "$large", "headers": "['X-Pepper-Key: pk_no']"}, "401", "Chiave"),
        (CURL, {"more": "[CURLOPT_CUSTOMREQUEST => 'GET']"}, "405", "POST"),
    ],
)  # fmt: skip
async def test_php_in_its_mistakes(
    gateway: Gateway, tenant: Tenant, *, program: str, settings: dict[str, str], status: str, words: str
) -> None:
    lines = await php(gateway, tenant, program, **settings)
    assert lines[1] == status, lines
    assert words in json.loads(lines[0])["errore"]["messaggio"]
