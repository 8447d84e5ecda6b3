"""The documentation as it is built and served: for browsers (that reach nobody else), for agents, for caches."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway.routes.exchange import BodyBudget
from gateway.routes.site import MISSING, Site, site_handlers
from tests.docs import DOCS
from tests.e2e import told
from tests.e2e.sited import SITE
from tests.services import LOOPBACK, find_free_port, require

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

ROOT = DOCS.parent
START_SECONDS = 60.0
VIEWER = ROOT / "panel" / "node_modules" / "swagger-ui-dist"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of this checkout, built for the occasion."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    built = subprocess.run(
        [sys.executable, str(ROOT / "deploy" / "site.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
        env={**os.environ, "CI": "", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"},
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert [line for line in built.stderr.splitlines() if not line.startswith("npm has not fetched")] == []
    assert [path.name for path in folder.parent.iterdir()] == ["docs"], "nothing is left beside it"
    return folder


@pytest.fixture(scope="module")
def gateway(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A whole gateway that serves them: its address, and a key of the sandbox."""
    folder = tmp_path_factory.mktemp("gateway")
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PEPPER_", "ANTHROPIC_", "OPENAI_"))
    }
    environment = {**own, "PEPPER_DATA": str(folder / "data"), SITE: str(site)}
    made = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "project", "list"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=True,
    )
    key = re.search(r"pk_[\w-]{43}", made.stderr)
    assert key is not None
    port = find_free_port()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "granian", "--interface", "asgi", "--factory"),
                *("--host", LOOPBACK, "--port", str(port), "tests.e2e.sited:application"),
            ],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        address = f"http://{LOOPBACK}:{port}"
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                if httpx.get(f"{address}/stato.php", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.05)
        yield {"address": address, "key": key[0]}
    finally:
        server.terminate()
        server.wait(START_SECONDS)


@pytest.fixture
async def client(gateway: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway["address"], timeout=30) as client:
        yield client


