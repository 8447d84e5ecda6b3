"""The HTTP application: addresses and who serves them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from litestar import Litestar, asgi
from litestar.exceptions import HTTPException
from litestar.types import Receive, Scope, Send

from gateway.bootstrap.serving import build
from gateway.core import Core
from gateway.routes import operations
from gateway.routes.exchange import BodyBudget, Exchange
from gateway.routes.pepper import answers, batches, capabilities
from gateway.routes.responses import answered, internal_error, unknown_address
from gateway.settings import read_settings
from gateway.worker import living_under

Handle = Callable[[Exchange], Awaitable[None]]


def create_app(core: Core, around: AbstractAsyncContextManager[None] | None = None) -> Litestar:
    """Give the application of an assembled core; its lifespan starts and stops the core, inside of `around`."""
    bodies = BodyBudget()

    def address(path: str, allow: str, handle: Handle) -> Any:
        @asgi(path, name=path, copy_scope=False)
        async def handler(scope: Scope, receive: Receive, send: Send) -> None:
            await answered(Exchange(scope, receive, send, bodies), route=path, allow=allow, handle=handle)

        return handler

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with around or nullcontext():
            await core.start()
            try:
                yield
            finally:
                await core.stop()

    return Litestar(
        route_handlers=[
            address("/api.php", "POST", partial(answers.answer, core.chain)),
            address("/pratica.php", "POST", partial(batches.collect, core.chain, core.zone)),
            address("/capacita.php", "POST", partial(capabilities.capabilities, core.chain)),
            address("/metrics", "GET, HEAD", partial(operations.measures, core)),
            address("/stato.php", "GET, HEAD", partial(operations.state, core)),
        ],
        lifespan=[lifespan],
        exception_handlers={HTTPException: unknown_address, Exception: internal_error},
        openapi_config=None,
        logging_config=None,
    )


PARENT_VARIABLE = "PEPPER_SERVE_PID"
"""Set by `pepper serve` for its workers: the process without which they should not live."""


def application() -> Litestar:
    """Build a worker's application from the environment (the server's entry point)."""
    core = build(read_settings())
    parent = os.environ.get(PARENT_VARIABLE)
    return create_app(core, around=living_under(int(parent), core) if parent else None)
