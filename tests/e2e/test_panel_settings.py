"""The panel's settings over HTTP: providers' keys that count at once in every worker, addresses, mail, retention; and
what the project page keeps: the address for notices, and the removal.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update

from gateway.domain.tenants import Permission
from gateway.storage import schema
from gateway.storage.audit import read_audit
from gateway.storage.catalog import Catalog
from gateway.storage.changes import ProjectChanges
from tests.e2e.desk import TESTER, Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.panel import Visit, logged_in, text_of, visiting
from tests.e2e.waiting import eventually
from tests.fakes import say, until
from tests.fakes.receiver import Receiver, reply
from tests.fakes.smtp import SmtpServer
from tests.services import LOOPBACK

WORKERS = 2
ENVIRONMENT = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "PEPPER_WEBHOOK_PRIVATE": "on"}
SETTINGS = "/panel/settings"
MAIL = {"security": "none", "sender": "pepper@example.it", "user": "", "password": ""}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def session(served: Gateway) -> dict[str, str]:
    """The owner's cookies at this gateway, once they have logged in."""
    return {}


@pytest.fixture
async def owner(gateway: Gateway, session: dict[str, str]) -> AsyncIterator[Visit]:
    """Whatever was set is removed in the end."""
    if not session:
        async with logged_in(gateway, "capo@example.it") as visit:
            session.update(visit.client.cookies)
    async with visiting(gateway) as visit:
        visit.client.cookies.update(session)
        yield visit
        for path in ("keys/claude", "keys/openai", "webhook", "mail"):
            saved(await visit.post(f"{SETTINGS}/{path}", {"action": "remove"}))
        saved(await visit.post(f"{SETTINGS}/recipients", {"recipients": ""}))
        saved(await visit.post(f"{SETTINGS}/retention", {"days": "180"}))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def posta() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


def saved(response: httpx.Response) -> None:
    assert response.status_code == 303, text_of(response.text)
    assert response.headers["location"].endswith("?done=saved")


LOADING_SECONDS = 10.0
"""A process that never had a key loads the provider's library before it can ask."""


async def answers(
    gateway: Gateway, tenant: Tenant, status: int, content: str, *, loading: bool = False
) -> None:
    """Return when a call of this text has that status at every worker."""

    async def condition(client: httpx.AsyncClient) -> bool:
        body = {
            "progetto": tenant.name,
            "encode": "libero",
            "contenuto": content,
            "extra": {"no_cache": True},
        }
        response = await client.post("/api.php", json=body, headers=gateway.headers(tenant))
        return response.status_code == status

    if loading:
        await eventually(lambda: condition(gateway.client), LOADING_SECONDS)
    await gateway.everywhere(condition)


async def audited(gateway: Gateway) -> str:
    """All that the audit has, as text."""
    entries = await read_audit(gateway.desk.database, 10_000)
    return "".join(
        f"{one.action} {one.subject} {bytes(one.before or b'')!r} {bytes(one.after or b'')!r}\n"
        for one in entries
    )


# --- providers' keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["claude", "openai"])
async def test_a_key_counts_in_every_worker_at_once_and_is_never_shown(
    gateway: Gateway, owner: Visit, provider: str
) -> None:
    tenant, _ = await gateway.tenant_of_its_own(provider=provider)
    fake = gateway.fakes.claude if provider == "claude" else gateway.fakes.openai
    assert (await gateway.ask(tenant)).status_code == 502
    first, second = f"chiave-{provider}-numero-uno-1111", f"chiave-{provider}-numero-due-2222"
    original, fake.key = fake.key, first
    try:
        page = await owner.get(SETTINGS)
        assert "manca" in text_of(page.text)
        done = await owner.post(f"{SETTINGS}/keys/{provider}", {"key": f"  {first} "}, page=SETTINGS)
        saved(done)
        await answers(gateway, tenant, 200, "con la prima chiave", loading=True)

        shown = (await owner.get(SETTINGS)).text
        assert first not in shown
        assert "…\u20601111" in text_of(shown)

        # A running call goes on with its key while another one is set.
        fake.script(say("Una risposta lenta.", pieces=3, delay=0.8))
        async with gateway.stream(tenant, "una chiamata lunga") as stream:
            await until(lambda: bool(fake.seen) and fake.seen[-1].outcome == "open", 5)
            fake.key = second
            saved(await owner.post(f"{SETTINGS}/keys/{provider}", {"key": second}, page=SETTINGS))
            assert (await stream.told())["risposta"] == "Una risposta lenta."
        await answers(gateway, tenant, 200, "con la seconda chiave")
        assert all(first not in seen.headers.values() for seen in fake.seen[-3:])

        gone = await owner.post(f"{SETTINGS}/keys/{provider}", {"action": "remove"}, page=SETTINGS)
        saved(gone)
        await answers(gateway, tenant, 502, "senza chiave")
        told = await audited(gateway)
        assert f"settings.remove key.{provider}" in told
        assert first not in told
        assert second not in told
        assert first not in gateway.log()
    finally:
        fake.key = original
        fake.take_refused()  # what was asked with the key of before, for a moment


