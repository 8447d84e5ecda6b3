"""What Dilem publishes: documents for people, agents and programs, as caches, browsers and other origins get them."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from gateway.dilem.content.publication import HTML, publication
from gateway.dilem.content.site import OPENAPI, SERVER_CARD, SERVER_CARD_ALIASES, Site
from gateway.dilem.contract import LANGUAGES, MCP_VERSIONS, VERSION
from gateway.dilem.errors import CODES
from gateway.dilem.operations import API, MCP, OPERATIONS
from tests.e2e.harness import Gateway
from tests.e2e.pages import Node, html_blocks, markdown_blocks, markdown_links, read_html
from tests.services import require

BASE = "https://dilem.example"
ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_BASE_URL": BASE,
    "PEPPER_DILEM_IP_PER_MINUTE": "1",  # it doesn't count what is published
}
PATHS = tuple(publication(Site(BASE)))
ANCHORS = (
    "connect",
    "reference",
    *(f"tool-{operation.name}" for operation in OPERATIONS),
    "quickstart",
    "session",
    "life",
    "parameters",
    "responses",
    "feedback",
    "credits",
    "errors",
    "browser",
    "technical",
)
"""In the order of the page."""
MEDIA_TYPES = {
    "/openapi.json": "application/json",
    "/mcp-server-card.json": "application/mcp-server-card+json",
    "/api/v1/mcp/server-card": "application/mcp-server-card+json",
    "/.well-known/mcp/server-card.json": "application/mcp-server-card+json",
    "/.well-known/ai-catalog.json": "application/ai-catalog+json",
    "/.well-known/api-catalog": 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
    "/agents.md": "text/markdown; charset=utf-8",
    "/llms.txt": "text/plain; charset=utf-8",
    "/dilem/docs.css": "text/css; charset=utf-8",
    "/dilem/icon.svg": "image/svg+xml",
    **{f"/{language}/docs/": "text/html; charset=utf-8" for language in LANGUAGES},
    **{f"/{language}/docs/index.md": "text/markdown; charset=utf-8" for language in LANGUAGES},
    **{f"/{language}/privacy/": "text/html; charset=utf-8" for language in LANGUAGES},
}
PAGES = tuple(path for path, kind in MEDIA_TYPES.items() if kind == HTML)


@pytest.fixture(scope="module")
def backend() -> str:
    """Nothing published is stored."""
    return "embedded"


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.address, timeout=30) as client:
        yield client


def test_all_that_is_published_is_tried_here() -> None:
    assert set(MEDIA_TYPES) == set(PATHS)


# --- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
async def test_a_document_is_cached_and_open_to_everyone(client: httpx.AsyncClient, path: str) -> None:
    found = await client.get(path)
    assert (found.status_code, found.headers["content-type"]) == (200, MEDIA_TYPES[path])
    assert found.headers["cache-control"] == "public, max-age=3600"
    assert found.headers["access-control-allow-origin"] == "*"
    assert "ETag" in found.headers["access-control-expose-headers"]
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in found.headers
    tag = found.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', tag)

    foreign = {"origin": "https://altrove.example", "cookie": "a=b"}
    assert (await client.get(path, headers=foreign)).content == found.content

    head = await client.head(path)
    own = {"x-request-id", "date"}
    told = {name: value for name, value in head.headers.items() if name not in own}
    assert told == {name: value for name, value in found.headers.items() if name not in own}
    assert (head.status_code, head.content) == (200, b"")

    for known in (tag, f'"other", W/{tag}', "*"):
        same = await client.get(path, headers={"if-none-match": known})
        assert (same.status_code, same.content) == (304, b"")
        for name in ("etag", "cache-control", "access-control-allow-origin"):
            assert same.headers[name] == found.headers[name]
        assert same.headers.get("vary") == found.headers.get("vary")
    for unknown in (tag[:-2] + '"', tag.strip('"'), '"other"', ""):
        assert (await client.get(path, headers={"if-none-match": unknown})).status_code == 200


@pytest.mark.parametrize("path", ["/openapi.json", "/api/v1/mcp/server-card", "/it/docs/"])
async def test_other_methods(client: httpx.AsyncClient, path: str) -> None:
    preflight = await client.options(
        path, headers={"origin": "https://altrove.example", "access-control-request-method": "GET"}
    )
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "GET" in preflight.headers["access-control-allow-methods"]
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        refused = await client.request(method, path, content=b"{}")
        assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_addresses_are_exact(client: httpx.AsyncClient) -> None:
    for path in ("/it/docs", "/pt/privacy"):
        moved = await client.get(path)
        assert (moved.status_code, moved.headers["location"]) == (308, f"{path}/")
    missing = (
        "/openapi.json/",
        "/IT/docs/",
        "/xx/docs/",
        "/it/docs/index.html",
        "/it/docs/index.md/",
        "/it/",
    )
    for path in missing:
        assert (await client.get(path)).status_code == 404, path
    assert (await client.get(f"{MCP}/server-card/")).status_code == 404
    assert (await client.get(MCP)).status_code == 405


@pytest.mark.parametrize(
    ("accept", "markdown"),
    [
        ("text/markdown", True),
        ("text/markdown, text/html, */*", True),
        ("text/html;q=0.5, TEXT/Markdown ; q=0.8", True),
        ("text/*;q=0.9, text/markdown", True),
        ("text/html, text/markdown;q=0.9", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("text/markdown;q=0", False),
        ("text/markdown;q=zero.", False),
        ("*/*", False),
        ("text/*", False),
        ("", False),
    ],
)
async def test_who_wants_markdown_gets_it(client: httpx.AsyncClient, accept: str, markdown: bool) -> None:
    found = await client.get("/de/docs/", headers={"accept": accept})
    assert found.headers["vary"] == "Accept"
    twin = await client.get("/de/docs/index.md")
    assert (found.headers["content-type"] == "text/markdown; charset=utf-8") is markdown
    assert (found.content == twin.content) is markdown
    if markdown:
        assert found.headers["content-location"] == "/de/docs/index.md"
        assert found.headers["etag"] == twin.headers["etag"]
        assert "content-security-policy" not in found.headers


async def test_only_where_dilem_is_served(make_gateway: Callable[..., Gateway]) -> None:
    off = make_gateway(environment={"PEPPER_DILEM": "off"})
    alone = make_gateway()
    await asyncio.gather(asyncio.to_thread(off.start), asyncio.to_thread(alone.start))
    async with httpx.AsyncClient(base_url=off.address) as client:
        assert {(await client.get(path)).status_code for path in PATHS} == {404}
    async with httpx.AsyncClient(base_url=alone.address) as client:
        for path in PATHS:
            assert (await client.get(path)).status_code == 200, path
            passed_on = await client.get(path, headers={"x-forwarded-for": "203.0.113.7"})
            assert (passed_on.status_code, passed_on.json()["code"]) == (404, "not_found")
            assert "access-control-allow-origin" not in passed_on.headers
        card = (await client.get(SERVER_CARD)).json()
        assert card["remotes"][0]["url"] == f"{alone.address}{MCP}"
        assert card["name"] == "arpa.in-addr.127.0.0.1/dilem"
    for gateway in (off, alone):
        assert gateway.complaints() == []
        gateway.kill()


# --- for programs ---------------------------------------------------------------------------------------------------


async def test_the_server_card_is_that_of_the_server(client: httpx.AsyncClient) -> None:
    card = await client.get(SERVER_CARD)
    assert card.json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "example.dilem/dilem",
        "version": VERSION,
        "title": "Dilem",
        "description": card.json()["description"],
        "websiteUrl": f"{BASE}/en/docs/",
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"{BASE}/api/v1/mcp",
                "supportedProtocolVersions": list(MCP_VERSIONS),
            }
        ],
    }
    assert 1 <= len(card.json()["description"]) <= 100
    for alias in SERVER_CARD_ALIASES:
        same = await client.get(alias)
        assert (same.content, same.headers["etag"]) == (card.content, card.headers["etag"])


async def test_the_server_says_of_itself_what_its_card_says(gateway: Gateway) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MCP_VERSIONS[0],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    transport = httpx.AsyncHTTPTransport(local_address="127.0.73.1")
    async with httpx.AsyncClient(base_url=gateway.address, transport=transport, timeout=30) as client:
        response = await client.post(
            MCP,
            json={"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}},
            headers={"mcp-protocol-version": MCP_VERSIONS[0], "mcp-method": "server/discover"},
        )
        discovered = response.json()["result"]
        card = (await client.get(SERVER_CARD)).json()
    assert discovered["supportedVersions"] == card["remotes"][0]["supportedProtocolVersions"]
    server = discovered["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert server["version"] == card["version"]
    assert card["name"].endswith("/" + server["name"])


async def test_catalogues_lead_to_what_is_there(client: httpx.AsyncClient) -> None:
    catalog = (await client.get("/.well-known/ai-catalog.json")).json()
    assert catalog["specVersion"] == "1.0"
    assert catalog["host"] == {
        "displayName": "Dilem",
        "identifier": "dilem.example",
        "documentationUrl": f"{BASE}/en/docs/",
    }
    assert [entry["identifier"] for entry in catalog["entries"]] == [
        "urn:air:dilem.example:mcp:dilem",
        "urn:air:dilem.example:api:rest",
        "urn:air:dilem.example:guide:agents",
    ]
    for entry in catalog["entries"]:
        assert {"identifier", "type", "url"} <= set(entry) <= {"identifier", "type", "url", "displayName"}
        found = await client.get(_path(entry["url"]))
        assert found.headers["content-type"].startswith(
            "application/json" if entry["type"] == "application/openapi+json" else entry["type"]
        )
    response = await client.get("/.well-known/api-catalog")
    assert response.headers["link"] == f'<{BASE}/.well-known/api-catalog>; rel="api-catalog"'
    rest, mcp = response.json()["linkset"]
    assert (rest["anchor"], mcp["anchor"]) == (BASE + API, BASE + MCP)
    assert rest["service-desc"][0]["href"] == BASE + OPENAPI
    for links in (*rest.values(), *mcp.values()):
        for link in links if isinstance(links, list) else ():
            assert (await client.get(_path(link["href"]))).status_code == 200


async def test_llms_txt_has_its_form(client: httpx.AsyncClient) -> None:
    text = (await client.get("/llms.txt")).text
    lines = text.splitlines()
    assert lines[0] == "# Dilem"
    assert lines[2].startswith("> ")
    sections = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    assert sections[-2] == "Optional"
    for content in sections[2::2]:
        for line in content.strip().splitlines():
            assert re.fullmatch(r"- \[[^\]]+\]\(https://dilem\.example/[^)]*\): .+", line), line
    await _links_lead_somewhere(client, markdown_links(text))


async def test_the_agents_guide_tells_the_whole_way(client: httpx.AsyncClient) -> None:
    text = (await client.get("/agents.md")).text
    assert text.startswith("# Dilem for agents\n")
    for operation in OPERATIONS:
        assert f"| `{operation.name}` | `{operation.method} {API}{operation.path}` |" in text
    for code in CODES:
        assert f"| {code.status} | `{code.code}` |" in text
    english = (await client.get("/en/docs/index.md")).text
    assert set(markdown_blocks(text)) <= set(markdown_blocks(english))
    await _links_lead_somewhere(client, markdown_links(text))


# --- for people -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_sound_and_needs_no_script(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = read_html(response.text)
    language = path[1:3]
    assert page.attributes["lang"] == language
    for node in page.everything():
        assert node.tag not in {"script", "style", "iframe", "form"}
        assert not any(name == "style" or name.startswith("on") for name in node.attributes)
    ids = [node.attributes["id"] for node in page.everything() if "id" in node.attributes]
    assert len(set(ids)) == len(ids)
    levels = [int(node.tag[1]) for node in page.everything() if re.fullmatch("h[1-6]", node.tag)]
    assert levels.count(1) == levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all("alt" in image.attributes for image in page.all("img"))
    assert page.one("main").attributes["id"] == "content"
    assert page.one("title").text.endswith(" · Dilem")

    links = page.all("link")
    assert _links(links, "canonical") == [BASE + path]
    alternates = {
        link.attributes["hreflang"]: link.attributes["href"]
        for link in links
        if "hreflang" in link.attributes
    }
    expected: dict[str, str] = {each: f"{BASE}/{each}{path[3:]}" for each in LANGUAGES}
    assert alternates == expected | {"x-default": f"{BASE}/en{path[3:]}"}
    assert _links(links, "ai-catalog") == ["/.well-known/ai-catalog.json"]
    twins = [link.attributes["href"] for link in links if link.attributes.get("type") == "text/markdown"]
    assert twins == ([f"/{language}/docs/index.md"] if path.endswith("/docs/") else [])

    targets = [node.attributes["href"] for node in page.everything() if "href" in node.attributes]
    own = [target.removeprefix(path) for target in targets if target.startswith(("#", f"{path}#"))]
    assert {target.removeprefix("#") for target in own} <= set(ids)
    await _links_lead_somewhere(client, targets + [image.attributes["src"] for image in page.all("img")])
    assert "mailto:contact@dilem.example" in targets


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_documentation_has_its_sections(client: httpx.AsyncClient, language: str) -> None:
    page = read_html((await client.get(f"/{language}/docs/")).text)
    ids = [node.attributes["id"] for node in page.all("section") if "id" in node.attributes]
    assert tuple(ids) == ANCHORS
    assert [card.one("a").attributes["href"] for card in _with_class(page, "ul", "cards").all("li")] == [
        f"/{language}/docs/#{anchor}" for anchor in ("connect", "quickstart", "browser")
    ]
    text = page.text
    for shown in (f"REST v{VERSION}", "MCP · Streamable HTTP", f"{BASE}/api/v1/mcp", "contact@dilem.example"):
        assert shown in text
    connect = page.with_id("connect")
    assert [each.text for each in connect.all("summary")] == [
        "Claude Code",
        "Codex",
        "Cursor",
        "OpenCode",
        "Hermes Agent",
        "Mistral Vibe",
        "OpenClaw",
        "Pi",
    ]
    errors = page.with_id("errors").one("table")
    told = [[cell.text for cell in row.all("td")] for row in errors.all("tr")[1:]]
    assert [(row[0], row[1]) for row in told] == [(str(code.status), code.code) for code in CODES]
    assert len({row[2] for row in told}) == 2
    assert {row[2] for row, code in zip(told, CODES, strict=True) if code.retryable}.isdisjoint(
        {row[2] for row, code in zip(told, CODES, strict=True) if not code.retryable}
    )
    twin = (await client.get(f"/{language}/docs/index.md")).text
    assert twin.startswith(f"# {page.one('h1').text}\n")
    assert twin.rstrip().endswith(f"[HTML]({BASE}/{language}/docs/)")
    await _links_lead_somewhere(client, markdown_links(twin))


async def test_code_is_the_same_in_every_language_and_form(client: httpx.AsyncClient) -> None:
    english = markdown_blocks((await client.get("/en/docs/index.md")).text)
    assert len(english) > 40
    for language in LANGUAGES:
        assert markdown_blocks((await client.get(f"/{language}/docs/index.md")).text) == english
        assert html_blocks(read_html((await client.get(f"/{language}/docs/")).text)) == english


async def test_what_an_operator_decides_is_not_told_as_a_fact(client: httpx.AsyncClient) -> None:
    """The limits of credits and money stand in examples alone."""
    for language in LANGUAGES:
        text = (await client.get(f"/{language}/docs/index.md")).text
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert not re.search(r"\b20 (credit|crédit|Guthaben)|\$ ?5\b|\b5 (USD|US)", prose)


@pytest.mark.browser
async def test_a_browser_shows_them_without_complaint(gateway: Gateway) -> None:
    from playwright.async_api import async_playwright

    chromium = require("chromium")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            for width, scheme, path in (
                (320, "light", "/de/docs/"),
                (390, "dark", "/pt/privacy/"),
                (1280, "dark", "/fr/docs/"),
            ):
                context = await browser.new_context(
                    viewport={"width": width, "height": 800},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                page = await context.new_page()
                complaints: list[str] = []
                page.on("console", lambda message: complaints.append(message.text))  # noqa: B023
                page.on("requestfailed", lambda request: complaints.append(request.url))  # noqa: B023
                await page.goto(gateway.address + path)
                wide, ground = await page.evaluate(
                    "[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]"
                )
                assert wide <= width
                assert ground == ("rgb(16, 22, 20)" if scheme == "dark" else "rgb(246, 243, 236)")
                assert complaints == []
                await context.close()
        finally:
            await browser.close()


# --- links ----------------------------------------------------------------------------------------------------------


async def _links_lead_somewhere(client: httpx.AsyncClient, targets: list[str]) -> None:
    """Of this site: the document and the place in it."""
    for target in sorted(set(targets)):
        whole = target.removeprefix(BASE)
        if not whole.startswith("/"):
            assert re.match(r"#|mailto:contact@dilem\.example$|https://", whole), target
            continue
        path, _, anchor = whole.partition("#")
        found = await client.get(path)
        assert found.status_code == 200, target
        if anchor:
            assert f'id="{anchor}"' in found.text, target


def _path(url: str) -> str:
    assert url.startswith(f"{BASE}/")
    return url.removeprefix(BASE)


def _links(links: list[Node], rel: str) -> list[str]:
    return [link.attributes["href"] for link in links if link.attributes.get("rel") == rel]


def _with_class(page: Node, tag: str, name: str) -> Node:
    (found,) = (node for node in page.all(tag) if name in node.attributes.get("class", "").split())
    return found
