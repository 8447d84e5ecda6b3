"""Where Dilem is, and the names that follow from it: everything published is told from the base URL alone."""

from __future__ import annotations

import ipaddress
from urllib.parse import quote, urlsplit

from msgspec import Struct

from gateway.dilem.contract import Language
from gateway.dilem.operations import MCP

NAME = "Dilem"
DEFAULT_LANGUAGE: Language = "en"
"""Of readers whose language is none of ours, and of what is told in one language only."""

OPENAPI = "/openapi.json"
SERVER_CARD = "/mcp-server-card.json"
SERVER_CARD_ALIASES = (f"{MCP}/server-card", "/.well-known/mcp/server-card.json")
AI_CATALOG = "/.well-known/ai-catalog.json"
API_CATALOG = "/.well-known/api-catalog"
AGENTS = "/agents.md"
LLMS = "/llms.txt"
STYLE = "/dilem/docs.css"
ICON = "/dilem/icon.svg"


class Site(Struct, frozen=True):
    """A public origin.

    Attributes:
        base: Scheme, host and port, without a slash at the end.

    """

    base: str

    @property
    def host(self) -> str:
        """The host's name; that of an address in the reverse DNS, because names are made of it."""
        address = self._address
        return self._name if address is None else address.reverse_pointer

    @property
    def reversed_host(self) -> str:
        """The host's labels from the last to the first, as names of servers begin."""
        return ".".join(reversed(self.host.split(".")))

    @property
    def contact(self) -> str:
        """The mail address of those who run it."""
        return f"contact@{self._name}" if self._address is None else f"contact@[{self._name}]"

    @property
    def mail(self) -> str:
        """The same as a link."""
        return f"mailto:{quote(self.contact, safe='@')}"

    @property
    def _name(self) -> str:
        return urlsplit(self.base).hostname or ""

    @property
    def _address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        try:
            return ipaddress.ip_address(self._name)
        except ValueError:
            return None

    def url(self, path: str) -> str:
        """Give the whole address of a path."""
        return self.base + path


def docs_path(language: Language, anchor: str = "") -> str:
    """Give where the documentation is, or one place in it."""
    return f"/{language}/docs/" + (f"#{anchor}" if anchor else "")


def markdown_path(language: Language) -> str:
    """Give where the documentation's Markdown twin is."""
    return f"/{language}/docs/index.md"


def privacy_path(language: Language) -> str:
    """Give where the page on privacy is."""
    return f"/{language}/privacy/"