async def test_a_key_of_the_panel_reads_documents_too(gateway: Gateway, owner: Visit) -> None:
    tenant = await gateway.desk.project(allow=[Permission.KNOWLEDGE])
    await gateway.desk.price("text-embedding-3-small", 0.02, 0.0)

    async def upload(client: httpx.AsyncClient) -> int:
        body = {"progetto": tenant.name, "azione": "carica", "nome": "a.txt", "testo": "La quota."}
        return (await client.post("/conoscenza.php", json=body, headers=gateway.headers(tenant))).status_code

    async def has(status: int) -> None:
        await gateway.everywhere(lambda client: _equal(upload(client), status))

    await has(503)
    key = gateway.fakes.openai.key
    await owner.post(f"{SETTINGS}/keys/openai", {"key": key}, page=SETTINGS)
    await has(200)
    listed = await asyncio.to_thread(
        gateway.command,
        "knowledge",
        "add",
        "--project",
        tenant.name,
        "--name",
        "b.txt",
        "--file",
        "README.md",
    )
    assert listed.returncode == 0, listed.stderr
    await owner.post(f"{SETTINGS}/keys/openai", {"action": "remove"}, page=SETTINGS)
    await has(503)


async def _equal(value: Any, wanted: int) -> bool:
    return bool(await value == wanted)


async def test_doctor_counts_a_key_of_the_panel(gateway: Gateway, owner: Visit) -> None:
    await gateway.tenant_of_its_own()

    async def said() -> str:
        return (await asyncio.to_thread(gateway.command, "doctor")).stdout

    missing = "manca la chiave del fornitore claude"
    assert missing in await said()
    await owner.post(f"{SETTINGS}/keys/claude", {"key": gateway.fakes.claude.key}, page=SETTINGS)
    assert "fornitore claude" not in await said()
    await _damage(gateway, "key.claude")
    told = await said()
    assert "la chiave di claude impostata nel pannello non si apre con questo segreto" in told
    assert missing in told


async def _damage(gateway: Gateway, name: str) -> None:
    """What another secret's seal looks like."""
    table, installation = schema.operator_settings, schema.installation

    async def work(connection: Any) -> None:
        await connection.execute(update(table).where(table.c.name == name).values(sealed=b"\x01" + b"x" * 40))
        await connection.execute(update(installation).values(revision=installation.c.revision + 1))

    await gateway.desk.database.transact(work)


async def test_a_key_that_does_not_open_is_told_and_breaks_nothing(gateway: Gateway, owner: Visit) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    await owner.post(f"{SETTINGS}/keys/claude", {"key": gateway.fakes.claude.key}, page=SETTINGS)
    await answers(gateway, tenant, 200, "va bene")
    said = "the key of claude that was set in the panel does not open"
    before = gateway.log().count(said)
    await _damage(gateway, "key.claude")
    await answers(gateway, tenant, 502, "non si apre")
    assert "non si apre" in text_of((await owner.get(SETTINGS)).text)
    assert gateway.log().count(said) - before == WORKERS
    await owner.post(f"{SETTINGS}/keys/claude", {"key": gateway.fakes.claude.key}, page=SETTINGS)
    await answers(gateway, tenant, 200, "di nuovo")


