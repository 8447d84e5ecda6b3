"""Dilem's addresses as the application takes them; none where it is not served."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from gateway.dilem.operations import API, MCP
from gateway.dilem.service import Dilem
from gateway.routes.dilem.api import Api
from gateway.routes.dilem.mcp.door import McpDoor
from gateway.routes.dilem.pages import Pages
from gateway.routes.exchange import BodyBudget


class DilemRoutes:
    """What the application needs to serve Dilem."""

    def __init__(self, dilem: Dilem | None, bodies: BodyBudget) -> None:
        self.handlers: list[ASGIRouteHandler] = []
        self._mcp = None if dilem is None else McpDoor(dilem)
        if dilem is not None and self._mcp is not None:
            self.handlers.append(_handler(Api(dilem, bodies, {MCP: self._mcp.door()})))
            self.handlers.append(Pages(dilem.policy, bodies).handler())

    def life(self) -> AbstractAsyncContextManager[None]:
        """Live with the application, inside of the core's life."""
        return nullcontext() if self._mcp is None else self._mcp.life()


def _handler(api: Api) -> ASGIRouteHandler:
    @asgi(API, is_mount=True, name=API, copy_scope=False)
    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await api(scope, receive, send)

    return handler
