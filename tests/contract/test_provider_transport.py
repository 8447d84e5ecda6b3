"""The shared HTTP client: connections are kept, not capped, and one the server closed meanwhile costs no attempt."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from yarl import URL

from gateway.ports import ProviderError, Trouble
from gateway.providers import transport as transport_module
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from gateway.providers.transport import LARGE_BODY_BYTES, Outgoing, Transport
from gateway.providers.upstream import environment_proxy
from tests.fakes import say, until
from tests.unit.providers.stage import Stage, call_of, open_stage, open_transport, outcome_of, target_of

MESSAGE = (
    b'{"type":"message","content":[{"type":"text","text":"ciao"}],"stop_reason":"end_turn",'
    b'"usage":{"input_tokens":1,"output_tokens":1}}'
)
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(MESSAGE),
    MESSAGE,
)

Handler = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One connection of a server that does what a test says, byte for byte."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def request(self) -> None:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await self.reader.readexactly(int(length.split(b":")[1]))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class Server:
    def __init__(self) -> None:
        self.url = ""
        self.connections = 0


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[Server]:
    server = Server()

    async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            await handle(Peer(server.connections, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(on_connect, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server


@pytest_asyncio.fixture
async def transport() -> AsyncIterator[Transport]:
    async with open_transport() as transport:
        yield transport


@pytest_asyncio.fixture(params=["claude", "openai"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(request.param) as stage:
        yield stage


async def ask(transport: Transport, server: Server, *, watched: bool = False) -> Any:
    return await outcome_of(Claude(transport, "k", server.url), call_of(watched=watched), target_of("claude"))


# Kept connections


@pytest.mark.parametrize("watched", [False, True], ids=["whole", "pieces"])
async def test_a_connection_is_used_again(transport: Transport, watched: bool) -> None:
    body = b'data: {"type":"message_start","message":%s}\n\n' % MESSAGE
    body += b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"ciao"}}\n\n'
    body += b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

    async def handle(peer: Peer) -> None:
        while True:
            await peer.request()
            if not watched:
                await peer.send(REPLY)
                continue
            await peer.send(head + b"%x\r\n%s\r\n" % (len(body), body))
            # The very last bytes come late, as they do from afar.
            await asyncio.sleep(0.05)
            await peer.send(b"0\r\n\r\n")

    async with serving(handle) as server:
        for _ in range(3):
            assert (await ask(transport, server, watched=watched)).text == "ciao"
            await asyncio.sleep(0.1)

        assert server.connections == 1


async def test_a_stream_that_does_not_close_does_not_hold_its_connection(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "_LINGER_SECONDS", 0.05)
    closed = asyncio.Event()
    body = b'data: {"choices":[{"delta":{"content":"ciao"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(body), body)
        )
        await peer.reader.read()
        closed.set()

    async with serving(handle) as server:
        told = await outcome_of(
            OpenAI(transport, "k", server.url), call_of(watched=True), target_of("openai")
        )

        assert told.text == "ciao"
        async with asyncio.timeout(1):
            await closed.wait()


async def test_a_close_that_has_arrived_unseen_costs_no_attempt(stage: Stage) -> None:
    assert (await stage.ask()).error is None
    # Both block the event loop, so that it can't notice the end of the connection that was kept.
    stage.server.stop()
    stage.server.start()

    assert (await stage.ask()).error is None


@pytest.mark.parametrize("watched", [False, True], ids=["whole", "pieces"])
async def test_a_connection_closed_while_idle_costs_no_attempt(
    transport: Transport, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "_STALE_AFTER_SECONDS", 0.0)

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY)
        if peer.number == 1:
            # Closed when the next request is on its way: the client couldn't have known.
            await peer.reader.readexactly(1)

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"
        assert (await ask(transport, server)).text == "ciao"
        assert server.connections == 2


async def test_it_is_asked_again_only_once(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_STALE_AFTER_SECONDS", 0.0)

    async def handle(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.send(REPLY)
            await peer.request()

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"
        assert (await ask(transport, server)).trouble is Trouble.UNREACHABLE
        assert server.connections == 2


@pytest.mark.parametrize(
    "beginning", [b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-le"]
)
async def test_who_began_to_answer_is_not_asked_again(
    transport: Transport, beginning: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "_STALE_AFTER_SECONDS", 0.0)

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY)
        await peer.request()
        await peer.send(beginning)

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"
        assert (await ask(transport, server)).trouble in {Trouble.UNREACHABLE, Trouble.FAULTY}
        assert server.connections == 1


async def test_a_busy_connection_that_breaks_is_a_failed_attempt(transport: Transport) -> None:
    """Used a moment ago, so the server can't have closed it for idleness: it may have read the request."""

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY)
        await peer.request()

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"
        assert (await ask(transport, server)).trouble is Trouble.UNREACHABLE


