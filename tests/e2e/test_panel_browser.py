"""The panel in a real browser: the way from the first link to a refused call, every page in every look, the keyboard,
no JavaScript, and texts that would like to be programs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from playwright.async_api import Browser, Page
from sqlalchemy import insert

from gateway.domain.calls import Outcome
from gateway.domain.tenants import Operator, Permission
from gateway.storage import schema
from gateway.storage.calls import ledger_row
from tests.e2e.browsing import DESK_DARK, DESK_LIGHT, PHONE, Look, Visitor, browsing, visitor
from tests.e2e.desk import Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.panel import HOSTILE, PASSWORD, let_in
from tests.e2e.test_panel_access import ROWS
from tests.e2e.test_panel_ledger import record
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]
OWNER = "proprietaria@example.it"
NAMED: dict[str, str] = {}
"""Examples of the addresses' parts, once there are some."""
_KEY = re.compile(r"pk_[A-Za-z0-9_-]{43}")


@pytest.fixture(scope="module")
def backend() -> str:
    """No store has a part in how a page looks."""
    return "embedded"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


async def test_from_the_first_link_to_a_refused_call(gateway: Gateway, browser: Browser) -> None:
    link = re.search(r"http://\S+/panel/set-up/\S+", gateway.log())
    assert link is not None, "the log of the first start"
    async with visitor(browser, gateway) as owner:
        page = owner.page
        await page.goto(link[0])
        await page.fill("#f-email", "prima@example.it")
        await page.fill("#f-password", PASSWORD)
        await page.fill("#f-again", PASSWORD)
        await page.click("text=Comincia")
        await page.wait_for_url(re.compile("/panel\\?done=welcome"))
        await page.click("text=Esci")
        await owner.login("prima@example.it")

        await page.click("nav >> text=Progetti")
        await page.fill("#f-name", "giornale")
        await page.check("#f-permission-differito")
        await page.check("#f-sandbox")
        await page.click("text=Crea il progetto")
        await page.wait_for_selector(".secret")
        first = _KEY.findall(await page.inner_text(".secret"))
        await page.fill("#f-label", "redazione")
        await page.click("text=Crea una chiave")
        await page.wait_for_selector("td:has-text('redazione')")
        [key] = _KEY.findall(await page.inner_text(".secret"))
        assert [key] != first
        tenant = Tenant("giornale", key)

        async def answered() -> bool:
            return (await gateway.ask(tenant)).status_code == 200

        await eventually(answered, CHANGE_SECONDS)
        request = (await gateway.desk.rows(tenant))[-1].request_id
        await page.click("nav >> text=Registro")
        await page.select_option("#f-project", "giornale")
        await page.wait_for_url(re.compile("project=giornale"))  # at once
        await page.wait_for_selector("#export[href*='project=giornale']")
        await page.select_option("#f-outcome", "errore")
        await page.wait_for_selector("#rows >> text=Nessuna chiamata corrisponde.")
        await page.go_back()
        await page.select_option("#f-outcome", "")
        await page.click("form[role=search] >> text=Filtra")
        await page.click(f"a[href='/panel/ledger/{request}']")
        await page.wait_for_selector(f"code:has-text('{request}')")

        assert (await gateway.ask(tenant, modo="differito")).status_code == 202
        await owner.go("/panel/projects/giornale")
        await page.uncheck("#f-permission-differito")
        await page.click("text=Salva >> nth=0")
        await page.wait_for_url(re.compile("done=saved"))

        async def refused() -> bool:
            return (await gateway.ask(tenant, modo="differito")).status_code == 403

        await eventually(refused, CHANGE_SECONDS)
        owner.agreed = True
        await page.click(".heading >> text=Disattiva")
        await page.wait_for_selector("h1 >> text=spento")
        owner.content()


async def _furnished(gateway: Gateway) -> dict[str, str]:
    """Something on every page; gives the examples of the addresses' parts."""
    await let_in(gateway, OWNER)
    now = datetime.now(UTC)
    tenant = await gateway.desk.project("furnished", cap=1, allow=(Permission.DEFERRED, Permission.KNOWLEDGE))
    rows = [
        record(number, tenant.name, started_at=now, day=now.date(), outcome=one, fault="provider_guasto")
        for number, one in enumerate(Outcome)
    ]
    async with gateway.desk.database.begin() as connection:
        await connection.execute(insert(schema.calls), [ledger_row(row) for row in rows])
    await gateway.desk.catalog.add_recipe_version("riassumi", "Riassumi.", Operator(OWNER), now)
    return {
        "{token:str}": "nessuno",
        "{request_id:str}": rows[0].request_id,
        "{name:str}": tenant.name,
        "{name:path}": "riassumi",
        "{document:int}": "1",
    }


