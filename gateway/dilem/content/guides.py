"""The two entries for agents, in English: a guide to using the service, and a list of all there is to read."""

from __future__ import annotations

from gateway.dilem.content.blocks import Link, Page, Prose, Section, Table
from gateway.dilem.content.docs import Docs
from gateway.dilem.content.markdown import Markdown
from gateway.dilem.content.site import (
    AGENTS,
    AI_CATALOG,
    API_CATALOG,
    DEFAULT_LANGUAGE,
    NAME,
    OPENAPI,
    SERVER_CARD,
    Site,
    docs_path,
    markdown_path,
    privacy_path,
)
from gateway.dilem.content.words import CLIENT_SECONDS, words_in
from gateway.dilem.contract import LANGUAGES, VERSION
from gateway.dilem.operations import API, MCP, OPERATIONS

_BOTH = (
    "Both take the same session token, which `start_session` gives. Ask the person the questions that come back, and "
    "never answer in their place."
)


def agents(site: Site) -> str:
    """Give the guide for agents, in Markdown."""
    docs = Docs(DEFAULT_LANGUAGE, site)
    words = words_in(DEFAULT_LANGUAGE)
    tools = tuple(
        (f"`{operation.name}`", f"`{operation.method} {API}{operation.path}`", words.tools[operation.name])
        for operation in OPERATIONS
    )
    page = Page(
        title=f"{NAME} for agents",
        description="",
        kicker="How an agent uses this service in a person's name.",
        lead=words.page.lead,
        badges=(f"REST v{VERSION}", "MCP · Streamable HTTP"),
        blocks=(
            Prose(
                f"MCP server: {site.url(MCP)} (Streamable HTTP, no OAuth). REST: {site.url(API)}. Both do the same. "
                f"Wait up to {CLIENT_SECONDS} seconds for a decision. Send no cookies. Keep the session token private: "
                "never show it, never put it in a configuration."
            ),
            Section(
                title="What there is",
                level=2,
                blocks=(Table(("MCP tool", "REST", "For"), tools),),
            ),
            docs.session(),
            docs.life(),
            docs.parameters(),
            docs.quickstart(),
            docs.feedback(),
            docs.credits(),
            docs.errors(),
            docs.technical(),
        ),
    )
    return Markdown(site).page(page, Link("Full documentation", markdown_path(DEFAULT_LANGUAGE)))


def llms(site: Site) -> str:
    """Give the list of what there is to read, in the form of llms.txt."""
    words = words_in(DEFAULT_LANGUAGE)
    others = (each for each in LANGUAGES if each != DEFAULT_LANGUAGE)
    tell = Markdown(site).link
    parts = (
        f"# {NAME}",
        f"> {words.page.lead}",
        f"The MCP server is at {site.url(MCP)}, the REST API v{VERSION} under {site.url(API)}. {_BOTH}",
        "## Guides",
        "\n".join(
            (
                f"- {tell(Link('Agent guide', AGENTS))}: from a session to a recommendation and feedback",
                f"- {tell(Link('Documentation', markdown_path(DEFAULT_LANGUAGE)))}: every tool, every member, every error",
            )
        ),
        "## For programs",
        "\n".join(
            (
                f"- {tell(Link('OpenAPI 3.1', OPENAPI))}: the REST API",
                f"- {tell(Link('MCP Server Card', SERVER_CARD))}: the MCP server and its protocol versions",
                f"- {tell(Link('AI Catalog', AI_CATALOG))}: all of this for discovery",
            )
        ),
        "## Optional",
        "\n".join(
            (
                f"- {tell(Link('Web pages', docs_path(DEFAULT_LANGUAGE)))}: the documentation for people",
                *(
                    f"- {tell(Link(words_in(each).locale.name, markdown_path(each)))}: the documentation in this language"
                    for each in others
                ),
                f"- {tell(Link(words.technical.privacy, privacy_path(DEFAULT_LANGUAGE)))}: what is kept, and for how long",
                f"- {tell(Link('API catalog', API_CATALOG))}: RFC 9727",
            )
        ),
    )
    return "\n\n".join(parts) + "\n"