async def test_wrong_keys_are_refused_and_the_unknown_is_not_found(owner: Visit) -> None:
    for wrong in ("", "con uno spazio", "perché", "x" * 501):
        answer = await owner.post(f"{SETTINGS}/keys/claude", {"key": wrong}, page=SETTINGS)
        assert answer.status_code == 400
        assert 'aria-invalid="true"' in answer.text
        assert not wrong or wrong not in answer.text
    assert (await owner.post(f"{SETTINGS}/keys/prova", {"key": "x"}, page=SETTINGS)).status_code == 404


# --- addresses, mail, retention ---------------------------------------------------------------------------------------


async def test_a_test_is_sent_on_every_way_and_says_what_came_of_it(
    gateway: Gateway, owner: Visit, receiver: Receiver, posta: SmtpServer
) -> None:
    assert (await owner.post(f"{SETTINGS}/test", page=SETTINGS)).status_code == 409
    server = MAIL | {"host": LOOPBACK, "port": str(posta.port)}
    saved(await owner.post(f"{SETTINGS}/mail", server, page=SETTINGS))
    saved(await owner.post(f"{SETTINGS}/recipients", {"recipients": "uno@example.it\r\ndue@example.it"}))
    made = await owner.post(f"{SETTINGS}/webhook", {"url": receiver.url}, page=SETTINGS)
    assert made.status_code == 200
    found = re.search(r"avs_[\w-]{43}", made.text)
    assert found is not None
    secret = found[0]
    assert secret not in (await owner.get(SETTINGS)).text, "shown once"

    page = await owner.post(f"{SETTINGS}/test", page=SETTINGS)
    assert page.status_code == 200
    assert text_of(page.text).count("consegnata") == 2
    [mail] = posta.mails
    assert mail.recipients == ("uno@example.it", "due@example.it")
    assert mail.message["subject"] == "Pepper: messaggio di prova"
    assert posta.refused == []
    [told] = receiver.told
    assert told.json["allarme"] == "prova"
    moment, _, signed = told.headers["x-pepper-firma"].partition(",")
    at = moment.removeprefix("t=")
    expected = hmac.new(secret.encode(), f"{at}.".encode() + told.body, hashlib.sha256).hexdigest()
    assert signed == f"v1={expected}"
    assert "alerts.test" in await audited(gateway)
    assert secret not in await audited(gateway)

    posta.moods.data = "554 no"
    receiver.default = reply(500)
    page = await owner.post(f"{SETTINGS}/test", page=SETTINGS)
    said = text_of(page.text)
    assert said.count("non consegnata") == 2
    assert "risposta 554" in said
    assert "risposta 500" in said


async def test_what_is_typed_wrong_is_shown_again_and_changes_nothing(owner: Visit) -> None:
    wrong = {
        "host": "posta.example",
        "port": "70000",
        "security": "tls",
        "sender": "nessuno",
        "user": "<b>io</b>",
    }
    page = await owner.post(f"{SETTINGS}/mail", wrong | {"password": "una parola"}, page=SETTINGS)
    assert page.status_code == 400
    assert page.text.count('aria-invalid="true"') == 2
    assert "&lt;b&gt;io&lt;/b&gt;" in page.text
    assert "una parola" not in page.text
    open_ = MAIL | {"host": "posta.example", "port": "25", "user": "io", "password": "parola"}
    assert (await owner.post(f"{SETTINGS}/mail", open_, page=SETTINGS)).status_code == 400
    without = open_ | {"security": "starttls", "password": ""}
    assert (await owner.post(f"{SETTINGS}/mail", without, page=SETTINGS)).status_code == 400
    for recipients in ("nessuno", "a@b.it\nBcc: c@d.it", "<script>@b.it"):
        page = await owner.post(f"{SETTINGS}/recipients", {"recipients": recipients}, page=SETTINGS)
        assert page.status_code == 400
        assert "<script>@" not in page.text
    for url in ("ftp://x.it/", "https://u:p@x.it/", "javascript:alert(1)", ""):
        assert (await owner.post(f"{SETTINGS}/webhook", {"url": url}, page=SETTINGS)).status_code == 400
    for days in ("0", "3651", "trenta", "-1", ""):
        assert (await owner.post(f"{SETTINGS}/retention", {"days": days}, page=SETTINGS)).status_code == 400
    shown = (await owner.get(SETTINGS)).text
    assert 'value="180"' in shown
    assert "posta.example" not in shown