@pytest.mark.parametrize("look", [DESK_LIGHT, DESK_DARK, PHONE], ids=lambda look: look.name)
async def test_every_page_in_every_look(gateway: Gateway, browser: Browser, look: Look) -> None:
    if not NAMED:
        NAMED.update(await _furnished(gateway))
    found: list[str] = []
    async with visitor(browser, gateway, look) as owner:
        await owner.go("/panel/login")
        found += await _faults(owner, "/panel/login")
        await owner.login(OWNER)
        for row in ROWS:
            if row.method != "GET" or row.path in {"/panel/login", "/panel/ledger.csv"}:
                continue
            path = row.path
            for name, value in NAMED.items():
                path = path.replace(name, value)
            await owner.go(path)
            if row.status == "404":
                owner.complaints = [one for one in owner.complaints if "404" not in one]
            found += await _faults(owner, path)
        await owner.go("/panel")
        assert await owner.page.locator("canvas").count() == 4, "charts are drawn"
        await owner.go("/panel/models?edit=Pepper+6")
        found += await _faults(owner, "/panel/models?edit")
    assert found == []


async def _faults(owner: Visitor, path: str) -> list[str]:
    found = [f"{path}: {one}" for one in (*owner.complaints, *await owner.grave_faults())]
    owner.complaints.clear()
    if over := await owner.overflow():
        found.append(f"{path}: {over} pixels too wide")
    return found


async def _focused(page: Page) -> str:
    return str(await page.evaluate("(document.activeElement.textContent || '').trim()"))


async def test_by_keyboard_alone(gateway: Gateway, browser: Browser) -> None:
    await let_in(gateway, OWNER)
    async with visitor(browser, gateway, PHONE) as owner:
        page, press = owner.page, owner.page.keyboard.press
        await owner.go("/panel/login")
        assert await page.evaluate("document.activeElement.id") == "f-email"
        await page.keyboard.type(OWNER)
        await press("Tab")
        await page.keyboard.type(PASSWORD)
        await press("Enter")
        await page.wait_for_url(owner.address + "/panel")

        await press("Tab")
        assert await _focused(page) == "Vai al contenuto"
        assert await page.evaluate("document.activeElement.getBoundingClientRect().top >= 0"), "seen"
        await press("Enter")
        assert await page.evaluate("document.activeElement.id") == "content"

        await owner.go("/panel")
        for wanted in ("Vai al contenuto", "Pepper", "Menu"):
            await press("Tab")
            assert await _focused(page) == wanted
        await press("Enter")
        for wanted in ("Panoramica", "Progetti"):
            await press("Tab")
            assert await _focused(page) == wanted
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "the focus is seen"
        await press("Enter")
        await page.wait_for_url(owner.address + "/panel/projects")

        await page.focus("#f-name")
        await page.keyboard.type("tastiera")
        await press("Enter")
        await page.wait_for_selector(".secret")
        assert await page.inner_text("h1") == "tastiera"
        owner.content()


async def test_without_javascript(gateway: Gateway, browser: Browser) -> None:
    await let_in(gateway, OWNER)
    async with visitor(browser, gateway, PHONE, scripts=False) as owner:
        page = owner.page
        await owner.login(OWNER)
        await page.click("summary >> text=Menu")
        await page.click("nav >> text=Progetti")
        await page.fill("#f-name", "senza-script")
        await page.click("text=Crea il progetto")
        await page.wait_for_selector(".secret")
        await page.fill("#f-label", "seconda")
        await page.click("text=Crea una chiave")
        await page.wait_for_selector("td:has-text('seconda')")
        [key] = _KEY.findall(await page.inner_text(".secret"))
        assert (await gateway.desk.tenants.list_keys("senza-script"))[-1].label == "seconda"
        assert key
        await owner.go("/panel")
        await page.click("#spending summary")
        assert await page.locator("#spending table").is_visible(), "charts have their tables"
        await page.click("text=English")
        assert await page.inner_text("h1") == "Overview"
        await page.click("text=Scuro" if await page.locator("text=Scuro").count() else "text=Dark")
        assert await page.get_attribute("html", "data-theme") == "dark"


async def test_texts_that_would_be_programs_run_nowhere(gateway: Gateway, browser: Browser) -> None:
    await let_in(gateway, OWNER)
    now = datetime.now(UTC)
    tenant = await gateway.desk.project()
    rows = [
        record(
            number,
            tenant.name,
            started_at=now,
            day=now.date(),
            recipe=text,
            model=text,
            fault=text,
            by=text,
            outcome=Outcome.FAILED,
        )
        for number, text in enumerate(HOSTILE)
    ]
    async with gateway.desk.database.begin() as connection:
        await connection.execute(insert(schema.calls), [ledger_row(row) for row in rows])
    for text in HOSTILE:
        await gateway.desk.catalog.add_recipe_version(
            "libero", text, Operator(text), now, project=tenant.name
        )
    async with visitor(browser, gateway) as owner:
        await owner.login(OWNER)
        for path in (
            "/panel",
            f"/panel/ledger?project={tenant.name}",
            *(f"/panel/ledger/{row.request_id}" for row in rows),
            f"/panel/recipes/libero?project={tenant.name}",
            "/panel/audit",
        ):
            await owner.go(path)
            for box in await owner.page.query_selector_all("details"):
                await box.evaluate("box => box.open = true")
            await owner.page.mouse.move(640, 450)
            assert await owner.page.evaluate("document.scripts.length") <= 3
        owner.content()
