"""All of the panel's addresses under `/panel`, behind one guard, and what goes wrong there told as a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar import HttpMethod, Request, Response, Router
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.static_files import create_static_files_router

from gateway.chain.answer import Chain
from gateway.core import Office
from gateway.routes.panel.account import account_routes
from gateway.routes.panel.audit import audit_routes
from gateway.routes.panel.dashboard import dashboard_routes
from gateway.routes.panel.deferred import deferred_routes
from gateway.routes.panel.knowledge import knowledge_routes
from gateway.routes.panel.ledger import ledger_routes
from gateway.routes.panel.login import login_routes
from gateway.routes.panel.messages import panel_folder
from gateway.routes.panel.models import model_routes
from gateway.routes.panel.pages import SECURITY_HEADERS, Pages
from gateway.routes.panel.people import people_routes
from gateway.routes.panel.project_notices import notice_routes
from gateway.routes.panel.projects import project_routes
from gateway.routes.panel.recipes import recipe_routes
from gateway.routes.panel.removing import removing_routes
from gateway.routes.panel.settings import settings_routes
from gateway.routes.panel.trouble import trouble_handlers
from gateway.routes.panel.trying import trying_routes
from gateway.routes.panel.visitors import Access

PATH = "/panel"
MAX_BODY = 16 * 1024 * 1024

AnyRequest = Request[Any, Any, Any]
Refuse = Callable[[AnyRequest, Exception], Response[bytes]]


def panel_router(office: Office, chain: Chain) -> tuple[Router, Refuse]:
    """Give the panel's routes, and what shows an address under `/panel` that none of them serves.

    Args:
        office: What the pages work with.
        chain: Answers the calls that administrators try out.

    Raises:
        TypeError: A route names no role: who may see it was never decided.

    """
    access = Access(office)
    pages = Pages(access, office.zone)
    handlers = [
        *login_routes(office, pages),
        *account_routes(office, pages),
        *people_routes(office, pages),
        *audit_routes(office, pages),
        *dashboard_routes(office, pages),
        *ledger_routes(office, pages),
        *deferred_routes(office, pages),
        *project_routes(office, pages),
        *notice_routes(office, pages),
        *removing_routes(office, pages),
        *trying_routes(office, pages, chain),
        *recipe_routes(office, pages),
        *model_routes(office, pages),
        *knowledge_routes(office, pages),
        *settings_routes(office, pages),
    ]
    for handler in handlers:
        if "role" not in handler.opt:
            raise TypeError(f"{handler} names no role")
        if HttpMethod.GET in handler.http_methods:
            handler.http_methods = {*handler.http_methods, HttpMethod.HEAD}

    # Litestar copies what it is given, whole objects behind their methods too, but not plain functions.
    async def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        await access.guard(connection, handler)

    async def check_form(request: AnyRequest) -> None:
        await access.check_form(request)

    troubles = trouble_handlers(access, pages)
    guarded = Router(
        path="/",
        route_handlers=handlers,
        guards=[guard],
        before_request=check_form,
        exception_handlers=troubles,
        request_max_body_size=MAX_BODY,
    )
    static = create_static_files_router(
        path="/static",
        directories=[panel_folder() / "static"],
        cache_control=None,
        after_request=_cached,
        include_in_schema=False,
    )
    return Router(path=PATH, route_handlers=[guarded, static]), troubles[HTTPException]


def is_panel(path: str) -> bool:
    """Whether an address is the panel's, served or not."""
    return path == PATH or path.startswith(f"{PATH}/")


async def _cached(response: Response[Any]) -> Response[Any]:
    """Their address changes with them."""
    response.headers.update({**SECURITY_HEADERS, "cache-control": "public, max-age=604800"})
    return response
