"""Logging as operators want it: one line a record, readable on a terminal, JSON elsewhere; never contents or keys."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
from typing_extensions import override

# No record here tells where in the code or in which thread it was made: not finding out halves what one costs.
logging._srcfile = None  # noqa: SLF001 - the library's own advice to those in a hurry
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False

GATHER_SECONDS = 0.02
"""How long the line of a request waits for others."""

_FIELDS = ("request", "route", "status", "ms", "model", "trouble", "code")
"""What a record may carry besides its message."""


class AccessRecord(logging.LogRecord):
    """What the access log says of a request, made without asking the library to look for where and when else it was."""

    def __init__(self, method: str, route: str, status: int, request: str, milliseconds: int) -> None:
        self.__dict__.update(_ACCESS)
        self.created = time.time()
        self.args = (method, route, status)
        self.request = request
        self.route = route
        self.status = status
        self.ms = milliseconds


ACCESS_LOG = "gateway.access"
_ACCESS = logging.LogRecord(ACCESS_LOG, logging.INFO, "", 0, "%s %s %d", None, None).__dict__


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes records as they come, but for those of requests, which wait a moment for others: made one after another
    and written together they cost less. Nothing overtakes them, and `flush` writes them.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._gathered: list[AccessRecord] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record, AccessRecord) and (loop := _running_loop()):
            if not self._gathered:
                loop.call_later(GATHER_SECONDS, self.flush)
            self._gathered.append(record)
            return
        self.flush()
        super().emit(record)

    @override
    def flush(self) -> None:
        with self.lock or nullcontext():
            records, self._gathered = self._gathered, []
            if records:
                self.stream.write("".join([f"{self.format(record)}\n" for record in records]))
            super().flush()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class JsonLines(logging.Formatter):
    """A JSON object per record."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        carried = record.__dict__
        for name in _FIELDS:
            if name in carried:
                line[name] = carried[name]
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextLines(logging.Formatter):
    """Time, level, message, then what the record carries."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        carried = "".join(f" {name}={getattr(record, name)}" for name in _FIELDS if hasattr(record, name))
        line = f"{at} {record.levelname.lower():7} {record.getMessage()}{carried}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def logging_configuration(style: str) -> dict[str, Any]:
    """Give the configuration for `logging.config.dictConfig`; `style` is `text` or `json`."""
    formatter = "gateway.logs.JsonLines" if style == "json" else "gateway.logs.TextLines"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter}},
        "handlers": {
            "stderr": {
                "class": "gateway.logs.LineHandler",
                "formatter": "lines",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": {
            "gateway": {"level": "INFO"},
            "sqlalchemy.pool": {"level": "CRITICAL"},  # tells an outage once more, with a traceback
            "_granian": {"level": "WARNING"},
            "granian.access": {"level": "WARNING"},
        },
    }
