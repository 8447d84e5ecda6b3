"""Coming into the panel: set-up links, passwords, second factors, sessions, brakes, form tokens."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pyotp
import pytest
from sqlalchemy import select

from gateway.storage import schema
from tests.e2e.harness import Gateway
from tests.e2e.panel import PASSWORD, add_person, logged_in, text_of, visiting


async def test_a_set_up_link_works_once_and_only_for_a_day(gateway: Gateway) -> None:
    made = await asyncio.to_thread(gateway.command, "admin", "add", "nuovo@example.it", "--role", "viewer")
    link = made.stdout.split()[-1]
    path = link[link.index("/panel") :]
    async with visiting(gateway) as visit:
        page = await visit.get(path)
        assert page.status_code == 200
        assert "nuovo@example.it" in page.text
        short = await visit.post(path, {"password": "corta", "again": "corta"}, page=path)
        assert short.status_code == 400
        differs = await visit.post(path, {"password": PASSWORD, "again": PASSWORD + "x"}, page=path)
        assert differs.status_code == 400
        done = await visit.post(path, {"password": PASSWORD, "again": PASSWORD}, page=path)
        assert done.status_code == 303
        assert (await visit.get("/panel")).status_code == 200
    async with visiting(gateway) as visit:
        assert (await visit.get(path)).status_code == 404
        assert (await visit.login("nuovo@example.it")).status_code == 303

    again = await asyncio.to_thread(gateway.command, "admin", "add", "nuovo@example.it")
    path = again.stdout.split()[-1][len("http://127.0.0.1:8080") :]
    gateway.set_clock(datetime.now(UTC) + timedelta(hours=24, minutes=1))
    try:
        async with visiting(gateway) as visit:
            assert (await visit.get(path)).status_code == 404
    finally:
        gateway.free_clock()


async def test_two_at_once_use_a_link_once(gateway: Gateway) -> None:
    made = await asyncio.to_thread(gateway.command, "admin", "add", "gara@example.it", "--role", "viewer")
    path = made.stdout.split()[-1][len("http://127.0.0.1:8080") :]

    async def use(password: str) -> int:
        async with visiting(gateway) as visit:
            return (await visit.post(path, {"password": password, "again": password}, page=path)).status_code

    statuses = await asyncio.gather(*(use(f"{PASSWORD} {number}") for number in range(4)))
    assert sorted(statuses) == [303, 404, 404, 404]


async def test_wrong_credentials_answer_alike_and_are_braked(gateway: Gateway) -> None:
    await asyncio.to_thread(add_person, gateway, "frenata@example.it", "viewer")
    async with visiting(gateway) as visit:
        wrong = await visit.login("frenata@example.it", "sbagliata del tutto")
        nobody = await visit.login("nessuno@example.it", "sbagliata del tutto")
        assert wrong.status_code == nobody.status_code == 403
        assert text_of(wrong.text) == text_of(nobody.text)
        for _ in range(4):
            await visit.login("frenata@example.it", "sbagliata del tutto")
        braked = await visit.login("frenata@example.it")
        assert braked.status_code == 429
    gateway.set_clock(datetime.now(UTC) + timedelta(minutes=16))
    try:
        async with visiting(gateway) as visit:
            assert (await visit.login("frenata@example.it")).status_code == 303
    finally:
        gateway.free_clock()


async def test_cookies_stay_under_the_panel_and_out_of_scripts(gateway: Gateway) -> None:
    await asyncio.to_thread(add_person, gateway, "biscotti@example.it", "viewer")
    async with visiting(gateway) as visit:
        answer = await visit.login("biscotti@example.it")
        for cookie in answer.headers.get_list("set-cookie"):
            assert "Path=/panel" in cookie
            assert "HttpOnly" in cookie
            assert "samesite=strict" in cookie.lower()
        public = await visit.client.post("/api.php", json={})
        assert "set-cookie" not in public.headers


async def test_cookies_are_secure_behind_a_trusted_proxy_that_says_https(gateway: Gateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.address) as client:
        believed = await client.get("/panel/login", headers={"x-forwarded-proto": "https"})
        assert all("Secure" not in cookie for cookie in believed.headers.get_list("set-cookie"))


async def test_a_session_ends_by_idleness_age_and_logout(gateway: Gateway) -> None:
    async with logged_in(gateway, "sessione@example.it", "viewer") as visit:
        assert (await visit.get("/panel")).status_code == 200
        start = datetime.now(UTC)
        try:
            gateway.set_clock(start + timedelta(minutes=59))
            assert (await visit.get("/panel")).status_code == 200
            gateway.set_clock(start + timedelta(minutes=120))
            expired = await visit.get("/panel")
            assert expired.status_code == 303
            assert expired.headers["location"] == "/panel/login?next=%2Fpanel"
        finally:
            gateway.free_clock()
    async with logged_in(gateway, "eta@example.it", "viewer") as visit:
        start = datetime.now(UTC)
        try:
            for minutes in range(50, 12 * 60, 50):
                gateway.set_clock(start + timedelta(minutes=minutes))
                assert (await visit.get("/panel")).status_code == 200
            gateway.set_clock(start + timedelta(hours=12, minutes=1))
            assert (await visit.get("/panel")).status_code == 303
        finally:
            gateway.free_clock()
    async with logged_in(gateway, "uscita@example.it", "viewer") as visit:
        token = visit.client.cookies["pepper_panel"]
        assert (await visit.post("/panel/logout", page="/panel")).status_code == 303
        visit.client.cookies.set("pepper_panel", token, domain="127.0.0.1", path="/panel")
        assert (await visit.get("/panel")).status_code == 303


async def test_the_session_is_renamed_at_login_and_ends_with_the_role(gateway: Gateway) -> None:
    await asyncio.to_thread(add_person, gateway, "capo@example.it")
    async with logged_in(gateway, "ruolo@example.it", "editor") as editor:
        first = editor.client.cookies["pepper_panel"]
        await editor.login("ruolo@example.it")
        assert editor.client.cookies["pepper_panel"] != first
        async with visiting(gateway) as thief:
            thief.client.cookies.set("pepper_panel", first, domain="127.0.0.1", path="/panel")
            assert (await thief.get("/panel")).status_code == 303, "the earlier session has ended"
        done = await asyncio.to_thread(
            gateway.command, "admin", "add", "ruolo@example.it", "--role", "viewer"
        )
        assert done.returncode == 0
        assert (await editor.get("/panel")).status_code == 303


async def test_forms_without_their_token_change_nothing(gateway: Gateway) -> None:
    async with logged_in(gateway, "modulo@example.it") as visit:
        for data in ({}, {"csrf": "0" * 64}, {"csrf": ""}):
            answer = await visit.client.post("/panel/projects", data={"name": "senza-token", **data})
            assert answer.status_code == 403
        async with logged_in(gateway, "altro@example.it") as other:
            foreign = await other.token("/panel")
        answer = await visit.client.post("/panel/projects", data={"name": "senza-token", "csrf": foreign})
        assert answer.status_code == 403
        assert (await visit.get("/panel/projects/senza-token")).status_code == 404


async def test_the_second_factor(gateway: Gateway) -> None:
    async with logged_in(gateway, "fattore@example.it", "viewer") as visit, visiting(gateway) as other:
        assert (await other.login("fattore@example.it")).status_code == 303
        refused = await visit.post("/panel/account/totp", {"current": "sbagliata"}, page="/panel/account")
        assert refused.status_code == 403
        offered = await visit.post("/panel/account/totp", {"current": PASSWORD}, page="/panel/account")
        found = re.search(r'name="secret" value="([A-Z2-7]{32})"', offered.text)
        assert found is not None
        totp = pyotp.TOTP(found[1])
        begin = {"current": PASSWORD, "secret": found[1]}
        wrong = await visit.post(
            "/panel/account/totp/confirm", {**begin, "code": "000000"}, page="/panel/account"
        )
        assert wrong.status_code == 400
        first = totp.now()
        begun = await visit.post(
            "/panel/account/totp/confirm", {**begin, "code": first}, page="/panel/account"
        )
        codes = re.findall(r"<li><code>([0-9a-f]{6}-[0-9a-f]{6})</code></li>", begun.text)
        assert len(codes) == 8
        assert (await visit.get("/panel")).status_code == 200
        assert (await other.get("/panel")).status_code == 303, "begun without a second factor"
    async with visiting(gateway) as visit:
        assert (await visit.login("fattore@example.it")).status_code == 403
        assert (await visit.login("fattore@example.it", code=first)).status_code == 403, "has turned it on"
        code = totp.at(datetime.now(UTC) + timedelta(seconds=30))
        assert (await visit.login("fattore@example.it", code=code)).status_code == 303
    async with visiting(gateway) as visit:
        assert (await visit.login("fattore@example.it", code=code)).status_code == 403, "used before"
        assert (await visit.login("fattore@example.it", code=codes[0])).status_code == 303
    async with visiting(gateway) as visit:
        assert (await visit.login("fattore@example.it", code=codes[0])).status_code == 403
    made = await asyncio.to_thread(gateway.command, "admin", "add", "fattore@example.it")
    path = made.stdout.split()[-1][len("http://127.0.0.1:8080") :]
    async with visiting(gateway) as visit:
        new = f"{PASSWORD} nuova"
        done = await visit.post(path, {"password": new, "again": new}, page=path)
        assert done.headers["location"].startswith("/panel/login"), "a link is no second factor"
        assert (await visit.get("/panel")).status_code == 303
        assert (await visit.login("fattore@example.it", new)).status_code == 403
        assert (await visit.login("fattore@example.it", new, codes[1])).status_code == 303
    rows = await _column(gateway, "totp")
    assert found[1].encode() not in b"".join(value for value in rows if value), "sealed at rest"


async def test_passwords_are_kept_as_argon2id(gateway: Gateway) -> None:
    await asyncio.to_thread(add_person, gateway, "hash@example.it", "viewer")
    kept = [value for value in await _column(gateway, "password") if value]
    assert kept
    assert all(value.startswith("$argon2id$") for value in kept)


async def test_the_last_owner_stays(gateway: Gateway) -> None:
    async with logged_in(gateway, "ultimo@example.it") as visit:
        page = (await visit.get("/panel/people")).text
        people = dict(re.findall(r'<th scope="row">([^<]+)</th>.*?/panel/people/(\d+)', page, re.DOTALL))
        for email, number in people.items():
            if email != "ultimo@example.it":
                await visit.post(f"/panel/people/{number}", {"action": "remove"}, page="/panel/people")
        mine = people["ultimo@example.it"]
        for fields in ({"action": "remove"}, {"action": "disable"}, {"action": "role", "role": "viewer"}):
            answer = await visit.post(f"/panel/people/{mine}", fields, page="/panel/people")
            assert answer.status_code == 409
        assert (await visit.get("/panel/people")).status_code == 200


@pytest.mark.parametrize(
    "wanted", ["https://altrove.example", "//altrove.example", "/api.php", "/panel/\\evil"]
)
async def test_after_login_nobody_is_sent_elsewhere(gateway: Gateway, wanted: str) -> None:
    await asyncio.to_thread(add_person, gateway, "dirottata@example.it", "viewer")
    async with visiting(gateway) as visit:
        fields = {"email": "dirottata@example.it", "password": PASSWORD, "next": wanted}
        answer = await visit.post("/panel/login", fields)
        assert answer.headers["location"] == "/panel"


async def _column(gateway: Gateway, name: str) -> list[Any]:
    async with gateway.desk.database.connect() as connection:
        return list(await connection.scalars(select(schema.operators.c[name])))


async def test_a_link_is_in_the_audit_with_its_author_and_nobody_makes_their_own(gateway: Gateway) -> None:
    async with logged_in(gateway, "autrice@example.it") as owner:
        await asyncio.to_thread(add_person, gateway, "destinataria@example.it", "viewer")
        page = (await owner.get("/panel/people")).text
        people = dict(re.findall(r'<th scope="row">([^<]+)</th>.*?/panel/people/(\d+)', page, re.DOTALL))
        there = f"/panel/people/{people['destinataria@example.it']}"
        assert (await owner.post(there, {"action": "link"}, page="/panel/people")).status_code == 200
        audit = text_of((await owner.get("/panel/audit")).text)
        assert "autrice@example.it operator.link destinataria@example.it" in audit
        for action in ("link", "totp-off"):
            mine = f"/panel/people/{people['autrice@example.it']}"
            assert (await owner.post(mine, {"action": action}, page="/panel/people")).status_code == 409
        for nobody in ("99999999999999999999999", "123456"):
            gone = await owner.post(f"/panel/people/{nobody}", {"action": "link"}, page="/panel/people")
            assert gone.status_code == 404


@pytest.mark.parametrize("path", ["/panel", "/panel/projects", "/panel/login"])
async def test_options_is_no_fault(gateway: Gateway, path: str) -> None:
    async with visiting(gateway) as visit:
        assert (await visit.client.options(path)).status_code == 204


async def test_a_form_filled_in_before_somebody_elses_change_is_noticed(gateway: Gateway) -> None:
    async with logged_in(gateway, "insieme@example.it", "editor") as visit:
        fields = {"name": "insieme", "per_hour": "100", "permissions": "documenti"}
        assert (await visit.post("/panel/projects", fields, page="/panel")).status_code == 200
        page = (await visit.get("/panel/projects/insieme")).text
        found = re.search(r'name="seen" value="([0-9a-f]{32})"', page)
        assert found is not None
        seen = {"seen": found[1], "per_hour": "100"}
        first = await visit.post("/panel/projects/insieme", seen, page="/panel")
        assert first.status_code == 303
        stale = {**seen, "permissions": "documenti", "budget": "6"}
        refused = await visit.post("/panel/projects/insieme", stale, page="/panel")
        assert refused.status_code == 409
        assert 'value="documenti" checked' not in (await visit.get("/panel/projects/insieme")).text


async def test_a_caller_who_leaves_in_the_middle_of_a_form_is_no_fault_of_ours(gateway: Gateway) -> None:
    before = gateway.log().count("internal fault")
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        for path in ("/panel/login", "/panel/sign-in", "/panel/set-up/x"):
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: 400\r\n\r\n"
            writer.write(head.encode() + b"a")
            await writer.drain()
            await asyncio.sleep(0.1)
            writer.close()
            await writer.wait_closed()
    await asyncio.sleep(0.5)
    assert gateway.log().count("internal fault") == before
