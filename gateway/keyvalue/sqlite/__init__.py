"""The gate in one SQLite file: exact across the worker processes of one machine."""

from gateway.keyvalue.sqlite.gate import SqliteGate

__all__ = ["SqliteGate"]