async def test_a_new_connection_that_breaks_is_a_failed_attempt(transport: Transport) -> None:
    async with serving(Peer.request) as server:
        assert (await ask(transport, server)).trouble is Trouble.UNREACHABLE
        assert server.connections == 1


async def test_more_than_a_hundred_at_once(stage: Stage) -> None:
    """The HTTP client's own cap would be a hundred; the first wait here until the last have come."""
    everybody = 120
    server = stage.server
    server.default = say("ciao", first_delay=3600)
    asking = asyncio.gather(*(stage.ask() for _ in range(everybody)))

    await until(lambda: server.open == everybody, timeout=20)

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


# Odd replies


async def test_compressed_answers_are_read(transport: Transport) -> None:
    packed = gzip.compress(MESSAGE)

    async def handle(peer: Peer) -> None:
        await peer.request()
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
        await peer.send(head + packed)

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"


async def test_a_compressed_answer_is_not_let_grow_beyond_the_limit(transport: Transport) -> None:
    packed = gzip.compress(b" " * (64 * 1024 * 1024) + MESSAGE)

    async def handle(peer: Peer) -> None:
        await peer.request()
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
        await peer.send(head + packed)

    async with serving(handle) as server:
        assert (await ask(transport, server)).trouble is Trouble.FAULTY


@pytest.mark.parametrize(
    "junk",
    [b"ciao\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 100, b"HTTP/1.1 200 OK\r\n\xff\xfe: x\r\n\r\n"],
)
async def test_what_is_no_http_is_no_answer(transport: Transport, junk: bytes) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(junk)

    async with serving(handle) as server:
        assert (await ask(transport, server)).trouble in {Trouble.FAULTY, Trouble.UNREACHABLE}


async def test_long_headers_are_read(transport: Transport) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY.replace(b"OK\r\n", b"OK\r\nx-policy: " + b"a" * 30_000 + b"\r\n"))

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"


