"""The panel: administrators run everything from the browser, with pages made on the server that work without JavaScript."""

from gateway.routes.panel.router import is_panel, panel_router

__all__ = ["is_panel", "panel_router"]
