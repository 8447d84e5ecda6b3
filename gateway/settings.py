"""The environment, read once into a frozen `Settings`; a wrong value names its variable and what it takes."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

MINIMUM_SECRET_BYTES = 32
DEFAULT_DRAIN_SECONDS = 300
LONGEST_PIPELINE = 95


class SettingError(ValueError):
    """A variable of the environment has a value it does not take."""

    def __init__(self, variable: str, takes: str) -> None:
        super().__init__(f"{variable}: {takes}")
        self.variable = variable


class DilemSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The second front door. `serve` None means: as long as nobody but this machine can reach it."""

    serve: bool | None = None
    base_url: str | None = None
    daily_limit: int = 20
    daily_usd: Decimal = Decimal(5)
    sessions_per_hour: int = 10
    requests_per_minute: int = 300
    capacity: int = 64
    pipeline_seconds: float = 95.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an operator sets outside the database. Unset means the documented default (`docs/operating.md`)."""

    data: Path = Path("data")
    database_url: str | None = None
    redis_url: str | None = None
    vector_url: str | None = None
    embeddings: str = "openai"
    secret: bytes | None = None
    timezone: ZoneInfo
    recipes: Path | None = None
    trusted_proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    clock_file: Path | None = None
    drain_seconds: float = DEFAULT_DRAIN_SECONDS
    log_format: str = "json"
    metrics_token: str | None = None
    webhook_private: bool = False
    anthropic_key: str | None = None
    anthropic_url: str | None = None
    openai_key: str | None = None
    openai_url: str | None = None
    dilem: DilemSettings = DilemSettings()

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
        vector_url=_vector_url(text("PEPPER_VECTOR_URL")),
        embeddings=_embeddings(text("PEPPER_EMBEDDINGS") or "openai"),
        secret=_secret(env.get("PEPPER_SECRET") or None),
        timezone=_timezone(text("PEPPER_TIMEZONE") or "Europe/Rome"),
        recipes=Path(recipes) if recipes else None,
        trusted_proxies=_networks(text("PEPPER_TRUSTED_PROXIES")),
        clock_file=Path(clock_file) if clock_file else None,
        drain_seconds=_seconds("PEPPER_DRAIN_SECONDS", text("PEPPER_DRAIN_SECONDS")),
        log_format=_log_format(text("PEPPER_LOG")),
        metrics_token=text("PEPPER_METRICS_TOKEN"),
        webhook_private=_switch("PEPPER_WEBHOOK_PRIVATE", text("PEPPER_WEBHOOK_PRIVATE")),
        anthropic_key=_header_value("ANTHROPIC_API_KEY", text("ANTHROPIC_API_KEY")),
        anthropic_url=_http_url("ANTHROPIC_BASE_URL", text("ANTHROPIC_BASE_URL")),
        openai_key=_header_value("OPENAI_API_KEY", text("OPENAI_API_KEY")),
        openai_url=_http_url("OPENAI_BASE_URL", text("OPENAI_BASE_URL")),
        dilem=DilemSettings(
            serve=_maybe("PEPPER_DILEM", text("PEPPER_DILEM")),
            base_url=_origin("PEPPER_DILEM_BASE_URL", text("PEPPER_DILEM_BASE_URL")),
            daily_limit=_number("PEPPER_DILEM_DAILY_LIMIT", text("PEPPER_DILEM_DAILY_LIMIT"), 20, least=0),
            daily_usd=_dollars("PEPPER_DILEM_DAILY_USD", text("PEPPER_DILEM_DAILY_USD"), Decimal(5)),
            sessions_per_hour=_number(
                "PEPPER_DILEM_SESSIONS_PER_HOUR", text("PEPPER_DILEM_SESSIONS_PER_HOUR"), 10
            ),
            requests_per_minute=_number(
                "PEPPER_DILEM_IP_PER_MINUTE", text("PEPPER_DILEM_IP_PER_MINUTE"), 300
            ),
            capacity=_number("PEPPER_DILEM_CAPACITY", text("PEPPER_DILEM_CAPACITY"), 64),
            pipeline_seconds=_pipeline(
                "PEPPER_DILEM_PIPELINE_SECONDS", text("PEPPER_DILEM_PIPELINE_SECONDS")
            ),
        ),
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


def _vector_url(value: str | None) -> str | None:
    if value is None:
        return None
    takes = "takes postgresql://user:password@host:5432/db"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise SettingError("PEPPER_VECTOR_URL", takes) from None
    named = len(parts.path) > 1 and (port is None or port > 0)
    if parts.scheme in {"postgresql", "postgres"} and parts.hostname and named:
        return value
    raise SettingError("PEPPER_VECTOR_URL", takes)


def _embeddings(value: str) -> str:
    if value not in {"openai", "local"}:
        raise SettingError("PEPPER_EMBEDDINGS", "takes openai or local")
    return value


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


def _switch(variable: str, value: str | None) -> bool:
    if value not in {None, "on", "off"}:
        raise SettingError(variable, "takes on or off")
    return value == "on"


def _maybe(variable: str, value: str | None) -> bool | None:
    """Give a switch that may also be left to Pepper."""
    return None if value is None else _switch(variable, value)


def _number(variable: str, value: str | None, default: int, *, least: int = 1) -> int:
    if value is None:
        return default
    if not re.fullmatch(r"[0-9]{1,7}", value) or int(value) < least:
        raise SettingError(variable, f"takes a whole number from {least} to 9999999")
    return int(value)


def _dollars(variable: str, value: str | None, default: Decimal) -> Decimal:
    if value is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value):
        raise SettingError(variable, "takes US dollars, zero or more, such as 5 or 2.50")
    return Decimal(value)


def _pipeline(variable: str, value: str | None) -> float:
    """Give the deadline of a turn: callers wait 110 seconds, and a turn's lock is held for 120."""
    if value is None:
        return DilemSettings().pipeline_seconds
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3})?", value) or not 1 <= float(value) <= LONGEST_PIPELINE:
        raise SettingError(variable, f"takes seconds, from 1 to {LONGEST_PIPELINE}")
    return float(value)


def _origin(variable: str, value: str | None) -> str | None:
    """Give an origin: scheme, host and port, nothing more; without the slash at its end."""
    if value is None:
        return None
    parts = urlsplit(_http_url(variable, value) or "")
    if parts.path not in {"", "/"} or parts.query or parts.fragment or not value.isascii():
        raise SettingError(variable, "takes an origin such as https://dilem.example, without a path")
    return f"{parts.scheme}://{parts.netloc}".lower()


def _http_url(variable: str, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise SettingError(variable, "takes an http:// or https:// address") from None
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or parts.username is not None
        or set(value) & set("?#")
    ):
        raise SettingError(variable, "takes an http:// or https:// address, without user, password and query")
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
