"""The vector index in PostgreSQL with pgvector: shared by every node."""

from gateway.vectors.pgvector.index import PgvectorIndex

__all__ = ["PgvectorIndex"]
