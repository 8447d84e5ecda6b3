"""What the panel shows instead of a page: the login, or a page that says what went wrong."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.exceptions import HTTPException

from gateway.domain.errors import StoreAwayError
from gateway.routes.panel.pages import SECURITY_HEADERS, Pages, go
from gateway.routes.panel.visitors import SAFE_METHODS, STATE, Access, ForbiddenError, LoginNeededError
from gateway.storage.refusals import UnknownError

LOGIN = "/panel/login"
LEFT = "client disconnected prematurely"
"""Litestar's words for a caller who left in the middle of a form, which it takes for a fault of the server."""

AnyRequest = Request[Any, Any, Any]

log = logging.getLogger(__name__)


def trouble_handlers(access: Access, pages: Pages) -> dict[Any, Any]:
    """What to do with each kind of trouble: functions, which Litestar does not copy. `HTTPException`'s also shows what
    the router refuses before anybody was looked at.
    """

    def login(request: AnyRequest, _: Exception) -> Response[bytes]:
        """To the login page, and afterwards back here (if this was a page and not a form)."""
        if request.headers.get("hx-request") == "true":
            return Response(b"", status_code=401, headers={**SECURITY_HEADERS, "hx-redirect": LOGIN})
        wanted = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        return go(f"{LOGIN}?{urlencode({'next': wanted})}" if request.method in SAFE_METHODS else LOGIN)

    def forbidden(request: AnyRequest, error: Exception) -> Response[bytes]:
        kind = "form" if isinstance(error, ForbiddenError) and error.detail == "form" else "role"
        return told(request, f"trouble.forbidden_{kind}", 403)

    def missing(request: AnyRequest, _: Exception) -> Response[bytes]:
        return told(request, "trouble.missing", 404)

    def away(request: AnyRequest, error: Exception) -> Response[bytes]:
        log.warning("the panel misses a store: %s", error)
        return told(request, "trouble.away", 503)

    def refused(request: AnyRequest, error: Exception) -> Response[bytes]:
        status = error.status_code if isinstance(error, HTTPException) and error.detail != LEFT else 400
        if status in {404, 405}:
            return missing(request, error)
        if status >= 500:
            return broken(request, error)
        return told(request, "trouble.refused", status)

    def broken(request: AnyRequest, error: Exception) -> Response[bytes]:
        log.error("internal fault in the panel", exc_info=error)
        return told(request, "trouble.broken", 500)

    def told(request: AnyRequest, key: str, status: int) -> Response[bytes]:
        if STATE not in request.scope["state"]:  # the router refused, or the guard missed a store
            request.scope["state"][STATE] = access.stranger(request)
        what = pages.words(request)(key)
        return pages.page(request, "trouble.html", {"status": status, "what": what}, status=status)

    return {
        LoginNeededError: login,
        ForbiddenError: forbidden,
        UnknownError: missing,
        OverflowError: missing,  # a number that no row can have
        StoreAwayError: away,
        HTTPException: refused,
        Exception: broken,
    }