def _sources() -> list[str]:
    """The names of all pages, without their endings."""
    found = [str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")]
    return [*sorted(name for name in found if name != "index"), "changelog"]


# --- pages ----------------------------------------------------------------------------------------------------------


async def test_every_page_is_there_and_is_a_page(client: httpx.AsyncClient) -> None:
    home = await client.get("/docs/")
    for name in _sources():
        response = await client.get(f"/docs/{name}/")
        assert response.status_code == 200, name
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        language = "it" if name.startswith("it/") else "en"
        assert f'<html lang="{language}"' in response.text, name
        assert '<meta name="viewport"' in response.text
        assert f'href="{name}/"' in home.text or name.startswith("decisions/"), f"{name} is in no navigation"


async def test_every_page_is_there_as_markdown(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/docs/llms.txt")).text
    for name in _sources():
        response = await client.get(f"/docs/{name}/index.md")
        assert response.status_code == 200, name
        assert response.headers["content-type"] == "text/markdown; charset=utf-8"
        assert response.text.lstrip("<!-").startswith(("# ", " Written")) or "\n# " in response.text, name
        assert not response.text.startswith("---")
        assert f"]({name}/index.md)" in listed, name
        await _links_lead_somewhere(client, f"/docs/{name}/", response.text)


async def _links_lead_somewhere(client: httpx.AsyncClient, base: str, text: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose):
        if "://" not in target:
            found = await client.head(str(httpx.URL("http://x" + base).join(target).path))
            assert found.status_code == 200, (base, target)


@pytest.mark.parametrize("address", ["/docs/llms.txt", "/docs/it/contratto/", "/pepper/openapi.json"])
async def test_where_pages_and_the_document_lead(client: httpx.AsyncClient, address: str) -> None:
    assert (await client.get(address)).status_code == 200


async def test_the_clients_can_be_taken_away(client: httpx.AsyncClient) -> None:
    for name in ("pepper-client.php", "pepper_client.py"):
        response = await client.get(f"/docs/client/{name}")
        assert response.text == (DOCS / "client" / name).read_text()
        assert response.headers["content-type"] == "text/plain; charset=utf-8"


# --- HTTP -----------------------------------------------------------------------------------------------------------


async def test_an_address_without_its_slash_leads_to_the_one_with(client: httpx.AsyncClient) -> None:
    for name in ("", "/contract", "/it/contratto"):
        response = await client.get(f"/docs{name}", params={"q": "a b"})
        assert (response.status_code, response.headers["location"]) == (308, f"/docs{name}/?q=a+b")
        assert (await client.get(f"/docs{name}", follow_redirects=True)).status_code == 200


async def test_a_page_that_is_not_there(client: httpx.AsyncClient, site: Path) -> None:
    for path in (
        "/docs/mai",
        "/docs/mai/",
        "/docs/contract/mai",
        "/docs/it/",
        "/docs/index.html.gz",
        "/docs/%00",
    ):
        response = await client.get(path)
        assert response.status_code == 404, path
        assert response.text == (site / MISSING).read_text()
    links = re.findall(r'(?:href|src)="(/[^"]*)"', (site / MISSING).read_text())
    assert links
    for link in set(links):
        assert (await client.head(link)).status_code == 200, link
    for path in ("/docsx", "/docs.html", "/Docs/"):
        told.error(await client.get(path), 404, "indirizzo_sconosciuto")


async def test_nothing_but_the_pages_can_be_reached(gateway: dict[str, str], site: Path) -> None:
    secret = site.parent / "segreto.txt"
    secret.write_text("un segreto")
    try:
        for path in (
            "/docs/../segreto.txt",
            "/docs/%2e%2e/segreto.txt",
            "/docs/..%2fsegreto.txt",
            "/docs/%252e%252e/segreto.txt",
            "/docs/contract/../../segreto.txt",
            "/docs//segreto.txt",
            f"/docs/{secret}",
            f"/docs/%2f{secret}",
            "/docs/..\\segreto.txt",
        ):
            port = int(gateway["address"].rpartition(":")[2])
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            await writer.drain()
            reply = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            assert b"un segreto" not in reply
            assert reply.split()[1] in {b"404", b"400"}, path
    finally:
        secret.unlink()


async def test_head_methods_and_headers(client: httpx.AsyncClient) -> None:
    page, head = await client.get("/docs/contract/"), await client.head("/docs/contract/")
    assert (head.status_code, head.content) == (200, b"")
    assert {name: value for name, value in head.headers.items() if name not in ("x-request-id", "date")} == {
        name: value for name, value in page.headers.items() if name not in ("x-request-id", "date")
    }
    assert page.headers["cache-control"] == "public, max-age=300"
    assert page.headers["x-content-type-options"] == "nosniff"
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused = await client.request(method, "/docs/contract/")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_a_cache_asks_once(client: httpx.AsyncClient) -> None:
    first = await client.get("/docs/contract/")
    again = await client.get("/docs/contract/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = await client.get("/docs/contract/", headers={"if-none-match": '"another"'})
    assert other.status_code == 200


async def test_pages_come_small(client: httpx.AsyncClient) -> None:
    packed = await client.get("/docs/contract/", headers={"accept-encoding": "br;q=1, gzip"})
    plain = await client.get("/docs/contract/", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text
    assert int(packed.headers["content-length"]) * 3 < int(plain.headers["content-length"])
    assert packed.headers["etag"] != plain.headers["etag"]
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    for refusal in ("gzip;q=0", "br", ""):
        response = await client.get("/docs/contract/", headers={"accept-encoding": refusal})
        assert "content-encoding" not in response.headers, refusal


def test_without_pages_there_is_no_address(tmp_path: Path) -> None:
    assert site_handlers(tmp_path / "none", BodyBudget()) == []
    assert Site(tmp_path).files == frozenset()


# --- in a browser ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def browsing(address: str, **settings: Any) -> AsyncIterator[tuple[BrowserContext, list[str]]]:
    """A browser that reaches the gateway alone; and all it complains of."""
    from playwright.async_api import Route, async_playwright

    complaints: list[str] = []

    async def guard(route: Route) -> None:
        if route.request.url.startswith((address + "/", "data:")):
            await route.continue_()
        else:
            complaints.append(route.request.url)
            await route.abort()

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=require("chromium"), args=["--no-sandbox"])
        context = await browser.new_context(**settings)
        await context.route("**/*", guard)
        context.on(
            "console",
            lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None,
        )
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("requestfailed", lambda request: complaints.append(request.url))
        try:
            yield context, complaints
        finally:
            await browser.close()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
async def test_pages_fit_and_ask_nobody_else(gateway: dict[str, str], width: int, scheme: Any) -> None:
    size = {"width": width, "height": 800}
    async with browsing(gateway["address"], viewport=size, color_scheme=scheme) as (context, complaints):
        page = await context.new_page()
        for name in ("", "contract/", "it/contratto/", "operating/", "api/"):
            await page.goto(f"{gateway['address']}/docs/{name}", wait_until="networkidle")
            wide, chosen = await page.evaluate(
                "[document.documentElement.scrollWidth, document.body.dataset.mdColorScheme]"
            )
            assert wide <= width, name
            assert chosen == ("slate" if scheme == "dark" else "default")
        assert complaints == []
        await page.goto(f"{gateway['address']}/docs/mai/", wait_until="networkidle")
        assert [each for each in complaints if "404" not in each] == []
        assert await page.locator(".md-header").is_visible()


async def _search(page: Page, words: str) -> list[str]:
    await page.locator(".md-search__input").fill("")
    await page.locator(".md-search__input").press_sequentially(words)
    await page.wait_for_selector(".md-search-result__item mark")
    found: list[str] = await page.locator(".md-search-result__link").evaluate_all(
        "all => all.map(each => each.href)"
    )
    return found


@pytest.mark.browser
async def test_both_languages_are_searched_without_a_server(gateway: dict[str, str]) -> None:
    async with browsing(gateway["address"], viewport={"width": 1280, "height": 800}) as (context, complaints):
        page = await context.new_page()
        await page.goto(f"{gateway['address']}/docs/", wait_until="networkidle")
        await page.locator(".md-search__input").click()
        assert any("/docs/operating/" in each for each in await _search(page, "outages"))
        assert any("/docs/it/" in each for each in await _search(page, "ripetere senza pagare"))
        assert complaints == []


@pytest.mark.browser
async def test_the_viewer_shows_the_api_and_asks_it(
    gateway: dict[str, str], client: httpx.AsyncClient
) -> None:
    if not VIEWER.is_dir():
        pytest.skip("the viewer of the API: npm has not fetched panel/package-lock.json")
    async with browsing(gateway["address"], viewport={"width": 1280, "height": 900}) as (context, complaints):
        page = await context.new_page()
        await page.goto(f"{gateway['address']}/docs/api/", wait_until="networkidle")
        await page.wait_for_selector("#viewer .opblock")
        shown = await page.locator("#viewer .opblock-summary-path").all_inner_texts()
        told_paths = (await client.get("/pepper/openapi.json")).json()["paths"]
        assert {each.replace("\u200b", "") for each in shown} >= set(told_paths)
        await page.locator(".auth-wrapper .authorize").first.click()
        await page.locator(".modal-ux input").first.fill(gateway["key"])
        await page.locator(".modal-ux .authorize").first.click()
        await page.locator(".modal-ux .btn-done").first.click()
        block = page.locator("#viewer .opblock").filter(has_text="/capacita.php").first
        await block.locator(".opblock-summary-control").click()
        await block.locator(".try-out__btn").click()
        await block.locator(".execute").click()
        answer = block.locator(
            ".live-responses-table .response .highlight-code, .live-responses-table .microlight"
        ).first
        await answer.wait_for()
        reply = json.loads((await answer.inner_text()).removeprefix("Download\n"))
        assert (reply["ok"], reply["progetto"]) == (True, "demo")
        assert complaints == []


@pytest.mark.browser
async def test_without_scripts_every_page_can_be_read(gateway: dict[str, str]) -> None:
    async with browsing(gateway["address"], java_script_enabled=False) as (context, _):
        page = await context.new_page()
        for name, words in (("contract/", "Order of checks"), ("api/", "manageKnowledge")):
            await page.goto(f"{gateway['address']}/docs/{name}")
            assert await page.locator("article").get_by_text(words).first.is_visible()
