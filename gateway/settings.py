"""The environment, read once into a frozen `Settings`; a wrong value names its variable and what it takes."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

MINIMUM_SECRET_BYTES = 32
DEFAULT_DRAIN_SECONDS = 300


class SettingError(ValueError):
    """A variable of the environment has a value it does not take."""

    def __init__(self, variable: str, takes: str) -> None:
        super().__init__(f"{variable}: {takes}")
        self.variable = variable


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an operator sets outside the database. Unset means the documented default (`docs/operating.md`)."""

    data: Path = Path("data")
    database_url: str | None = None
    redis_url: str | None = None
    secret: bytes | None = None
    timezone: ZoneInfo
    recipes: Path | None = None
    trusted_proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    clock_file: Path | None = None
    drain_seconds: float = DEFAULT_DRAIN_SECONDS
    log_format: str = "json"
    metrics_token: str | None = None
    anthropic_key: str | None = None
    anthropic_url: str | None = None
    openai_key: str | None = None
    openai_url: str | None = None

    @property
    def embedded_database(self) -> bool:
        """Whether the relational store is the file in the data folder."""
        return self.database_url is None


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read and check the environment.

    Raises:
        SettingError: The first variable with a wrong value.

    """
    env = os.environ if environment is None else environment

    def text(name: str) -> str | None:
        value = env.get(name, "").strip()
        return value or None

    recipes = text("PEPPER_RECIPES")
    if recipes is not None and not Path(recipes).is_dir():
        raise SettingError("PEPPER_RECIPES", "takes an existing folder of recipe files")
    clock_file = text("PEPPER_CLOCK_FILE")
    return Settings(
        data=_folder("PEPPER_DATA", text("PEPPER_DATA") or "data"),
        database_url=_database_url(text("PEPPER_DATABASE_URL")),
        redis_url=_redis_url(text("PEPPER_REDIS_URL")),
        secret=_secret(env.get("PEPPER_SECRET") or None),
        timezone=_timezone(text("PEPPER_TIMEZONE") or "Europe/Rome"),
        recipes=Path(recipes) if recipes else None,
        trusted_proxies=_networks(text("PEPPER_TRUSTED_PROXIES")),
        clock_file=Path(clock_file) if clock_file else None,
        drain_seconds=_seconds("PEPPER_DRAIN_SECONDS", text("PEPPER_DRAIN_SECONDS")),
        log_format=_log_format(text("PEPPER_LOG")),
        metrics_token=text("PEPPER_METRICS_TOKEN"),
        anthropic_key=_header_value("ANTHROPIC_API_KEY", text("ANTHROPIC_API_KEY")),
        anthropic_url=_http_url("ANTHROPIC_BASE_URL", text("ANTHROPIC_BASE_URL")),
        openai_key=_header_value("OPENAI_API_KEY", text("OPENAI_API_KEY")),
        openai_url=_http_url("OPENAI_BASE_URL", text("OPENAI_BASE_URL")),
    )


def _folder(variable: str, value: str) -> Path:
    path = Path(value)
    if path.exists() and not path.is_dir():
        raise SettingError(variable, "takes a folder")
    return path


def _database_url(value: str | None) -> str | None:
    if value is None:
        return None
    takes = "takes mysql://user:password@host:3306/db or sqlite:////absolute/path.db"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise SettingError("PEPPER_DATABASE_URL", takes) from None
    if parts.scheme == "mysql" and parts.hostname and len(parts.path) > 1 and (port is None or port > 0):
        return value
    if parts.scheme == "sqlite" and not parts.netloc and parts.path.startswith("//") and len(parts.path) > 2:
        return value
    raise SettingError("PEPPER_DATABASE_URL", takes)


def _redis_url(value: str | None) -> str | None:
    if value is None:
        return None
    takes = "takes redis://host:6379/0, rediss://... or redis+cluster://..."
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise SettingError("PEPPER_REDIS_URL", takes) from None
    database = parts.path.strip("/")
    if (
        parts.scheme in {"redis", "rediss", "redis+cluster"}
        and parts.hostname
        and re.fullmatch(r"\d*", database)
    ):
        return value
    raise SettingError("PEPPER_REDIS_URL", takes)


def _secret(value: str | None) -> bytes | None:
    if value is None:
        return None
    secret = value.encode()
    if len(secret) < MINIMUM_SECRET_BYTES:
        raise SettingError("PEPPER_SECRET", f"takes at least {MINIMUM_SECRET_BYTES} bytes")
    return secret


def _timezone(value: str) -> ZoneInfo:
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingError("PEPPER_TIMEZONE", "takes a time zone's name, such as Europe/Rome") from None


def _networks(value: str | None) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    try:
        return tuple(ipaddress.ip_network(item.strip()) for item in (value or "").split(",") if item.strip())
    except ValueError:
        raise SettingError("PEPPER_TRUSTED_PROXIES", "takes networks, such as 10.0.0.0/8,127.0.0.1") from None


def _seconds(variable: str, value: str | None) -> float:
    if value is None:
        return DEFAULT_DRAIN_SECONDS
    if not re.fullmatch(r"\d{1,5}(\.\d{1,3})?", value):
        raise SettingError(variable, "takes seconds, zero or more")
    return float(value)


def _log_format(value: str | None) -> str:
    if value is None:
        return "text" if sys.stderr.isatty() else "json"
    if value not in {"text", "json"}:
        raise SettingError("PEPPER_LOG", "takes text or json")
    return value


def _http_url(variable: str, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise SettingError(variable, "takes an http:// or https:// address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise SettingError(variable, "takes an http:// or https:// address, without user and password")
    return value


def _header_value(variable: str, value: str | None) -> str | None:
    """A key that can be sent in a header."""
    if value is not None and not re.fullmatch(r"[\x21-\x7e]+", value):
        raise SettingError(variable, "takes a key of printable ASCII characters, without blanks")
    return value


def mysql_parts(url: str) -> tuple[str, int, str, str, str]:
    """Take a checked mysql:// address apart: host, port, user, password, database."""
    parts = urlsplit(url)
    return (
        parts.hostname or "",
        parts.port or 3306,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        unquote(parts.path.lstrip("/")),
    )
