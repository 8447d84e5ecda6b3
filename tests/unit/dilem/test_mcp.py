"""Behind the MCP door: calls that don't end or fail, and a protocol server that starts late, ends, and starts again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.dilem import errors
from gateway.dilem.contract import MCP_VERSIONS, DecideRequest, Error, Session
from gateway.dilem.errors import DilemFailure
from gateway.dilem.operations import OPERATIONS
from gateway.dilem.service import Dilem
from gateway.dilem.sessions import Caller
from gateway.domain.errors import StoreAwayError
from gateway.routes.dilem.mcp import calls, protocol
from gateway.routes.dilem.mcp.calls import Call, Calls
from gateway.routes.dilem.mcp.running import Running
from gateway.routes.dilem.mcp.texts import WORDS
from gateway.routes.exchange import BodyBudget, Exchange

DECIDE = {"session": "x" * 20, "case_id": "a", "text": "Treno o auto?"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def call_of(arguments: dict[str, Any]) -> Call:
    exchange = Exchange({"method": "POST", "headers": []}, None, None, BodyBudget())
    return Call(exchange, "192.0.2.1", arguments)


def calls_with(decide: Callable[[], Awaitable[Any]]) -> Calls:
    """Tools of a service that knows one thing to do."""

    async def identify(_: str | None, address: str) -> Caller:
        return Caller(1, address)

    async def decided(_: Caller, __: str, ___: DecideRequest, ____: str) -> Any:
        return await decide()

    async def started(_: str | None, __: str) -> Session:
        await decide()
        return Session(session="x", expires_in=7_776_000)

    service = SimpleNamespace(identify=identify, decide=decided, start_session=started)
    return Calls(cast("Dilem", service))


async def never() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [("decide", DECIDE, "outcome_unknown"), ("start_session", {}, "service_unavailable")],
)
async def test_a_call_ends_by_its_own_deadline(
    monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any], code: str
) -> None:
    monkeypatch.setattr(calls, "CALL_SECONDS", 0.05)
    answer = await calls_with(never).take(tool, call_of(arguments))
    assert isinstance(answer, Error)
    assert answer.code == code


@pytest.mark.parametrize(
    ("error", "code", "logged"),
    [
        (DilemFailure(errors.PROVIDER_TIMEOUT), "provider_timeout", False),
        (StoreAwayError("the database does not answer"), "service_unavailable", False),
        (RuntimeError("nobody foresaw this"), "service_unavailable", True),
    ],
)
async def test_whatever_goes_wrong_is_an_error_object(
    caplog: pytest.LogCaptureFixture, error: Exception, code: str, logged: bool
) -> None:
    async def failing() -> None:
        raise error

    answer = await calls_with(failing).take("decide", call_of(DECIDE))
    assert isinstance(answer, Error)
    assert answer.code == code
    assert "nobody foresaw" not in str(answer)
    assert any(record.levelno == logging.ERROR for record in caplog.records) == logged


async def test_there_is_no_other_tool() -> None:
    with pytest.raises(KeyError):
        await calls_with(never).take("nothing", call_of({}))


def test_every_tool_has_its_words() -> None:
    assert list(WORDS) == [operation.name for operation in OPERATIONS]


def test_the_package_knows_the_revisions_that_are_offered() -> None:
    assert set(MCP_VERSIONS) <= protocol.MODERN | protocol.HANDSHAKE
    assert protocol.MODERN


async def test_the_server_starts_with_the_first_call_once_and_ends_with_the_application() -> None:
    running = Running(calls_with(never))
    async with running.life():
        assert vars(running)["_task"] is None
        found = await asyncio.gather(*(running.protocol() for _ in range(5)))
        assert len({id(each) for each in found}) == 1
        status, told = await found[0].answer(dict(PING), [], call_of({}))
        assert (status, told) == (200, b'{"jsonrpc":"2.0","id":1,"result":{}}')
        task = running._task
        assert task is not None
    assert task.done()
    assert task.exception() is None


async def test_a_server_that_ended_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    running = Running(calls_with(never))
    async with running.life():
        first = await running.protocol()
        assert running._task is not None
        running._task.cancel()
        await asyncio.wait({running._task})
        second = await running.protocol()
        assert second is not first
        assert (await second.answer(dict(PING), [], call_of({})))[0] == 200
    assert not caplog.records


async def test_a_server_that_can_not_start_says_so_to_who_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Calls) -> None:
        raise RuntimeError("no protocol")

    running = Running(calls_with(never))
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "Protocol", broken)
        with pytest.raises(RuntimeError, match="no protocol"):
            await running.protocol()
    assert "the protocol's server ended" in caplog.text
    async with running.life():
        assert (await (await running.protocol()).answer(dict(PING), [], call_of({})))[0] == 200
