"""The ledger in the panel: filters, pages, export, receipts; and the pages that are made of it: overview, deferred work."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from html import unescape
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from sqlalchemy import insert

from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.catalog import ModelFallback
from gateway.domain.errors import StoreAwayError
from gateway.domain.usage import Usage
from gateway.routes.panel.ledger import COLUMNS, _csv
from gateway.storage import reports, schema, traffic
from gateway.storage.calls import ledger_row
from gateway.storage.reports import LedgerFilter, Position, Reports
from tests.e2e.deferral import worker
from tests.e2e.harness import Gateway
from tests.e2e.panel import HOSTILE, Visit, inert, logged_in, shown, text_of
from tests.fakes import Behaviour, say, status

NOON = datetime(2026, 11, 20, 11, 0, tzinfo=UTC)
ROWS = 1_200
PAGE = 50
_LINK = re.compile(r'href="/panel/ledger/(req_[^"]+)"')
_OLDER = re.compile(r'href="(/panel/ledger\?[^"]+)" rel="next"')


@pytest.fixture
async def viewer(gateway: Gateway) -> AsyncIterator[Visit]:
    async with logged_in(gateway, "osservatrice@example.it", "viewer") as visit:
        yield visit


def record(number: int, project: str, **fields: Any) -> CallRecord:
    """A row; a hundred after each other have the same instant."""
    at = NOON + timedelta(microseconds=number // 100, days=-(number // 1_000))
    values: dict[str, Any] = {
        "request_id": f"req_{project}_{(number * 7_919) % 100_003:06}",
        "project": project,
        "day": at.date(),
        "started_at": at,
        "recipe": f"ricetta-{number % 3}",
        "recipe_version": 1,
        "outcome": Outcome.FAILED if number % 50 == 0 else Outcome.OK,
        "model": "un-modello",
        "provider": "claude",
        "usage": Usage(input_tokens=number, output_tokens=1),
        "cost": number,
    }
    return CallRecord(**(values | fields))


async def write(gateway: Gateway, rows: Sequence[CallRecord]) -> None:
    async with gateway.desk.database.begin() as connection:
        await connection.execute(insert(schema.calls), [ledger_row(row) for row in rows])


async def read(viewer: Visit, path: str) -> tuple[list[str], int]:
    """The ids of all pages from this one on, and how many pages there were."""
    found: list[str] = []
    pages = 0
    while True:
        page = inert(await viewer.get(path))
        found += [unescape(one) for one in _LINK.findall(page)]
        pages += 1
        older = _OLDER.search(page)
        if older is None:
            return found, pages
        assert pages < 200
        path = unescape(older[1])


def newest_first(rows: Sequence[CallRecord]) -> list[str]:
    return [row.request_id for row in sorted(rows, key=lambda one: (one.started_at, one.request_id))[::-1]]


async def test_pages_hold_every_row_once_also_of_one_instant(gateway: Gateway, viewer: Visit) -> None:
    project = (await gateway.desk.project()).name
    rows = [record(number, project) for number in range(ROWS)]
    await write(gateway, rows)
    assert await read(viewer, f"/panel/ledger?project={project}") == (newest_first(rows), ROWS // PAGE)
    everybody, _ = await read(viewer, "/panel/ledger")
    assert len(set(everybody)) == len(everybody)
    assert [one for one in everybody if f"_{project}_" in one] == newest_first(rows)
    filters: dict[str, Callable[[CallRecord], bool]] = {
        "recipe=ricetta-1": lambda row: row.recipe == "ricetta-1",
        "outcome=errore": lambda row: row.outcome is Outcome.FAILED,
        "from=2026-11-20": lambda row: row.day >= date(2026, 11, 20),
        "to=2026-11-19": lambda row: row.day <= date(2026, 11, 19),
        "from=2026-11-19&to=2026-11-19&outcome=errore": lambda row: (
            row.day == date(2026, 11, 19) and row.outcome is Outcome.FAILED
        ),
        f"request={rows[77].request_id}": lambda row: row is rows[77],
        "recipe=nessuna": lambda _: False,
        "from=2027-01-01": lambda _: False,
        "to=1969-01-01": lambda _: False,
        "to=0001-01-01": lambda _: False,
    }
    for wanted, fits in filters.items():
        found, _ = await read(viewer, f"/panel/ledger?project={project}&{wanted}")
        assert found == newest_first([row for row in rows if fits(row)]), wanted
        among_all, _ = await read(viewer, f"/panel/ledger?{wanted}")
        assert [one for one in among_all if f"_{project}_" in one] == found, wanted
    # What makes no sense as a filter or a place is none.
    for odd in ("outcome=boh", "from=ieri", "to=2026-13-01", "after=x", "after=2026-11-20~nan~x", "after=~~"):
        page = await viewer.get(f"/panel/ledger?project={project}&{odd}")
        assert newest_first(rows)[0] in inert(page), odd


async def test_a_search_that_finds_nothing_ends(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit: no page looks at more rows than it may."""
    project = (await gateway.desk.project()).name
    rows = [record(number, project) for number in range(1_000)]
    await write(gateway, rows)
    monkeypatch.setattr(reports, "SCANNED_AT_ONCE", 100)
    ledger = Reports(gateway.desk.database)
    for wanted, fitting in (
        (LedgerFilter(project=project, recipe="nessuna"), []),
        (LedgerFilter(project=project, outcome=Outcome.FAILED), newest_first(rows[::50])),
        (LedgerFilter(project=project, recipe="ricetta-2"), newest_first(rows[2::3])),
    ):
        for one in (wanted, msgspec.structs.replace(wanted, project=None)):
            place: Position | None = None
            found, pages = [], 0
            while True:
                page = await ledger.page(one, place, 7)
                found += [row.request_id for row in page.rows if row.project == project]
                pages, place = pages + 1, page.older
                if place is None:
                    break
            assert found == fitting
            assert pages >= 10


