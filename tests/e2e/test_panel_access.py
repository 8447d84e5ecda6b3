"""Who may do what in the panel: a table of every address with the role it asks for, and the walk that holds it to that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute

from gateway.bootstrap.serving import build
from gateway.routes.panel import panel_router
from gateway.settings import read_settings
from gateway.storage.audit import read_audit
from tests.e2e.harness import Gateway
from tests.e2e.panel import PASSWORD, Visit, let_in, logged_in, visiting

# Method, address as the router has it, the role it asks for (anybody: none), and how a page answers who may see it (200)
# when the example below names nothing there is. GET is HEAD too.
TABLE = """
GET   /panel/login                                    anybody
POST  /panel/login                                    anybody
POST  /panel/logout                                   anybody
GET   /panel/set-up/{token:str}                       anybody 404
POST  /panel/set-up/{token:str}                       anybody
POST  /panel/preferences                              anybody
GET   /panel/account                                  viewer
POST  /panel/account/password                         viewer
POST  /panel/account/totp                             viewer
POST  /panel/account/totp/confirm                     viewer
POST  /panel/account/totp/end                         viewer
GET   /panel                                          viewer
GET   /panel/audit                                    viewer
GET   /panel/batches                                  viewer
GET   /panel/ledger                                   viewer
GET   /panel/ledger.csv                               viewer
GET   /panel/ledger/{request_id:str}                  viewer
GET   /panel/models                                   viewer
POST  /panel/models                                   editor
POST  /panel/models/change                            editor
POST  /panel/models/price                             editor
GET   /panel/projects                                 viewer
POST  /panel/projects                                 editor
GET   /panel/projects/{name:str}                      viewer
POST  /panel/projects/{name:str}                      editor
POST  /panel/projects/{name:str}/active               editor
POST  /panel/projects/{name:str}/keys                 editor
POST  /panel/projects/{name:str}/keys/{key:int}/revoke editor
GET   /panel/projects/{name:str}/try                  editor
POST  /panel/projects/{name:str}/try                  editor
GET   /panel/recipes                                  viewer
GET   /panel/recipes/{name:path}                      viewer
POST  /panel/recipe-switches                          editor
POST  /panel/recipe-texts                             editor
POST  /panel/projects/{name:str}/notices              editor
GET   /panel/projects/{name:str}/remove               owner
POST  /panel/projects/{name:str}/remove               owner
GET   /panel/knowledge                                viewer
GET   /panel/knowledge/{name:str}                     viewer
GET   /panel/knowledge/{name:str}/{document:int}      viewer 404
POST  /panel/knowledge/{name:str}/add                 editor
POST  /panel/knowledge/{name:str}/{document:int}/remove editor
POST  /panel/knowledge/{name:str}/reindex             editor
POST  /panel/knowledge/{name:str}/search              editor
GET   /panel/settings                                 owner
POST  /panel/settings/keys/{provider:str}             owner
POST  /panel/settings/recipients                      owner
POST  /panel/settings/webhook                         owner
POST  /panel/settings/test                            owner
POST  /panel/settings/mail                            owner
POST  /panel/settings/retention                       owner
GET   /panel/people                                   owner
POST  /panel/people                                   owner
POST  /panel/people/{person:int}                      owner
"""
RANKS = ("anybody", "viewer", "editor", "owner")
ENVIRONMENT = {"PEPPER_TRUSTED_PROXIES": "127.0.0.1"}
"""The tests are a proxy: each visitor has an address, and brakes, of their own."""
LEAVES = {"/panel/login", "/panel/logout"}
"""After these the visitor is somebody else."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Row:
    method: str
    path: str
    role: str
    status: str = "200"

    def lets_in(self, role: str) -> bool:
        return RANKS.index(role) >= RANKS.index(self.role)


ROWS = tuple(Row(*line.split()) for line in TABLE.strip().splitlines())


@dataclass
class House:
    """A gateway with something behind every address, and somebody of every role in front of it."""

    gateway: Gateway
    visits: dict[str, Visit]
    named: Mapping[str, str] = field(default_factory=dict)

    def address(self, row: Row) -> str:
        found = row.path
        for name, value in self.named.items():
            found = found.replace(name, value)
        assert "{" not in found, f"no example for {found}"
        return found

    async def configuration(self) -> int:
        """A number that every change changes."""
        newest = await read_audit(self.gateway.desk.database, 1)
        return newest[0].id


async def _addresses(gateway: Gateway) -> set[tuple[str, str]]:
    core = build(read_settings(gateway.variables()))
    try:
        router, _ = panel_router(core.office, core.chain)
        app = Litestar([router], openapi_config=None)
        return {
            (method, route.path_format if not route.path_parameters else route.path)
            for route in app.routes
            if isinstance(route, HTTPRoute) and not route.path.startswith("/panel/static")
            for method in route.methods
        }
    finally:
        for close in core.closers:
            await close()


