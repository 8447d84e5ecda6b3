"""A page as a tree of blocks, told later as HTML and as Markdown.

Prose holds `code`, **strong** and [links](/path); a link's address that begins with a slash is of this site.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Prose(Struct, frozen=True):
    """A paragraph."""

    text: str


class Code(Struct, frozen=True):
    """What is to be copied, or read as it is; the same in every language.

    Attributes:
        label: Says what it is.
        syntax: As a fenced block names it.

    """

    label: str
    syntax: str
    text: str


class Steps(Struct, frozen=True):
    """A numbered list."""

    items: tuple[str, ...]


class Row(Struct, frozen=True, kw_only=True):
    """A member of an object.

    Attributes:
        need: "required" or "optional" in the page's language.
        note: What its values are held to, in words.
        pattern: What its strings match.
        rows: The members of what it holds.

    """

    name: str
    type: str
    need: str = ""
    text: str = ""
    note: str = ""
    pattern: str = ""
    rows: tuple[Row, ...] = ()


class Rows(Struct, frozen=True):
    """The members of an object; `label` says of which, for those who don't see the page."""

    label: str
    rows: tuple[Row, ...]


class Table(Struct, frozen=True):
    """Cells of prose."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Card(Struct, frozen=True):
    """A way in, with a link."""

    title: str
    href: str
    text: str


class Cards(Struct, frozen=True):
    """Ways in, side by side."""

    cards: tuple[Card, ...]


class Link(Struct, frozen=True):
    text: str
    href: str


class Links(Struct, frozen=True):
    """Links in a row."""

    links: tuple[Link, ...]


class Endpoint(Struct, frozen=True):
    """A REST method and path."""

    method: str
    path: str


class Tag(Struct, frozen=True):
    """A word or two on what stands below; `code` is a name, not prose."""

    text: str
    code: str = ""


class Choice(Struct, frozen=True):
    """One of several things of which a reader wants one."""

    title: str
    blocks: tuple[Block, ...]


class Choices(Struct, frozen=True):
    """They stand closed, but for the first."""

    name: str
    choices: tuple[Choice, ...]


class Section(Struct, frozen=True, kw_only=True):
    """A heading and what belongs to it.

    Attributes:
        level: Of the heading, 2 to 5.
        anchor: Where links lead; empty when none do.
        code: A name that follows the title.
        is_code: Whether the title itself is a name.

    """

    title: str
    level: int
    anchor: str = ""
    code: str = ""
    is_code: bool = False
    blocks: tuple[Block, ...] = ()


Block: TypeAlias = Prose | Code | Steps | Rows | Table | Cards | Links | Endpoint | Tag | Choices | Section


class Page(Struct, frozen=True, kw_only=True):
    """A whole page.

    Attributes:
        kicker: Above the title.
        lead: Below it.
        badges: What it is about, in names.

    """

    title: str
    description: str
    kicker: str
    lead: str
    badges: tuple[str, ...] = ()
    blocks: tuple[Block, ...]

    @property
    def contents(self) -> tuple[Link, ...]:
        """Its sections that can be linked to."""
        sections = (block for block in self.blocks if isinstance(block, Section))
        return tuple(Link(section.title, f"#{section.anchor}") for section in sections if section.anchor)
