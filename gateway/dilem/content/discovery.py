"""What tells programs where everything is: the MCP server card and the catalogues, in the forms of their drafts."""

from __future__ import annotations

from typing import Any, Final

from gateway.dilem.content.site import (
    AGENTS,
    DEFAULT_LANGUAGE,
    NAME,
    OPENAPI,
    SERVER_CARD,
    Site,
    docs_path,
    markdown_path,
    privacy_path,
)
from gateway.dilem.contract import MCP_VERSIONS, VERSION
from gateway.dilem.operations import API, MCP

AI_CATALOG_VERSION: Final = "1.0"
"""The specification's own examples say so, its release candidate of November 2026 says 0.9."""
CARD_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_DESCRIPTION: Final = (
    "Decision assistant: submit a choice, answer questions, get a reasoned recommendation."
)
"""At most 100 characters."""
SERVER: Final = "dilem"

AI_CATALOG_TYPE: Final = "application/ai-catalog+json"
CARD_TYPE: Final = "application/mcp-server-card+json"
LINKSET_TYPE: Final = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
OPENAPI_TYPE: Final = "application/openapi+json"


def server_card(site: Site) -> dict[str, Any]:
    """Give the MCP server's card. It lists no tools: the server does."""
    return {
        "$schema": CARD_SCHEMA,
        "name": f"{site.reversed_host}/{SERVER}",
        "version": VERSION,
        "title": NAME,
        "description": CARD_DESCRIPTION,
        "websiteUrl": site.url(docs_path(DEFAULT_LANGUAGE)),
        "remotes": [
            {
                "type": "streamable-http",
                "url": site.url(MCP),
                "supportedProtocolVersions": list(MCP_VERSIONS),
            }
        ],
    }


def ai_catalog(site: Site) -> dict[str, Any]:
    """Give the catalogue for agents."""
    name = f"urn:air:{site.host}"
    return {
        "specVersion": AI_CATALOG_VERSION,
        "host": {
            "displayName": NAME,
            "identifier": site.host,
            "documentationUrl": site.url(docs_path(DEFAULT_LANGUAGE)),
        },
        "entries": [
            {"identifier": f"{name}:mcp:{SERVER}", "type": CARD_TYPE, "url": site.url(SERVER_CARD)},
            {
                "identifier": f"{name}:api:rest",
                "displayName": f"{NAME} REST API {VERSION}",
                "type": OPENAPI_TYPE,
                "url": site.url(OPENAPI),
            },
            {
                "identifier": f"{name}:guide:agents",
                "displayName": f"{NAME} agent guide",
                "type": "text/markdown",
                "url": site.url(AGENTS),
            },
        ],
    }


def api_catalog(site: Site) -> dict[str, Any]:
    """Give the catalogue of RFC 9727: the REST API and the MCP server, with what describes each."""
    docs = [
        {"href": site.url(docs_path(DEFAULT_LANGUAGE)), "type": "text/html"},
        {"href": site.url(markdown_path(DEFAULT_LANGUAGE)), "type": "text/markdown"},
    ]
    return {
        "linkset": [
            {
                "anchor": site.url(API),
                "service-desc": [{"href": site.url(OPENAPI), "type": OPENAPI_TYPE}],
                "service-doc": docs,
                "privacy-policy": [{"href": site.url(privacy_path(DEFAULT_LANGUAGE)), "type": "text/html"}],
            },
            {
                "anchor": site.url(MCP),
                "service-desc": [{"href": site.url(SERVER_CARD), "type": CARD_TYPE}],
                "service-doc": docs,
            },
        ]
    }
