"""The audit: who changed what, with what it was before and after."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, get

from gateway.core import Office
from gateway.domain.operators import Role
from gateway.routes.panel.pages import Pages
from gateway.storage.audit import AuditEntry, read_audit

PAGE = 50
MAX_ID = 2**53


class Change(msgspec.Struct, frozen=True):
    """One field of what was changed; None where it was not there."""

    field: str
    before: str | None
    after: str | None


def audit_routes(office: Office, pages: Pages) -> list[Any]:
    """The route."""

    @get("/audit", opt={"role": Role.VIEWER})
    async def show_audit(request: Request[Any, Any, Any]) -> Response[bytes]:
        before = request.query_params.get("before", "")
        before_id = int(before) if before.isdecimal() and len(before) < 16 else None
        entries = await read_audit(office.database, PAGE + 1, before_id)
        shown, more = entries[:PAGE], len(entries) > PAGE
        context = {
            "entries": [(entry, changes_of(entry)) for entry in shown],
            "older": shown[-1].id if more and shown else None,
        }
        return pages.page(request, "audit.html", context)

    return [show_audit]


def changes_of(entry: AuditEntry) -> list[Change]:
    """The fields in which before and after differ."""
    before, after = _fields(entry.before), _fields(entry.after)
    names = dict.fromkeys((*before, *after))
    return [
        Change(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _fields(raw: msgspec.Raw | None) -> dict[str, str]:
    value = msgspec.json.decode(raw) if raw is not None else None
    if not isinstance(value, dict):
        return {}
    return {
        name: one if isinstance(one, str) else msgspec.json.encode(one).decode()
        for name, one in value.items()
    }
