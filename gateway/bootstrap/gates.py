"""Which key-value store: Redis if it is set, else the embedded one."""

from __future__ import annotations

from gateway.ports import Gate
from gateway.settings import Settings


def open_gate(settings: Settings) -> Gate:
    """The key-value store; nothing is connected yet."""
    if settings.redis_url is not None:
        from gateway.keyvalue.redis import RedisGate  # noqa: PLC0415 - only one of the two is ever needed

        return RedisGate(settings.redis_url)
    from gateway.keyvalue.sqlite import SqliteGate  # noqa: PLC0415

    return SqliteGate(settings.data)
