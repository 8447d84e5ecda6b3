"""Blocks as HTML: whole pages that need no script, and a style sheet of their own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from gateway.dilem.content.blocks import Block, Page
from gateway.dilem.content.site import (
    AI_CATALOG,
    API_CATALOG,
    DEFAULT_LANGUAGE,
    ICON,
    NAME,
    OPENAPI,
    STYLE,
    Site,
    docs_path,
)
from gateway.dilem.content.words import FOLDER, words_in
from gateway.dilem.contract import LANGUAGES, Language

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\[(?P<text>[^\]]+)\]\((?P<href>[^)]+)\)|(?P<plain>[^`*\[]+|.)"
)


def html_page(
    page: Page,
    language: Language,
    site: Site,
    path_in: Callable[[Language], str],
    markdown: str | None = None,
) -> str:
    """Tell a whole page.

    Args:
        path_in: Where the page is in a language.
        markdown: Where its Markdown twin is.

    """
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            language=language,
            site=site,
            words=words_in(language),
            names={each: words_in(each).locale.name for each in LANGUAGES},
            path_in=path_in,
            markdown=markdown,
            home=docs_path(language),
            default_language=DEFAULT_LANGUAGE,
            style=f"{STYLE}?{style_version()}",
            icon=ICON,
            name=NAME,
            ai_catalog=AI_CATALOG,
            api_catalog=API_CATALOG,
            openapi=OPENAPI,
        )
    )


@cache
def style() -> bytes:
    """Give the style sheet."""
    return (FOLDER / "docs.css").read_bytes()


@cache
def style_version() -> str:
    """Give what changes with the style sheet: part of its address."""
    return hashlib.sha256(style()).hexdigest()[:12]


@cache
def icon() -> bytes:
    """Give the mark that browsers show beside the title, as SVG."""
    return (FOLDER / "icon.svg").read_bytes()


def inline(text: str) -> Markup:
    """Tell prose with its code, links and strong words."""
    return Markup().join(_piece(found) for found in _INLINE.finditer(text))


def _piece(found: re.Match[str]) -> Markup:
    if found["code"]:
        return Markup("<code>{}</code>").format(found["code"])
    if found["strong"]:
        return Markup("<strong>{}</strong>").format(found["strong"])
    if found["text"]:
        return Markup('<a href="{}">{}</a>').format(found["href"], found["text"])
    return escape(found["plain"])


def _kind(block: Block) -> str:
    return type(block).__name__


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(inline=inline, kind=_kind)
    return environment