async def test_every_address_has_its_row_and_every_row_its_address(gateway: Gateway) -> None:
    served = {one for one in await _addresses(gateway) if one[0] != "OPTIONS"}
    told = {(row.method, row.path) for row in ROWS}
    assert len(told) == len(ROWS)
    assert served == told | {("HEAD", path) for method, path in told if method == "GET"}


@pytest.fixture
async def house(gateway: Gateway) -> AsyncIterator[House]:
    tenant = await gateway.desk.project()
    async with AsyncExitStack() as stack:
        visits = {"anybody": await stack.enter_async_context(visiting(gateway))}
        for number, role in enumerate(RANKS[1:]):
            email = f"{role}-{tenant.name}@example.it"
            visits[role] = await stack.enter_async_context(logged_in(gateway, email, role))
            visits[role].client.headers["x-forwarded-for"] = f"192.0.2.{number + 1}"
        page = await visits["editor"].get(f"/panel/projects/{tenant.name}/try")
        assert page.status_code == 200
        await visits["editor"].post(
            f"/panel/projects/{tenant.name}/try",
            {"recipe": "libero", "content": "Ciao"},
            page=f"/panel/projects/{tenant.name}/try",
        )
        row = (await gateway.desk.rows(tenant))[0]
        yield House(
            gateway,
            visits,
            {
                "{token:str}": "nessuno",
                "{request_id:str}": row.request_id,
                "{name:str}": tenant.name,
                "{key:int}": str(tenant.key_id),
                "{name:path}": "riassumi",
                "{person:int}": "999999",
                "{document:int}": "999999",
                "{provider:str}": "claude",
            },
        )


def _guarded(answer: httpx.Response) -> None:
    parts = (part.strip().partition(" ") for part in answer.headers["content-security-policy"].split(";"))
    policy = {name: words.split() for name, _, words in parts}
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    for cookie in answer.headers.get_list("set-cookie"):
        assert "Path=/panel" in cookie
        assert "HttpOnly" in cookie


async def test_pages_are_for_those_who_may_see_them(house: House) -> None:
    for row in ROWS:
        if row.method != "GET":
            continue
        for role, visit in house.visits.items():
            answer = await visit.get(house.address(row))
            _guarded(answer)
            head = await visit.client.head(house.address(row))
            assert (head.status_code, head.content) == (answer.status_code, b"")
            where = answer.headers.get("location", "")
            told = f"{role} at {row.path}: {answer.status_code} {where}"
            if row.path == "/panel/login" and role != "anybody":
                assert (answer.status_code, where) == (303, "/panel"), told
            elif row.lets_in(role):
                assert answer.status_code == int(row.status), told
            elif role == "anybody":
                assert answer.status_code == 303, told
                assert where.startswith("/panel/login?next=%2Fpanel"), told
            else:
                assert answer.status_code == 403, told


async def test_forms_without_rights_or_without_their_token_change_nothing(house: House) -> None:
    tokens = {role: await visit.token("/panel/account") for role, visit in house.visits.items()}
    before = await house.configuration()
    for row in ROWS:
        if row.method != "POST":
            continue
        for role, visit in house.visits.items():
            for token in (None, "0" * 64, tokens["owner" if role == "viewer" else "viewer"]):
                data = {} if token is None else {"csrf": token}
                answer = await visit.client.post(house.address(row), data=data)
                _guarded(answer)
                kept_out = role == "anybody" and row.role != "anybody"
                assert answer.status_code == (303 if kept_out else 403), (role, row)
            if row.lets_in(role):
                continue
            answer = await visit.client.post(house.address(row), data={"csrf": tokens[role]})
            _guarded(answer)
            assert answer.status_code == (303 if role == "anybody" else 403), (role, row)
            assert role != "anybody" or answer.headers["location"] == "/panel/login"
    assert await house.configuration() == before


async def test_forms_with_right_and_token_are_looked_at(house: House) -> None:
    """And an empty one is refused as what it is: a form, not an intruder."""
    for row in ROWS:
        if row.method != "POST" or row.path in LEAVES:
            continue
        for role, visit in house.visits.items():
            if not row.lets_in(role):
                continue
            answer = await visit.post(house.address(row), {"current": PASSWORD}, page="/panel/account")
            _guarded(answer)
            assert answer.status_code in {200, 303, 400, 404, 409}, (role, row, answer.status_code)
            assert not answer.headers.get("location", "").startswith("/panel/login")