async def test_a_mail_password_stays_with_its_server(owner: Visit) -> None:
    server = {
        "host": "posta.example",
        "port": "587",
        "security": "starttls",
        "sender": "a@b.it",
        "user": "io",
    }
    saved(await owner.post(f"{SETTINGS}/mail", server | {"password": "segreta"}))
    shown = (await owner.get(SETTINGS)).text
    assert "segreta" not in shown
    assert "È impostata" in shown
    saved(await owner.post(f"{SETTINGS}/mail", server | {"sender": "c@d.it"}))
    other = await owner.post(f"{SETTINGS}/mail", server | {"host": "ladro.example"}, page=SETTINGS)
    assert other.status_code == 400
    assert "posta.example" in (await owner.get(SETTINGS)).text


async def test_conversations_are_kept_as_long_as_an_owner_says(gateway: Gateway, owner: Visit) -> None:
    await owner.post(f"{SETTINGS}/keys/claude", {"key": gateway.fakes.claude.key}, page=SETTINGS)
    tenant, _ = await gateway.tenant_of_its_own()
    await answers(gateway, tenant, 200, "pronti")
    now = datetime.now(UTC)
    gateway.set_clock(now)
    begun = (await gateway.ask(tenant, "Mi chiamo Ada.", conversazione="nuova")).json()["conversazione"]

    async def kept(setting: str, days: float) -> int:
        """The status of one call that goes on so many days later; a call that goes on renews its conversation."""
        gateway.set_clock(now)  # the owner's session ends by it too
        saved(await owner.post(f"{SETTINGS}/retention", {"days": setting}, page=SETTINGS))
        await asyncio.sleep(CHANGE_SECONDS)
        gateway.set_clock(now + timedelta(days=days))
        return (await gateway.ask(tenant, "E allora?", conversazione=begun)).status_code

    try:
        assert await kept("3", 3.1) == 404
        assert await kept("4", 3.1) == 200
    finally:
        gateway.free_clock()


async def test_only_owners_see_and_set(gateway: Gateway) -> None:
    async with logged_in(gateway, "redattore@example.it", "editor") as editor:
        assert (await editor.get(SETTINGS)).status_code == 403
        for path in ("keys/claude", "recipients", "webhook", "mail", "retention", "test"):
            answer = await editor.post(f"{SETTINGS}/{path}", {"key": "x", "days": "1"}, page="/panel/account")
            assert answer.status_code == 403, path
    assert (await gateway.client.get(SETTINGS)).status_code == 303
    stranger = await gateway.client.post(f"{SETTINGS}/retention", data={"days": "1"})
    assert stranger.headers["location"].startswith("/panel/login")


# --- the project page -----------------------------------------------------------------------------------------------


