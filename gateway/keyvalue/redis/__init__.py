"""The gate in Redis: exact across nodes, every decision one Lua script and one round trip."""

from gateway.keyvalue.redis.gate import RedisGate

__all__ = ["RedisGate"]