async def test_forms_from_another_site_are_refused(house: House) -> None:
    """A page of a neighbouring host could plant a cookie and its token: the browser says where a form comes from."""
    visit = house.visits["anybody"]
    token = await visit.token("/panel/login")
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 303), ("none", 303)):
        answer = await visit.client.post(
            "/panel/preferences", data={"csrf": token}, headers={"sec-fetch-site": site}
        )
        assert answer.status_code == status, site


@pytest.mark.parametrize(
    "path",
    [
        "/panel/nessuna",
        "/panel/projects/a/b/c/d",
        "/panel/static/../visitors.py",
        "/panel/static/nessuno.css",
        "/panel/logout",
        "/panel/people/uno",
        "/panel/%00",
    ],
)
async def test_addresses_that_nobody_serves_are_one_page_for_everybody(gateway: Gateway, path: str) -> None:
    async with visiting(gateway) as nobody:
        answer = await nobody.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        _guarded(answer)
        assert "Questa pagina" in answer.text
        assert (await nobody.client.head(path)).status_code == 404
    beside = await gateway.client.get("/pannello")
    assert beside.headers["content-type"] == "application/json"


async def test_static_files_are_kept_by_browsers_and_change_their_address(gateway: Gateway) -> None:
    async with visiting(gateway) as visit:
        page = (await visit.get("/panel/login")).text
        address = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert address.startswith("/panel/static/panel.css?v=")
        answer = await visit.get(address)
        assert answer.headers["cache-control"] == "public, max-age=604800"
        assert answer.headers["content-type"].startswith("text/css")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        assert (await visit.client.head(address)).status_code == 200


async def test_no_cookie_is_set_outside_of_the_panel(house: House) -> None:
    for visit in house.visits.values():
        for path in ("/stato.php", "/docs/", "/api.php", "/", "/pannello"):
            assert "set-cookie" not in (await visit.get(path)).headers
        request = visit.client.build_request("GET", "/stato.php")
        assert "cookie" not in request.headers


async def test_brakes_and_cookies_believe_the_proxy_alone(gateway: Gateway) -> None:
    await let_in(gateway, "dietro@example.it", "viewer")

    async def guess(claimed: str, password: str = "sbagliata del tutto") -> httpx.Response:
        async with visiting(gateway) as visit:
            visit.client.headers["x-forwarded-for"] = claimed
            return await visit.post("/panel/login", {"email": "dietro@example.it", "password": password})

    # What a caller puts before the proxy's own word changes nothing.
    statuses = [(await guess(f"198.51.100.{number}, 203.0.113.9")).status_code for number in range(6)]
    assert statuses == [403] * 5 + [429]
    # Neither does another address of the same household.
    statuses = [(await guess(f"2001:db8::{number:x}")).status_code for number in range(1, 7)]
    assert statuses == [403] * 5 + [429]
    assert (await guess("203.0.113.10", PASSWORD)).status_code == 303
    async with visiting(gateway) as visit:
        page = await visit.client.get("/panel/login", headers={"x-forwarded-proto": "https"})
        cookies = page.headers.get_list("set-cookie")
        assert cookies
        assert all("Secure" in cookie for cookie in cookies)


async def test_a_burst_of_guesses_is_braked_as_guesses_in_turn(gateway: Gateway) -> None:
    await let_in(gateway, "raffica@example.it", "viewer")
    async with visiting(gateway) as visit:
        visit.client.headers["x-forwarded-for"] = "203.0.113.20"
        token = await visit.token("/panel/login")

        async def guess() -> int:
            data = {"csrf": token, "email": "raffica@example.it", "password": "sbagliata del tutto"}
            return (await visit.client.post("/panel/login", data=data)).status_code

        statuses = await asyncio.gather(*(guess() for _ in range(20)))
        assert statuses.count(403) <= 5
        assert statuses.count(403) + statuses.count(429) == 20


async def test_a_stolen_session_guesses_the_password_no_faster(gateway: Gateway) -> None:
    async with logged_in(gateway, "rubata@example.it", "viewer") as visit:
        visit.client.headers["x-forwarded-for"] = "203.0.113.30"
        wrong = {"current": "sbagliata del tutto"}
        statuses = [
            (await visit.post("/panel/account/totp", wrong, page="/panel/account")).status_code
            for _ in range(6)
        ]
        assert statuses == [403] * 5 + [429]


async def test_invitations_name_no_host_that_a_caller_made_up(house: House) -> None:
    owner = house.visits["owner"]
    answer = await owner.post(
        "/panel/people",
        {"email": "invitata@example.it", "role": "viewer"},
        page="/panel/people",
        headers={"host": "altrove.example", "x-forwarded-host": "altrove.example"},
    )
    assert answer.status_code == 200
    assert "altrove" not in answer.text
    assert 'href="/panel/set-up/' in answer.text
