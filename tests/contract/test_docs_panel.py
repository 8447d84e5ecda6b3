"""The page about the panel, and the settings that are made in it, are what the code has: pages, roles, numbers, fields."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from gateway.domain import operator_settings, operators
from gateway.domain.operator_settings import PanelSettings
from gateway.routes.panel import account, brakes
from gateway.storage import panel_sessions
from gateway.wire.alerts import AlertBody
from tests.docs import DOCS, first_cells, names, page_text, prose, section

ROOT = DOCS.parent
HOUR = 3_600
ROWS = {
    "keys": "provider keys",
    "conversation_days": "days of conversations",
    "recipients": "mail addresses",
    "mail": "mail server",
    "mail_password": "password of the mail server",
    "alert_url": "web address",
    "alert_secret": "signed and under the same rules",
}
"""Where each setting is told."""


def _messages(part: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "panel" / "messages" / "common.toml").read_text())[part]
    return found


def test_the_pages_are_those_of_the_menu() -> None:
    menu = (ROOT / "panel" / "templates" / "_navigation.html").read_text()
    keys = re.findall(r'\("/panel[^"]*", "(\w+)", Role', menu)
    shown = [_messages("nav")[key]["it"] for key in keys]
    assert list(first_cells(section(page_text("panel.md"), "## The pages"))) == shown


def test_the_roles_are_those_there_are() -> None:
    table = section(page_text("panel.md"), "## Roles")
    assert names(table) == [role.value for role in operators.Role]
    for role in operators.Role:
        assert f"| `{role.value}` | {_messages('role')[role.value]['it']} |" in table


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        ("panel.md", f"{operators.MINIMUM_PASSWORD} to {operators.MAXIMUM_PASSWORD} characters"),
        ("panel.md", f"the {account.RECOVERY_CODES} recovery codes"),
        ("panel.md", f"ends after {panel_sessions.IDLE.seconds // HOUR} hour without use"),
        ("panel.md", f"after {panel_sessions.ABSOLUTE.seconds // HOUR} hours in any case"),
        ("panel.md", f"after {brakes.MOST_PER_ACCOUNT_AND_ADDRESS} failures of one address at one account"),
        ("panel.md", f"{brakes.MOST_PER_ADDRESS} of one address or {brakes.MOST_PER_ACCOUNT} at one account"),
        ("panel.md", f"until they are {brakes.WINDOW.seconds // 60} minutes old"),
        (
            "operating.md",
            f"1 to {operator_settings.LONGEST_CONVERSATION_DAYS:,}; {operator_settings.CONVERSATION_DAYS} as long",
        ),
        ("operating.md", f"shorter than {operator_settings.SHORTEST_SHOWN_KEY}, none"),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str) -> None:
    assert fact in prose(page)


def test_every_setting_of_the_panel_is_told() -> None:
    assert list(ROWS) == list(PanelSettings.__struct_fields__)
    page = page_text("operating.md")
    told = section(page, "## Settings in the panel") + section(page, "## Alerts")
    assert [name for name, words in ROWS.items() if words not in told] == []


def test_every_field_of_an_alert_is_told() -> None:
    told = section(page_text("operating.md"), "## Alerts")
    assert [name for name in AlertBody.__struct_encode_fields__ if name not in told] == []