async def test_what_only_announces_a_reply_is_passed_over(transport: Transport) -> None:
    async def handle(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
            await asyncio.sleep(0.02)
            await peer.send(REPLY)

    async with serving(handle) as server:
        for _ in range(2):
            assert (await ask(transport, server)).text == "ciao"
        assert server.connections == 1


@pytest.mark.parametrize("size", [10, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, 3 * LARGE_BODY_BYTES])
async def test_a_body_arrives_as_it_is_whatever_its_size(transport: Transport, size: int) -> None:
    heads: list[bytes] = []

    async def handle(peer: Peer) -> None:
        heads.append(await peer.reader.readuntil(b"\r\n\r\n"))
        assert await peer.reader.readexactly(size) == b"x" * size
        await peer.send(REPLY)

    async with serving(handle) as server:
        outgoing = Outgoing(
            URL(server.url).joinpath("v1"), {"host": "qui", "x-prova": "sì", "user-agent": "u"}
        )
        reply = await transport.post(outgoing, b"x" * size)
        assert await reply.whole() == MESSAGE
        reply.close(complete=True)
    request, *headers = heads[0].decode().strip().split("\r\n")
    assert request == "POST /v1 HTTP/1.1"
    told = dict(line.lower().split(": ", 1) for line in headers)
    assert len(told) == len(headers)
    assert told["content-length"] == str(size)
    assert (told["host"], told["x-prova"], told["user-agent"]) == ("qui", "sì", "u")


async def test_a_header_never_becomes_two(transport: Transport) -> None:
    outgoing = Outgoing(URL("http://127.0.0.1:9/"), {"x-prova": "a\r\nx-altro: b"})
    with pytest.raises(ValueError, match="two"):
        await transport.post(outgoing, b"{}")


async def test_an_error_body_that_does_not_come_is_not_waited_for(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "_ERROR_BODY_SECONDS", 0.05)

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 529 Busy\r\nretry-after: 4\r\ncontent-length: 100\r\n\r\n{")
        await peer.reader.read()

    async with serving(handle) as server:
        told = await ask(transport, server)
        assert told.trouble is Trouble.OVERLOADED
        assert told.error.retry_after == 4


async def test_an_answer_without_a_length_ends_with_its_connection(transport: Transport) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + MESSAGE)

    async with serving(handle) as server:
        assert (await ask(transport, server)).text == "ciao"


async def test_who_does_not_accept_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    transport = Transport(connect_seconds=0.1)
    await transport.open()
    try:
        # A name that resolves to nothing in time stands for all that can take long on the way to a connection.
        monkeypatch.setattr(transport._session._connector, "_resolve_host", never)  # type: ignore[union-attr]
        with pytest.raises(ProviderError) as caught:
            await transport.post(Outgoing(URL("http://provider.invalid/"), {}), b"{}")
    finally:
        await transport.aclose()
    assert caught.value.trouble is Trouble.UNREACHABLE


async def test_closing_closes_everything() -> None:
    closed = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY)
        await peer.reader.read()
        closed.set()

    async with serving(handle) as server:
        async with open_transport() as transport:
            await ask(transport, server)
            assert not closed.is_set()
        async with asyncio.timeout(1):
            await closed.wait()


async def test_before_it_is_open_nothing_can_be_sent() -> None:
    with pytest.raises(RuntimeError):
        await Transport().post(Outgoing(URL("http://127.0.0.1:9/"), {}), b"{}")


def test_an_outgoing_does_not_show_its_key() -> None:
    assert "segreto" not in repr(Outgoing(URL("http://127.0.0.1:9/"), {"authorization": "segreto"}))


# Proxies


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://api.example.org/v1", None),
        ({"https_proxy": "http://proxy:3128"}, "https://api.example.org/v1", "http://proxy:3128"),
        ({"https_proxy": "proxy:3128"}, "https://api.example.org/v1", "http://proxy:3128"),
        ({"http_proxy": "http://proxy:3128"}, "https://api.example.org/v1", None),
        ({"all_proxy": "http://proxy:3128"}, "https://api.example.org/v1", "http://proxy:3128"),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "example.org"}, "https://api.example.org/v1", None),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "*"}, "http://api.example.org/v1", None),
    ],
)
def test_the_proxy_of_the_environment(
    environment: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert environment_proxy(URL(url)) == proxy


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_call_goes_through_the_proxy(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    asked: list[bytes] = []

    async def handle(peer: Peer) -> None:
        asked.append(await peer.reader.readuntil(b"\r\n"))
        await peer.send(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")

    async with serving(handle) as server:
        monkeypatch.setenv("http_proxy", server.url.replace("http", scheme))
        told = await stage.ask()

    assert stage.server.seen == []
    assert told.error is not None
    if scheme == "http":
        assert asked[0].startswith(f"POST {stage.server.url}".encode())
        assert told.trouble is Trouble.FAULTY
    else:
        assert told.trouble is Trouble.REJECTED
        assert "proxy" in told.error.reason
