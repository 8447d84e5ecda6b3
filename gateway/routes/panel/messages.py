"""The panel's strings: one catalogue, Italian first, English second (`panel/messages/*.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

Messages = Mapping[str, Mapping[str, str]]


def panel_folder() -> Path:
    """The folder of templates, static files and messages: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent.parent
    installed = package / "panel"
    return installed if installed.is_dir() else package.parent / "panel"


def read_messages(folder: Path) -> Messages:
    """Read the catalogue: `{"page.key": {"it": …, "en": …}}`.

    Raises:
        ValueError: A key stands twice, or lacks a language.

    """
    messages: dict[str, Mapping[str, str]] = {}
    for path in sorted(folder.glob("*.toml")):
        for section, entries in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for name, texts in entries.items():
                key = f"{section}.{name}"
                if key in messages or set(texts) != {"it", "en"}:
                    raise ValueError(f"{path.name}: {key} stands twice or lacks a language")
                messages[key] = texts
    return messages


class Catalogue:
    """The strings of one language."""

    def __init__(self, messages: Messages, language: str) -> None:
        self._messages = messages
        self._language = language

    def __call__(self, key: str, **values: object) -> str:
        """Give a string with its values put in. An unknown key is a fault of ours: KeyError."""
        text = self._messages[key][self._language]
        return text.format(**values) if values else text

    def has(self, key: str) -> bool:
        """Whether the catalogue knows a key."""
        return key in self._messages
