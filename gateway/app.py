"""The HTTP application: addresses and who serves them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from litestar import Litestar, Request, Response, asgi
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.bootstrap.serving import build
from gateway.core import Core
from gateway.routes import operations
from gateway.routes.dilem.router import DilemRoutes
from gateway.routes.exchange import BodyBudget, Exchange
from gateway.routes.panel import is_panel, panel_router
from gateway.routes.pepper import answers, batches, capabilities, knowledge, openapi
from gateway.routes.responses import answered, internal_error, unknown_address
from gateway.routes.site import site_folder, site_handlers
from gateway.settings import read_settings
from gateway.worker import living_under

Handle = Callable[[Exchange], Awaitable[None]]


def create_app(core: Core, around: AbstractAsyncContextManager[None] | None = None) -> ASGIApp:
    """Give the application of an assembled core; its lifespan starts and stops the core, inside of `around`."""
    bodies = BodyBudget()
    dilem = DilemRoutes(core.dilem, bodies)
    panel, no_page = panel_router(core.office, core.chain)
    direct: dict[str, ASGIApp] = {}

    def address(path: str, allow: str, handle: Handle) -> Any:
        async def handler(scope: Scope, receive: Receive, send: Send) -> None:
            await answered(Exchange(scope, receive, send, bodies), route=path, allow=allow, handle=handle)

        direct[path] = handler
        return asgi(path, name=path, copy_scope=False)(handler)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with around or nullcontext():
            await core.start()
            try:
                async with dilem.life():
                    yield
            finally:
                await core.stop()

    def not_served(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        shown = no_page if is_panel(request.url.path) else unknown_address
        return shown(request, error)

    router = Litestar(
        route_handlers=[
            address("/api.php", "POST", partial(answers.answer, core.chain)),
            address("/pratica.php", "POST", partial(batches.collect, core.chain, core.zone)),
            address("/capacita.php", "POST", partial(capabilities.capabilities, core.chain)),
            address("/conoscenza.php", "POST", partial(knowledge.serve, core.chain, core.zone)),
            address("/pepper/openapi.json", "GET, HEAD", openapi.openapi),
            address("/metrics", "GET, HEAD", partial(operations.measures, core)),
            address("/stato.php", "GET, HEAD", partial(operations.state, core)),
            panel,
            *site_handlers(site_folder(), bodies),
            *dilem.handlers,
        ],
        lifespan=[lifespan],
        exception_handlers={HTTPException: not_served, Exception: internal_error},
        openapi_config=None,
        logging_config=None,
    )

    async def application(scope: Any, receive: Receive, send: Send) -> None:
        """Serve the bare addresses without the router's price; it knows them too, in other spellings."""
        handler = direct.get(scope["path"]) if scope["type"] == "http" else None
        await (handler or router)(scope, receive, send)

    return application


PARENT_VARIABLE = "PEPPER_SERVE_PID"
"""Set by `pepper serve` for its workers: the process without which they should not live."""
ADDRESS_VARIABLE = "PEPPER_SERVE_ADDRESS"
"""Likewise: where the server listens."""


def application() -> ASGIApp:
    """Build a worker's application from the environment (the server's entry point)."""
    core = build(read_settings(), os.environ.get(ADDRESS_VARIABLE))
    parent = os.environ.get(PARENT_VARIABLE)
    return create_app(core, around=living_under(int(parent), core) if parent else None)
