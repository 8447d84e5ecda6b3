"""The panel: administrators run everything from the browser, with pages made on the server that work without JavaScript."""

from gateway.routes.panel.router import panel_router

__all__ = ["panel_router"]