async def test_an_export_is_every_row_and_no_formula(gateway: Gateway, viewer: Visit) -> None:
    project = (await gateway.desk.project()).name
    formulas = ("=cmd|' /C calc'!A0", "+39 06", "-1+1", "@SUM(A1)", "\tx", "\r=1", 'a"b,c\nd', "<script>")
    rows = [record(number, project, model=one, by=one) for number, one in enumerate(formulas)]
    rows += [record(number, project, cost=1_234_567) for number in range(100, 1_300)]
    await write(gateway, rows)
    answer = await viewer.get(f"/panel/ledger.csv?project={project}")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="registro.csv"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert tuple(table[0]) == COLUMNS
    assert [line["richiesta"] for line in table] == newest_first(rows)
    told = {line["richiesta"]: line for line in table}
    for row in rows[: len(formulas)]:
        assert row.by is not None
        safe = row.model if row.model[0] in "a<" else f"'{row.model}"
        assert told[row.request_id]["modello"] == told[row.request_id]["per_conto_di"] == safe
    assert told[rows[-1].request_id]["costo_usd"] == "1.234567"
    some = await viewer.get(f"/panel/ledger.csv?project={project}&outcome=errore")
    assert len(some.text.splitlines()) == 1 + sum(row.outcome is Outcome.FAILED for row in rows)


async def test_an_export_that_is_cut_says_so() -> None:
    async def all_rows(wanted: LedgerFilter) -> AsyncIterator[CallRecord]:
        for number in range(450):
            yield record(number, "mozzo")
        raise StoreAwayError("gone")

    office: Any = SimpleNamespace(reports=SimpleNamespace(all_rows=all_rows))
    pieces = [piece async for piece in _csv(office, LedgerFilter())]
    lines = "".join(pieces).splitlines()
    assert len(pieces) == 3
    assert len(lines) == 1 + 450 + 1
    assert lines[-1].startswith('"INTERROTTO')


async def test_a_receipt_tells_what_a_call_was_made_of(gateway: Gateway, viewer: Visit) -> None:
    gateway.teach("claude", "claude-scontrino")
    await gateway.desk.price("claude-scontrino", 1.0, 5.0)
    tenant, brain = await gateway.tenant_of_its_own(fallback=ModelFallback("claude-scontrino"))
    replies: dict[str, Behaviour] = {brain.principal: status(503), "claude-scontrino": say("Ecco.")}
    gateway.fakes.claude.default = lambda seen: replies[seen.body["model"]]
    answer = await gateway.ask(tenant, "Un contenuto che non resta scritto.")
    assert answer.status_code == 200
    [row] = await gateway.desk.rows(tenant)
    page = inert(await viewer.get(f"/panel/ledger/{row.request_id}"))
    told = text_of(page)
    assert "Un contenuto" not in page
    assert "Ecco." not in page
    assert f"Chiesta da chiave {tenant.key_id} · prova" in told
    assert "Ripiego model:claude-scontrino" in told
    assert f"claude · {brain.principal}" in told
    assert "entrata 1.0 · uscita 5.0" in told or "entrata 1 · uscita 5" in told
    assert f"{row.cost / 1e6:.6f} USD" in told
    assert told.count("guasto") + told.count("sovraccarico") == len(row.attempts) - 1
    assert (await viewer.get("/panel/ledger/req_nessuna")).status_code == 404
    assert (await viewer.get("/panel/ledger/" + "x" * 5_000)).status_code in {404, 414}


