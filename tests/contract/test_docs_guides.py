"""The guides (streaming, security, moving) say numbers and names as the code has them."""

from __future__ import annotations

import re

import pytest

from gateway.domain import operators
from gateway.domain.calls import TOTAL_SECONDS
from gateway.domain.operator_settings import CONVERSATION_DAYS, ENDING_CHARACTERS
from gateway.domain.secrets import KEY_BYTES
from gateway.routes import responses
from gateway.storage import panel_sessions
from gateway.wire.sse import EVENTS
from tests.docs import page_text, prose

HOUR = 3_600


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        ("streaming.md", f"a ping comes every {responses.PING_SECONDS:.0f}"),
        ("streaming.md", f"would have to be above {TOTAL_SECONDS:.0f}"),
        ("security.md", f"a project's key ({KEY_BYTES} random bytes)"),
        ("security.md", f"its last {ENDING_CHARACTERS} characters"),
        ("security.md", f"{CONVERSATION_DAYS} days after the last call"),
        ("security.md", f"ends after {panel_sessions.IDLE.seconds // HOUR} hour without use"),
        ("security.md", f"after {panel_sessions.ABSOLUTE.seconds // HOUR} hours in any case"),
        ("moving.md", f"**Timeout**: {TOTAL_SECONDS:.0f} seconds and a little more"),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str) -> None:
    assert fact in prose(page)


def test_the_events_of_the_guide_are_events() -> None:
    told = set(re.findall(r"event: ([a-z_]+)", page_text("streaming.md")))
    assert told <= set(EVENTS)
    assert {"delta", "done"} <= told


def test_what_is_told_of_people_is_so() -> None:
    """Three roles, in the order of what they may do: seeing, changing, deciding about people."""
    assert [role.value for role in operators.Role] == ["viewer", "editor", "owner"]
    assert "who sees, who changes, who also decides about people" in prose("security.md")
