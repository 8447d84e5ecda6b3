"""The ledger: every call with what it cost and why, never with what was said; filters, pages, CSV, one row's receipt."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response, get
from litestar.params import FromPath
from litestar.response import Stream

from gateway.core import Office
from gateway.domain.calls import CallRecord, Outcome
from gateway.domain.errors import StoreAwayError
from gateway.domain.operators import Role
from gateway.routes.panel.pages import MICROS, SECURITY_HEADERS, Pages
from gateway.storage.refusals import UnknownError
from gateway.storage.reports import LedgerFilter, LedgerPage, Position

PAGE = 50
LOOK_SECONDS = 1.0
CSV_ROWS_AT_ONCE = 200
LONGEST = 128
COLUMNS = (
    "richiesta",
    "giorno",
    "quando",
    "progetto",
    "ricetta",
    "versione_ricetta",
    "esito",
    "errore",
    "chiave",
    "per_conto_di",
    "modello_pepper",
    "provider",
    "modello",
    "token_ingresso",
    "token_uscita",
    "token_cache_letti",
    "token_cache_scritti",
    "ricerche",
    "costo_usd",
    "tentativi",
    "ripiego",
    "troncata",
    "durata_ms",
    "attesa_provider_ms",
    "pratica",
)

AnyRequest = Request[Any, Any, Any]


def ledger_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""

    @get("/ledger", opt={"role": Role.VIEWER})
    async def show_ledger(request: AnyRequest) -> Response[bytes]:
        query = request.query_params
        wanted, after = _filter(query), _position(query.get("after", ""))
        page = await _found(office, wanted, after)
        fields = _fields(wanted)
        context = {
            "rows": page.rows,
            "wanted": wanted,
            "outcomes": list(Outcome),
            "projects": [one.name for one in await office.tenants.list_projects()],
            "older": None if page.older is None else urlencode({**fields, "after": _place(page.older)}),
            "looking": page.older is not None and len(page.rows) < PAGE,
            "newest": after is None,
            "filters": urlencode(fields),
        }
        return pages.page(request, "ledger.html", context)

    @get("/ledger.csv", opt={"role": Role.VIEWER})
    async def export_ledger(request: AnyRequest) -> Stream:
        wanted = _filter(request.query_params)
        headers = {**SECURITY_HEADERS, "content-disposition": 'attachment; filename="registro.csv"'}
        return Stream(_csv(office, wanted), status_code=200, media_type="text/csv", headers=headers)

    @get("/ledger/{request_id:str}", opt={"role": Role.VIEWER})
    async def show_call(request: AnyRequest, request_id: FromPath[str]) -> Response[bytes]:
        row = await office.reports.call(request_id[:LONGEST])
        if row is None:
            raise UnknownError("no such call")
        keys = {} if row.key_id is None else {one.id: one for one in await _keys(office, row.project)}
        return pages.page(request, "call.html", {"row": row, "key": keys.get(row.key_id or 0)})

    return [show_ledger, export_ledger, show_call]


async def _found(office: Office, wanted: LedgerFilter, after: Position | None) -> LedgerPage:
    """A page of rows that fit, looked for as long as a person likes to wait."""
    until = time.monotonic() + LOOK_SECONDS
    page = await office.reports.page(wanted, after, PAGE)
    while not page.rows and page.older is not None and time.monotonic() < until:
        page = await office.reports.page(wanted, page.older, PAGE)
    return page


async def _keys(office: Office, project: str) -> Any:
    try:
        return await office.tenants.list_keys(project)
    except UnknownError:  # a removed project's rows stay, without its name
        return ()


async def _csv(office: Office, wanted: LedgerFilter) -> AsyncIterator[str]:
    """Every row that fits. An export that is cut says so in its last line: a file must not look whole when it is not."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    waiting = 0
    try:
        async for row in office.reports.all_rows(wanted):
            writer.writerow([_inert(value) for value in _values(row)])
            waiting += 1
            if waiting >= CSV_ROWS_AT_ONCE:
                yield _taken(buffer)
                waiting = 0
    except StoreAwayError:
        writer.writerow(["INTERROTTO: il registro non risponde, ripetere l'esportazione"])
    yield _taken(buffer)


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _inert(value: object) -> object:
    """A text that a spreadsheet would take for a formula is kept a text."""
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )


def _values(row: CallRecord) -> tuple[object, ...]:
    usage = row.usage
    return (
        row.request_id,
        row.day.isoformat(),
        row.started_at.isoformat(),
        row.project,
        row.recipe,
        row.recipe_version,
        row.outcome.value,
        row.fault or "",
        row.key_id or "",
        row.by or "",
        row.brain,
        row.provider,
        row.model,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.searches,
        f"{row.cost / MICROS:.6f}",
        len(row.attempts),
        row.fallback or "",
        "sì" if row.truncated else "no",
        row.duration_ms,
        row.provider_ms,
        row.batch or "",
    )


def _filter(query: Mapping[str, str]) -> LedgerFilter:
    """What the address asks for; what makes no sense is left out."""
    outcome = query.get("outcome", "")
    return LedgerFilter(
        project=_text(query, "project"),
        recipe=_text(query, "recipe"),
        outcome=Outcome(outcome) if outcome in set(Outcome) else None,
        first=_day(query, "from"),
        last=_day(query, "to"),
        request=_text(query, "request"),
    )


def _text(query: Mapping[str, str], name: str) -> str | None:
    return query.get(name, "").strip()[:LONGEST] or None


def _day(query: Mapping[str, str], name: str) -> date | None:
    try:
        return date.fromisoformat(query.get(name, ""))
    except ValueError:
        return None


def _fields(wanted: LedgerFilter) -> dict[str, str]:
    named = {
        "project": wanted.project,
        "recipe": wanted.recipe,
        "outcome": wanted.outcome.value if wanted.outcome else None,
        "from": wanted.first.isoformat() if wanted.first else None,
        "to": wanted.last.isoformat() if wanted.last else None,
        "request": wanted.request,
    }
    return {name: value for name, value in named.items() if value}


def _place(position: Position) -> str:
    return f"{position.day.isoformat()}~{position.at.timestamp():.6f}~{position.request_id}"


def _position(text: str) -> Position | None:
    day, _, rest = text.partition("~")
    at, _, request_id = rest.partition("~")
    try:
        return Position(date.fromisoformat(day), datetime.fromtimestamp(float(at), UTC), request_id[:LONGEST])
    except (ValueError, OverflowError, OSError):
        return None
