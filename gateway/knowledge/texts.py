"""The little that all embedders do to a text."""

from __future__ import annotations


def beginning(text: str, most_bytes: int) -> str:
    """As much of a text as fits into so many bytes of UTF-8, no character cut."""
    return text[:most_bytes].encode()[:most_bytes].decode(errors="ignore")
