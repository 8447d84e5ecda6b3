"""Where Dilem is served, and with which decisions of the operator."""

from __future__ import annotations

import pytest

from gateway.bootstrap.dilem import policy_of
from gateway.settings import SettingError, read_settings

LOOPBACK = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("environment", "address", "served", "private"),
    [
        ({}, LOOPBACK, True, True),
        ({}, "http://localhost:8080", True, True),
        ({}, "http://127.9.9.9:8080", True, True),
        ({}, "http://[::1]:8080", True, True),
        ({}, "http://0.0.0.0:8080", False, False),
        ({}, "http://192.0.2.1:8080", False, False),
        ({}, "http://gateway.example:8080", False, False),
        ({}, None, False, False),
        ({"PEPPER_DATABASE_URL": "mysql://a:b@localhost/c"}, LOOPBACK, False, False),
        ({"PEPPER_DATABASE_URL": "sqlite:////tmp/a.db"}, LOOPBACK, False, False),
        ({"PEPPER_TRUSTED_PROXIES": "10.0.0.0/8"}, LOOPBACK, False, False),
        ({"PEPPER_DILEM": "on"}, LOOPBACK, True, False),
        ({"PEPPER_DILEM": "on"}, "http://0.0.0.0:8080", True, False),
        ({"PEPPER_DILEM": "on", "PEPPER_TRUSTED_PROXIES": "10.0.0.0/8"}, None, True, False),
        ({"PEPPER_DILEM": "off"}, LOOPBACK, False, False),
    ],
)
def test_where_it_is_served(
    environment: dict[str, str], address: str | None, served: bool, private: bool
) -> None:
    policy = policy_of(read_settings(environment), address)
    assert (policy is not None) is served
    assert (policy is not None and policy.private) is private


@pytest.mark.parametrize(
    ("told", "address", "base"),
    [
        (None, LOOPBACK, LOOPBACK),
        (None, "http://0.0.0.0:8080", "http://localhost:8080"),
        (None, "http://[::]:8080", "http://localhost:8080"),
        (None, "http://[::1]:8080", "http://[::1]:8080"),
        ("https://Dilem.example", LOOPBACK, "https://dilem.example"),
        ("https://dilem.example/", LOOPBACK, "https://dilem.example"),
        ("http://dilem.example:8443", LOOPBACK, "http://dilem.example:8443"),
    ],
)
def test_the_public_origin(told: str | None, address: str, base: str) -> None:
    environment = {"PEPPER_DILEM": "on"} | ({"PEPPER_DILEM_BASE_URL": told} if told else {})
    policy = policy_of(read_settings(environment), address)
    assert policy is not None
    assert policy.base_url == base


def test_the_operators_decisions() -> None:
    usual = policy_of(read_settings({}), LOOPBACK)
    assert usual is not None
    assert (usual.daily_limit, usual.daily_budget, usual.daily_usd) == (20, 5_000_000, 5)
    assert (usual.sessions_per_hour, usual.requests_per_minute, usual.capacity) == (10, 300, 64)
    assert usual.pipeline_seconds == 95
    told = policy_of(
        read_settings(
            {
                "PEPPER_DILEM_DAILY_LIMIT": "0",
                "PEPPER_DILEM_DAILY_USD": "0.25",
                "PEPPER_DILEM_SESSIONS_PER_HOUR": "7",
                "PEPPER_DILEM_IP_PER_MINUTE": "8",
                "PEPPER_DILEM_CAPACITY": "9",
                "PEPPER_DILEM_PIPELINE_SECONDS": "2.5",
            }
        ),
        LOOPBACK,
    )
    assert told is not None
    assert (told.daily_limit, told.daily_budget, told.pipeline_seconds) == (0, 250_000, 2.5)
    assert (told.sessions_per_hour, told.requests_per_minute, told.capacity) == (7, 8, 9)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PEPPER_DILEM", "yes"),
        ("PEPPER_DILEM_BASE_URL", "dilem.example"),
        ("PEPPER_DILEM_BASE_URL", "ftp://dilem.example"),
        ("PEPPER_DILEM_BASE_URL", "https://dilem.example/path"),
        ("PEPPER_DILEM_BASE_URL", "https://dilem.example?a"),
        ("PEPPER_DILEM_BASE_URL", "https://u:p@dilem.example"),
        ("PEPPER_DILEM_BASE_URL", "https://dilèm.example"),
        ("PEPPER_DILEM_DAILY_LIMIT", "-1"),
        ("PEPPER_DILEM_DAILY_LIMIT", "many"),
        ("PEPPER_DILEM_DAILY_USD", "-1"),
        ("PEPPER_DILEM_DAILY_USD", "1e3"),
        ("PEPPER_DILEM_SESSIONS_PER_HOUR", "0"),
        ("PEPPER_DILEM_IP_PER_MINUTE", "0"),
        ("PEPPER_DILEM_CAPACITY", "0"),
        ("PEPPER_DILEM_PIPELINE_SECONDS", "0"),
        ("PEPPER_DILEM_PIPELINE_SECONDS", "96"),
    ],
)
def test_a_wrong_value_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingError, match=rf"^{variable}: takes "):
        read_settings({variable: value})