async def test_the_overview_adds_up(gateway: Gateway, viewer: Visit) -> None:
    tenant, brain = await gateway.tenant_of_its_own(cap=0.5)
    for _ in range(3):
        assert (await gateway.ask(tenant)).status_code == 200
    gateway.fakes.claude.default = status(400)
    assert (await gateway.ask(tenant)).status_code != 200
    rows = await gateway.desk.rows(tenant)
    spent = await gateway.desk.spent(tenant)
    page = inert(await viewer.get("/panel"))
    told = text_of(page)
    share = round(100 * spent / 500_000)
    assert f"{tenant.name} {spent / 1e6:,.4f} USD 0.50 USD {share}% 4 1" in told
    failed = next(row for row in rows if row.outcome is Outcome.FAILED)
    assert f"/panel/ledger/{failed.request_id}" in page
    assert brain.principal in told


async def test_an_hour_that_is_over_is_summed_once(gateway: Gateway) -> None:
    project = (await gateway.desk.project()).name
    hours = traffic.HourlyTraffic(gateway.desk.database)
    hour = NOON + timedelta(days=20)
    at = {"started_at": hour + timedelta(minutes=59, seconds=59, microseconds=999_999), "day": hour.date()}
    await write(gateway, [record(1, project, **at), record(2, project, outcome=Outcome.NOTIFIED, **at)])

    async def calls(now: datetime) -> int:
        return sum(
            one.calls for one in await hours.of([hour, hour + traffic.HOUR], now) if one.project == project
        )

    late = hour + traffic.HOUR + timedelta(minutes=5)
    assert await calls(late) == 1
    await write(gateway, [record(3, project, started_at=hour, day=hour.date())])
    assert await calls(late) == 2, "a call that had begun in the hour"
    much_later = late + traffic.OPEN
    assert await calls(much_later) == 2
    await write(gateway, [record(4, project, started_at=hour, day=hour.date())])
    assert await calls(much_later) == 2, "kept for a while"


async def test_deferred_work_is_listed_with_what_it_costs(gateway: Gateway, viewer: Visit) -> None:
    anna = await worker(gateway, "claude")
    anna.batches.delay = 3_600
    number = await anna.submit("un testo segreto", "un altro")
    path = f"/panel/batches?project={anna.tenant.name}"
    page = inert(await viewer.get(path))
    told = text_of(page)
    assert f"{number} {anna.tenant.name} libero in_corso" in told
    assert "fino a" in told
    assert "segreto" not in page
    anna.batches.end()
    gateway.set_clock(datetime.now(UTC) + timedelta(minutes=10))
    try:
        assert (await anna.collect(number))["stato"] == "pronta"
    finally:
        gateway.free_clock()
    told = text_of(inert(await viewer.get(path)))
    assert f"{number} {anna.tenant.name} libero pronta" in told
    [paid] = [row for row in await gateway.desk.rows(anna.tenant) if row.batch == number]
    assert f"{paid.cost / 1e6:.6f} USD" in told
    assert number not in (await viewer.get(f"{path}&state=in_corso")).text
    for odd in ("state=boh", "before=ieri", "before=2026-11-20", "project=<script>"):
        inert(await viewer.get(f"/panel/batches?{odd}"))


async def test_hostile_rows_are_inert(gateway: Gateway, viewer: Visit) -> None:
    project = (await gateway.desk.project()).name
    now = datetime.now(UTC)
    rows = [
        record(
            number,
            project,
            request_id=f"req_{number}{one}"[:64],
            started_at=now,
            day=now.date(),
            recipe=one,
            model=one,
            brain=one,
            provider=one[:32],
            fault=one,
            by=one,
            fallback=one,
            outcome=Outcome.FAILED,
        )
        for number, one in enumerate(HOSTILE)
    ]
    await write(gateway, rows)
    for path in (f"/panel/ledger?project={project}", "/panel", "/panel/batches"):
        page = inert(await viewer.get(path))
        assert path == "/panel/batches" or shown(HOSTILE[0]) in page
    for one in HOSTILE:
        for name in ("project", "recipe", "request", "outcome", "from", "after"):
            inert(await viewer.client.get("/panel/ledger", params={name: one}))
        inert(await viewer.client.get("/panel/batches", params={"project": one, "state": one}))
        inert(await viewer.client.get("/panel/audit", params={"before": one}))
    for row in rows[2:]:
        receipt = inert(await viewer.client.get(f"/panel/ledger/{row.request_id}"))
        assert shown(row.model) in receipt


async def test_every_outcome_has_a_look(gateway: Gateway, viewer: Visit) -> None:
    project = (await gateway.desk.project()).name
    rows = [record(number, project, outcome=one) for number, one in enumerate(Outcome)]
    await write(gateway, rows)
    told = text_of(inert(await viewer.get(f"/panel/ledger?project={project}")))
    for row in rows:
        assert row.outcome.value in told
        assert (await viewer.get(f"/panel/ledger/{row.request_id}")).status_code == 200