async def test_an_address_for_notices_is_set_replaced_and_taken_back(
    gateway: Gateway, receiver: Receiver
) -> None:
    tenant = await gateway.desk.project()
    there = f"/panel/projects/{tenant.name}"
    async with logged_in(gateway, "avvisi@example.it", "editor") as editor:
        made = await editor.post(f"{there}/notices", {"url": receiver.url}, page=there)
        assert made.status_code == 200
        first = re.findall(r"avs_[\w-]{43}", made.text)
        again = await editor.post(f"{there}/notices", {"url": receiver.url}, page=there)
        second = re.findall(r"avs_[\w-]{43}", again.text)
        assert len(first) == len(second) == 1
        assert first != second
        page = (await editor.get(there)).text
        assert receiver.url in page
        assert "avs_" not in page
        for wrong in ("https://u:p@x.it/", "ftp://x.it", "javascript:alert(1)", ""):
            bad = await editor.post(f"{there}/notices", {"url": wrong}, page=there)
            assert bad.status_code == 400
        assert (await gateway.desk.tenants.get_project(tenant.name)).notice_url == receiver.url
        # The other settings of the project leave the address alone.
        kept = {"per_hour": "7", "budget": "", "brain": "", "domains": ""}
        saved(await editor.post(there, kept, page=there))
        assert (await gateway.desk.tenants.get_project(tenant.name)).notice_url == receiver.url
        gone = await editor.post(f"{there}/notices", {"action": "remove"}, page=there)
        saved(gone)
        assert (await gateway.desk.tenants.get_project(tenant.name)).notice_url is None
    told = await audited(gateway)
    assert "avs_" not in told
    async with logged_in(gateway, "guarda@example.it", "viewer") as viewer:
        assert (await viewer.get(there)).status_code == 200
        refused = await viewer.post(f"{there}/notices", {"url": receiver.url}, page="/panel/account")
        assert refused.status_code == 403


async def test_a_project_is_removed_by_its_name_and_the_ledger_stays(gateway: Gateway, owner: Visit) -> None:
    await owner.post(f"{SETTINGS}/keys/claude", {"key": gateway.fakes.claude.key}, page=SETTINGS)
    tenant, brain = await gateway.tenant_of_its_own()
    await answers(gateway, tenant, 200, "pronti")
    answer = (await gateway.ask(tenant, "Ciao.", conversazione="nuova")).json()
    request_id = answer["meta"]["richiesta"]
    there = f"/panel/projects/{tenant.name}/remove"
    page = await owner.get(there)
    assert page.status_code == 200
    assert "Conversazioni 1" in text_of(page.text)
    for typed in ("", tenant.name.upper(), f"{tenant.name}x", "<b>"):
        refused = await owner.post(there, {"name": typed}, page=there)
        assert refused.status_code == 400
        assert "<b>" not in refused.text
    assert (await gateway.ask(tenant)).status_code == 200

    done = await owner.post(there, {"name": tenant.name}, page=there)
    assert done.status_code == 303, text_of(done.text)
    assert done.headers["location"].startswith("/panel/projects?")

    async def unknown(client: httpx.AsyncClient) -> bool:
        body = {"progetto": tenant.name, "encode": "libero", "contenuto": "Ciao."}
        response = await client.post("/api.php", json=body, headers=gateway.headers(tenant))
        return response.status_code == 401

    await gateway.everywhere(unknown)
    assert (await owner.get(f"/panel/projects/{tenant.name}")).status_code == 404
    calls = schema.calls
    async with gateway.desk.database.connect() as connection:
        label = await connection.scalar(select(calls.c.project).where(calls.c.request_id == request_id))
        left = await connection.scalar(
            select(func.count()).select_from(calls).where(calls.c.project == tenant.name)
        )
    assert label is not None
    assert re.fullmatch(r"rimosso-[A-Z]{8}", label)
    assert left == 0
    assert await gateway.desk.conversation_count(tenant) == 0
    assert f"project.remove {tenant.name}" in await audited(gateway)
    assert (await owner.post(there, {"name": tenant.name})).status_code == 404
    assert brain.name in {one.name for one in await Catalog(gateway.desk.database).list_brains()}


async def test_the_gateways_own_project_stays(gateway: Gateway, owner: Visit) -> None:
    there = "/panel/projects/dilem/remove"
    page = await owner.get(there)
    assert '<form method="post" action="/panel/projects/dilem/remove"' not in page.text
    assert (await owner.post(there, {"name": "dilem"})).status_code == 409
    assert (await gateway.desk.tenants.get_project("dilem")).active
    tenant = await gateway.desk.project()
    async with logged_in(gateway, "toglie@example.it", "editor") as editor:
        there = f"/panel/projects/{tenant.name}/remove"
        assert (await editor.get(there)).status_code == 403
        assert (await editor.post(there, {"name": tenant.name}, page="/panel/account")).status_code == 403
    await gateway.desk.tenants.set_project(
        tenant.name, ProjectChanges(active=False), TESTER, datetime.now(UTC)
    )
