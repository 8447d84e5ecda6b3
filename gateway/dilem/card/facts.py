"""What is known of a card before it is drawn: its measures, its name, what its facts are called."""

from __future__ import annotations

from typing import Final

from gateway.dilem.contract import CardFile, Language, Theme

WIDTH: Final = 1080
HEIGHT: Final = 1350
MOST_BYTES: Final = 2 * 1024 * 1024
SECONDS: Final = 10
"""How long anybody waits for a card."""


def file_name(theme: Theme, language: Language) -> str:
    """Give the name a card is saved under; it never holds text of a user."""
    return f"dilem-{theme}-{language}.png"


def card_file(png: bytes, theme: Theme, language: Language) -> CardFile:
    """Give the facts of a drawn card."""
    return CardFile(
        filename=file_name(theme, language),
        mime_type="image/png",
        size_bytes=len(png),
        width=WIDTH,
        height=HEIGHT,
        theme=theme,
        language=language,
    )
