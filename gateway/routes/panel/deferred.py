"""Deferred work: every batch with its state and what it costs, never with its texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response, get

from gateway.core import Office
from gateway.domain.batches import BatchState
from gateway.domain.operators import Role
from gateway.routes.panel.pages import Pages

PAGE = 50


def deferred_routes(office: Office, pages: Pages) -> list[Any]:
    """The route."""

    @get("/batches", opt={"role": Role.VIEWER})
    async def show_batches(request: Request[Any, Any, Any]) -> Response[bytes]:
        query = request.query_params
        project, state = query.get("project", "").strip()[:63] or None, query.get("state", "")
        state_wanted = state if state in set(BatchState) else None
        found = await office.reports.batches(
            project, state_wanted, _instant(query.get("before", "")), PAGE + 1
        )
        shown = found[:PAGE]
        settled = [(one.project, one.request_id) for one in shown if one.settled_at is not None]
        fields = {"project": project or "", "state": state_wanted or ""}
        older = {**fields, "before": shown[-1].created_at.isoformat()} if len(found) > PAGE else None
        context = {
            "batches": shown,
            "costs": await office.reports.batch_costs(settled),
            "project": project,
            "state": state_wanted,
            "states": list(BatchState),
            "projects": [one.name for one in await office.tenants.list_projects()],
            "older": urlencode(older) if older else None,
        }
        return pages.page(request, "batches.html", context)

    return [show_batches]


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
