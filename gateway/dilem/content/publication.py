"""All that is published, by its path."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from gateway.dilem.content.blocks import Link
from gateway.dilem.content.discovery import (
    AI_CATALOG_TYPE,
    CARD_TYPE,
    LINKSET_TYPE,
    ai_catalog,
    api_catalog,
    server_card,
)
from gateway.dilem.content.docs import Docs
from gateway.dilem.content.guides import agents, llms
from gateway.dilem.content.html import html_page, icon, style
from gateway.dilem.content.markdown import Markdown
from gateway.dilem.content.openapi import openapi
from gateway.dilem.content.privacy import privacy
from gateway.dilem.content.site import (
    AGENTS,
    AI_CATALOG,
    API_CATALOG,
    ICON,
    LLMS,
    OPENAPI,
    SERVER_CARD,
    SERVER_CARD_ALIASES,
    STYLE,
    Site,
    docs_path,
    markdown_path,
    privacy_path,
)
from gateway.dilem.contract import LANGUAGES, Language

HTML = "text/html; charset=utf-8"
MARKDOWN = "text/markdown; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class Document(Struct, frozen=True, kw_only=True):
    """One document.

    Attributes:
        route: Its path, with the language left open.
        make: Gives its bytes; some take tens of milliseconds.
        markdown: The path of its twin for those who would rather have Markdown; empty without one.

    """

    route: str
    media_type: str
    make: Callable[[], bytes]
    markdown: str = ""


def publication(site: Site) -> dict[str, Document]:
    """Give every document of a site."""
    card = _json(SERVER_CARD, CARD_TYPE, partial(server_card, site))
    documents = {
        OPENAPI: _json(OPENAPI, "application/json", partial(openapi, site)),
        **dict.fromkeys((SERVER_CARD, *SERVER_CARD_ALIASES), card),
        AI_CATALOG: _json(AI_CATALOG, AI_CATALOG_TYPE, partial(ai_catalog, site)),
        API_CATALOG: _json(API_CATALOG, LINKSET_TYPE, partial(api_catalog, site)),
        AGENTS: _text(AGENTS, MARKDOWN, partial(agents, site)),
        LLMS: _text(LLMS, TEXT, partial(llms, site)),
        STYLE: Document(route=STYLE, media_type="text/css; charset=utf-8", make=style),
        ICON: Document(route=ICON, media_type="image/svg+xml", make=icon),
    }
    for language in LANGUAGES:
        documents |= _pages(language, site)
    return documents


def _pages(language: Language, site: Site) -> dict[str, Document]:
    twin = markdown_path(language)
    return {
        docs_path(language): Document(
            route="/{lang}/docs/",
            media_type=HTML,
            make=lambda: html_page(Docs(language, site).page(), language, site, docs_path, twin).encode(),
            markdown=twin,
        ),
        twin: _text("/{lang}/docs/index.md", MARKDOWN, partial(_markdown, language, site)),
        privacy_path(language): _text(
            "/{lang}/privacy/",
            HTML,
            lambda: html_page(privacy(language, site), language, site, privacy_path),
        ),
    }


def _markdown(language: Language, site: Site) -> str:
    return Markdown(site).page(Docs(language, site).page(), Link("HTML", docs_path(language)))


def _json(route: str, media_type: str, make: Callable[[], dict[str, Any]]) -> Document:
    def encoded() -> bytes:
        return msgspec.json.format(msgspec.json.encode(make()), indent=2) + b"\n"

    return Document(route=route, media_type=media_type, make=encoded)


def _text(route: str, media_type: str, make: Callable[[], str]) -> Document:
    return Document(route=route, media_type=media_type, make=lambda: make().encode())
