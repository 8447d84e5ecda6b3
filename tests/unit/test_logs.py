"""What a line of the log says, and that the short way to one of the access log says the same."""

from __future__ import annotations

import json
import logging

import pytest

from gateway.logs import ACCESS_LOG, AccessRecord, JsonLines, TextLines


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
