"""The web search that Claude does by itself: who gets it, and the tool as it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from gateway.domain.calls import ModelCall, Search

SEARCH_TOOL = "web_search"
SEARCH_TYPE = "web_search_20260318"
"""The newest that the SDK knows."""
_DIRECT = ("direct",)
"""Without it the newer types search from within a program, which some models can't."""


class WebSearchTool(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=SEARCH_TYPE, tag_field="type"
):
    name: str
    max_uses: int
    allowed_domains: tuple[str, ...] = ()
    allowed_callers: tuple[str, ...]


def search_of(call: ModelCall) -> Search | None:
    """Give the leave to search, unless the answer has a forced shape.

    Answers from the web always carry citations, and Anthropic documents citations and a forced shape as not going
    together. Whether that holds for the web too is not documented: a call that can't be refused is worth more than
    the search.
    """
    return call.search if call.shape is None else None


def search_tool(search: Search, most: int) -> WebSearchTool:
    """The tool for so many searches; an empty list of domains would be refused."""
    return WebSearchTool(
        name=SEARCH_TOOL, max_uses=most, allowed_domains=search.domains, allowed_callers=_DIRECT
    )
