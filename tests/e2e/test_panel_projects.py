"""Projects in the panel: made, changed, switched and tried out; their keys; and what each of it does to calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest

from gateway.domain.calls import Outcome
from gateway.domain.tenants import Permission, Project
from gateway.storage.audit import AuditEntry, read_audit
from tests.e2e.desk import Tenant
from tests.e2e.harness import CHANGE_SECONDS, Gateway
from tests.e2e.panel import HOSTILE, Visit, inert, logged_in, shown, text_of
from tests.e2e.waiting import eventually
from tests.fakes import say, status

NEW_KEY = re.compile(r"pk_[A-Za-z0-9_-]{43}")
RIGHT = {
    "permissions": ["documenti", "internet"],
    "per_hour": "250",
    "budget": "12,5",
    "brain": "Pepper 7",
    "domains": "esempio.it\nwww.comune.roma.it, città.it",
    "sandbox": "on",
}


@pytest.fixture
async def editor(gateway: Gateway) -> AsyncIterator[Visit]:
    async with logged_in(gateway, "redattrice@example.it", "editor") as visit:
        yield visit


async def _project(gateway: Gateway, name: str) -> Project | None:
    return next((one for one in await gateway.desk.tenants.list_projects() if one.name == name), None)


async def _changes(gateway: Gateway) -> int:
    newest = await read_audit(gateway.desk.database, 1)
    return newest[0].id if newest else 0


def _told(entry: AuditEntry) -> str:
    return f"{bytes(entry.before or b'').decode()} {bytes(entry.after or b'').decode()}"


async def test_a_project_is_made_with_its_first_key(gateway: Gateway, editor: Visit) -> None:
    made = await editor.post("/panel/projects", {"name": "nuovo", **RIGHT}, page="/panel/projects")
    assert made.status_code == 200
    [key] = NEW_KEY.findall(made.text)
    assert await _project(gateway, "nuovo") == Project(
        name="nuovo",
        permissions=frozenset({Permission.DOCUMENTS, Permission.INTERNET}),
        hourly_limit=250,
        daily_budget=12_500_000,
        brain="Pepper 7",
        domains=("esempio.it", "www.comune.roma.it", "xn--citt-3na.it"),
        sandbox=True,
        created_at=(await gateway.desk.tenants.get_project("nuovo")).created_at,
    )
    tenant = Tenant("nuovo", key)

    async def answers() -> bool:
        return (await gateway.ask(tenant)).status_code == 200

    await eventually(answers, CHANGE_SECONDS)
    again = inert(await editor.get("/panel/projects/nuovo"))
    assert key not in again, "shown once"
    assert 'value="12.5"' in again
    [add_key, add_project] = await read_audit(gateway.desk.database, 2)
    assert (add_project.operator, add_project.action) == ("redattrice@example.it", "project.add")
    assert add_key.action == "key.add"
    assert key not in _told(add_key) + _told(add_project)
    twice = await editor.post("/panel/projects", {"name": "nuovo", **RIGHT}, page="/panel/projects")
    assert twice.status_code == 409


WRONG = [
    ("name", ["", "Nuovo", "a b", "x" * 64, "-a", "<b>", "../x", "è"]),
    ("per_hour", ["", "-1", "1.5", "tante", "1000001", "1e3", "٣"]),
    ("budget", ["-1", "tanto", "1e3", "1.0000001", "12.5.0", "NaN"]),
    ("permissions", ["tutto", "documenti,internet,root", "<script>"]),
    (
        "domains",
        ["https://esempio.it", "esempio.it/pagina", "a b@c", "esempio", "esempio.it esempio.it", "*.it"],
    ),
    ("brain", ["Pepper 99", "<script>alert(1)</script>"]),
]


@pytest.mark.parametrize(("field", "values"), WRONG, ids=[field for field, _ in WRONG])
async def test_a_wrong_field_changes_nothing_and_is_told_beside_it(
    gateway: Gateway, editor: Visit, field: str, values: list[str]
) -> None:
    tenant = await gateway.desk.project()
    before, project = await _changes(gateway), await _project(gateway, tenant.name)
    for value in values:
        typed: Mapping[str, Any] = {**RIGHT, "name": "sbagliato", field: value}
        refusals = [await editor.post("/panel/projects", typed, page="/panel/projects")]
        if field != "name":
            refusals.append(
                await editor.post(f"/panel/projects/{tenant.name}", typed, page="/panel/projects")
            )
        for refusal in refusals:
            assert refusal.status_code == 400, value
            page = inert(refusal)
            assert 'role="alert"' in page
            if field != "permissions":  # which no page's form gets wrong
                _told_beside(page, field)
            if field not in {"permissions", "brain"}:
                assert shown(value.strip()) in page, "what was typed is kept"
    assert await _changes(gateway) == before
    assert await _project(gateway, tenant.name) == project
    assert await _project(gateway, "sbagliato") is None


def _told_beside(page: str, field: str) -> None:
    tag = re.search(rf'<(?:input|select|textarea) id="f-{field}"[^>]*>', page)
    assert tag is not None
    assert 'aria-invalid="true"' in tag[0]
    described = re.search(r'aria-describedby="([^"]+)"', tag[0])
    assert described is not None
    assert f"e-{field}" in described[1].split()
    assert f'id="e-{field}"' in page


async def test_a_change_is_audited_with_before_and_after(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project(cap=5, allow=(Permission.IMAGES,))
    path = f"/panel/projects/{tenant.name}"
    typed = {"permissions": ["agente"], "per_hour": "7", "budget": "", "brain": "", "domains": ""}
    done = await editor.post(path, typed, page=path)
    assert (done.status_code, done.headers["location"]) == (303, f"{path}?done=saved")
    assert "Salvato." in text_of((await editor.get(done.headers["location"])).text)
    [entry] = await read_audit(gateway.desk.database, 1)
    assert entry.before is not None
    assert entry.after is not None
    before, after = msgspec.json.decode(entry.before), msgspec.json.decode(entry.after)
    assert (before["hourly_limit"], after["hourly_limit"]) == (100_000, 7)
    assert (before["daily_budget"], after["daily_budget"]) == (5_000_000, None)
    assert (before["permissions"], after["permissions"]) == (["immagini"], ["agente"])
    told = text_of((await editor.get("/panel/audit")).text)
    assert f"redattrice@example.it project.set {tenant.name}" in told
    assert "hourly_limit 100000 7" in told
    gateway_line = await asyncio.to_thread(gateway.command, "project", "set", tenant.name, "--per-hour", "9")
    assert gateway_line.returncode == 0, gateway_line.stderr
    told = text_of((await editor.get("/panel/audit")).text)
    assert "hourly_limit 7 9" in told, "the command line's changes too"


async def test_a_permission_turned_off_refuses_the_next_call_within_two_seconds(
    gateway: Gateway, editor: Visit
) -> None:
    tenant = await gateway.desk.project(allow=(Permission.DEFERRED,))
    path = f"/panel/projects/{tenant.name}"

    async def on() -> bool:
        return bool((await gateway.capabilities(tenant))["puo"]["differito"])

    await eventually(on, CHANGE_SECONDS)
    off = {"per_hour": "100", "budget": "", "brain": "", "domains": ""}
    assert (await editor.post(path, off, page=path)).status_code == 303

    async def refused() -> bool:
        answer = await gateway.ask(tenant, modo="differito")
        return answer.status_code == 403

    await eventually(refused, CHANGE_SECONDS)


async def test_a_disabled_project_and_a_revoked_key_are_unknown(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project()
    path = f"/panel/projects/{tenant.name}"

    async def status_is(wanted: int, who: Tenant) -> None:
        async def told() -> bool:
            return (await gateway.ask(who)).status_code == wanted

        await eventually(told, CHANGE_SECONDS)

    await status_is(200, tenant)
    assert (await editor.post(f"{path}/active", {"active": ""}, page=path)).status_code == 303
    await status_is(401, tenant)
    assert "spento" in text_of((await editor.get(path)).text)
    assert (await editor.post(f"{path}/active", {"active": "1"}, page=path)).status_code == 303
    await status_is(200, tenant)

    made = await editor.post(f"{path}/keys", {"label": "server di Anna"}, page=path)
    [second] = NEW_KEY.findall(made.text)
    assert "server di Anna" in made.text
    await status_is(200, Tenant(tenant.name, second))
    revoked = await editor.post(f"{path}/keys/{tenant.key_id}/revoke", page=path)
    assert revoked.status_code == 303
    await status_is(401, tenant)
    await status_is(200, Tenant(tenant.name, second))
    assert (await editor.post(f"{path}/keys/{tenant.key_id}/revoke", page=path)).status_code == 404
    assert "revocata" in text_of((await editor.get(path)).text)
    other = await gateway.desk.project()
    foreign = await editor.post(f"{path}/keys/{other.key_id}/revoke", page=path)
    assert foreign.status_code == 404, "another project's key"
    await status_is(200, other)
    for label in ("x" * 129, "due\nrighe", "\u202e"):
        assert (await editor.post(f"{path}/keys", {"label": label}, page=path)).status_code == 400
    assert (await editor.post("/panel/projects/dilem/keys", {"label": ""}, page=path)).status_code == 409


async def test_trying_out_is_a_call_in_the_ledger_and_the_audit(gateway: Gateway, editor: Visit) -> None:
    tenant, brain = await gateway.tenant_of_its_own(cap=10)
    path = f"/panel/projects/{tenant.name}/try"
    gateway.fakes.claude.script(say(f"Ecco: {HOSTILE[0]}"))
    fields = {"recipe": "riassumi", "content": f"Un testo. {HOSTILE[1]}", "extra": '{"lunghezza": "breve"}'}
    answer = await editor.post(path, fields, page=path)
    assert answer.status_code == 200
    page = inert(answer)
    assert shown(f"Ecco: {HOSTILE[0]}") in page
    [row] = await gateway.desk.rows(tenant)
    assert (row.by, row.key_id, row.outcome) == ("redattrice@example.it", None, Outcome.OK)
    assert (row.recipe, row.model) == ("riassumi", brain.principal)
    assert row.cost > 0
    assert f"/panel/ledger/{row.request_id}" in page
    assert await gateway.desk.spent(tenant) == row.cost
    entries = await read_audit(gateway.desk.database, 5)
    assert any(
        entry.action == "project.try" and entry.subject == tenant.name and row.request_id in _told(entry)
        for entry in entries
    )
    assert not any("Un testo" in _told(entry) for entry in entries)
    receipt = text_of((await editor.get(f"/panel/ledger/{row.request_id}")).text)
    assert "Chiesta da redattrice@example.it" in receipt

    gateway.fakes.claude.default = status(400)
    failed = await editor.post(path, {**fields, "content": "Un altro."}, page=path)
    assert failed.status_code == 200
    assert 'role="alert"' in failed.text
    assert len(await gateway.desk.rows(tenant)) == 2


async def test_what_is_tried_out_wrongly_costs_nothing(gateway: Gateway, editor: Visit) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    path = f"/panel/projects/{tenant.name}/try"
    right = {"recipe": "libero", "content": "Ciao", "extra": ""}
    wrong: list[tuple[dict[str, str], int]] = [
        ({"extra": "[1]"}, 400),
        ({"extra": "{"}, 400),
        ({"recipe": "riassumi", "extra": '{"parole": "molte"}'}, 200),
        ({"content": ""}, 400),
        ({"content": "x" * 100_001}, 400),
        ({"recipe": "dilem/decide"}, 200),
        ({"recipe": "nessuna"}, 200),
    ]
    for fields, expected in wrong:
        answer = await editor.post(path, {**right, **fields}, page=path)
        assert answer.status_code == expected, fields
        assert 'role="alert"' in inert(answer), fields
    assert gateway.fakes.claude.seen == []
    assert await gateway.desk.spent(tenant) == 0


async def test_hostile_labels_are_inert(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project()
    path = f"/panel/projects/{tenant.name}"
    for label in HOSTILE:
        made = await editor.post(f"{path}/keys", {"label": label}, page=path)
        assert made.status_code == 200
        inert(made)
    page = inert(await editor.get(path))
    for label in HOSTILE:
        assert shown(label) in page
    for value in HOSTILE:
        refused = await editor.post("/panel/projects", {**RIGHT, "name": value}, page="/panel/projects")
        inert(refused)
        missing: httpx.Response = await editor.client.get("/panel/projects/x", params={"done": value})
        assert missing.status_code == 404
        inert(missing)
    inert(await editor.get("/panel/audit"))
    inert(await editor.get("/panel/projects"))
