"""Tables, lines and instants as the commands print them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.cli.shared import MAX_LINE, complain, local_time, one_line, print_table


def test_columns_are_as_wide_as_they_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "LONG"), [("wide cell", True), (None, 2.5), ((), ["x", "y"]), ("", 0.0)])
    assert capsys.readouterr().out.splitlines() == [
        "A          LONG",
        "wide cell  yes",
        "-          2.5",
        "-          x, y",
        "-          0",
    ]


def test_a_cell_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A",), [("\x1b[2Jgone\nnext line",)])
    assert capsys.readouterr().out == "A\n?[2Jgone next line\n"


def test_an_error_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    complain("first\nsecond\x1b[31m\r\n" + "x" * 10_000)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("pepper: first second?[31m xxx")
    assert told.err.count("\n") == 1
    assert len(told.err) < MAX_LINE + 20


def test_a_long_text_is_cut() -> None:
    assert len(one_line("è" * 10_000)) == MAX_LINE


def test_instants_are_told_in_the_operators_zone() -> None:
    rome = ZoneInfo("Europe/Rome")
    assert local_time(datetime(2026, 7, 1, 22, 30, 5, 999_999, UTC), rome) == "2026-07-02 00:30:05"
    assert local_time(datetime(2026, 1, 1, tzinfo=UTC), rome) == "2026-01-01 01:00:00"
    assert local_time(None, rome) is None
