"""What a line of the log says, and that the short way to one of the access log says the same."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest

from gateway.logs import ACCESS_LOG, GATHER_SECONDS, AccessRecord, JsonLines, LineHandler, TextLines


def ordinary() -> logging.LogRecord:
    carried = {"request": "req_1", "route": "/api.php", "status": 200, "ms": 12}
    arguments = ("POST", "/api.php", 200)
    logger = logging.getLogger(ACCESS_LOG)
    record = logger.makeRecord(
        ACCESS_LOG, logging.INFO, "", 0, "%s %s %d", arguments, None, None, extra=carried
    )
    record.created = 1_796_040_000.5
    return record


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines(), logging.Formatter(logging.BASIC_FORMAT)])
def test_an_access_line_is_what_the_library_would_have_made(formatter: logging.Formatter) -> None:
    record = AccessRecord("POST", "/api.php", 200, "req_1", 12)
    record.created = 1_796_040_000.5
    assert formatter.format(record) == formatter.format(ordinary())


def test_one_access_line_leaves_nothing_in_the_next() -> None:
    first = AccessRecord("POST", "/api.php", 200, "req_1", 12)
    second = AccessRecord("GET", "/stato.php", 503, "req_2", 3)
    assert first.getMessage() == "POST /api.php 200"
    assert json.loads(JsonLines().format(second)) == {
        "at": json.loads(JsonLines().format(second))["at"],
        "level": "info",
        "logger": ACCESS_LOG,
        "message": "GET /stato.php 503",
        "request": "req_2",
        "route": "/stato.php",
        "status": 503,
        "ms": 3,
    }


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def handler(written: io.StringIO) -> LineHandler:
    handler = LineHandler(written)
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def said(text: str) -> logging.LogRecord:
    return logging.LogRecord("gateway", logging.WARNING, "", 0, text, None, None)


async def test_lines_of_requests_are_written_together_a_moment_later(
    handler: LineHandler, written: io.StringIO
) -> None:
    for number in range(3):
        handler.handle(AccessRecord("GET", f"/{number}", 200, "req_1", 1))
    assert written.getvalue() == ""
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert written.getvalue() == "GET /0 200\nGET /1 200\nGET /2 200\n"


async def test_nothing_overtakes_the_line_of_a_request(handler: LineHandler, written: io.StringIO) -> None:
    handler.handle(AccessRecord("GET", "/1", 200, "req_1", 1))
    handler.handle(said("trouble"))
    handler.handle(AccessRecord("GET", "/2", 200, "req_2", 1))
    assert written.getvalue() == "GET /1 200\ntrouble\n"
    handler.flush()
    assert written.getvalue() == "GET /1 200\ntrouble\nGET /2 200\n"
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert written.getvalue().count("\n") == 3


def test_without_a_loop_every_line_is_written_at_once(handler: LineHandler, written: io.StringIO) -> None:
    handler.handle(AccessRecord("GET", "/1", 200, "req_1", 1))
    assert written.getvalue() == "GET /1 200\n"
