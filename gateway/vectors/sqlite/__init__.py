"""The vector index in one SQLite file: exact, shared by the worker processes of one machine."""

from gateway.vectors.sqlite.index import SqliteIndex

__all__ = ["SqliteIndex"]
