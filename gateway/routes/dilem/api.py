"""Everything under `/api/v1`: who serves an address, and the checks that come before any of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gateway.dilem import errors
from gateway.dilem.errors import DilemFailure
from gateway.dilem.operations import API, OPERATIONS, Operation
from gateway.dilem.service import Dilem
from gateway.domain.addresses import caller_address
from gateway.routes.dilem.checks import is_foreign, require_no_cookies, require_origin
from gateway.routes.dilem.responses import Refuse, answered, refused
from gateway.routes.dilem.rest import Handle, Rest
from gateway.routes.exchange import BodyBudget, Exchange

NO_ROUTE = f"{API}/*"


class Door(Struct, frozen=True):
    """Who serves an address.

    Attributes:
        methods: Served by name; HEAD goes wherever GET does.
        route: The address as it is counted and logged, never with what a caller put in.
        refuse: Tells an error in the door's language.

    """

    route: str
    methods: Mapping[str, Handle]
    refuse: Refuse = refused

    @property
    def allow(self) -> str:
        """As the header of a 405 tells it."""
        return ", ".join(self.methods)


class Api:
    """The doors, and the way to them."""

    def __init__(self, dilem: Dilem, bodies: BodyBudget, more: Mapping[str, Door] | None = None) -> None:
        """Make the doors of the seven operations, and `more` by their whole path."""
        self._dilem = dilem
        self._bodies = bodies
        self._fixed = dict(more or {})
        self._patterns: list[tuple[re.Pattern[str], Door]] = []
        handlers = Rest(dilem).handlers()
        for operation in OPERATIONS:
            self._enter(operation, handlers[operation.name])

    def _enter(self, operation: Operation, handle: Handle) -> None:
        path = API + operation.path
        methods: dict[str, Handle] = {operation.method: handle}
        if operation.method == "GET":
            methods["HEAD"] = handle
        door = Door(path, methods)
        if "{" in path:
            self._patterns.append((re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), door))
        else:
            self._fixed[path] = door

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one exchange."""
        exchange = Exchange(scope, receive, send, self._bodies)
        door = self._door(exchange.path)
        await answered(
            exchange,
            route=door.route if door else NO_ROUTE,
            handle=lambda: self._serve(exchange, door),
            refuse=door.refuse if door else refused,
        )

    def _door(self, path: str) -> Door | None:
        found = self._fixed.get(path)
        if found is not None:
            return found
        return next((door for pattern, door in self._patterns if pattern.fullmatch(path)), None)

    async def _serve(self, exchange: Exchange, door: Door | None) -> None:
        policy = self._dilem.policy
        if door is None or (policy.private and exchange.is_forwarded):
            raise DilemFailure(errors.NOT_FOUND)
        handle = door.methods.get(exchange.method)
        if handle is None:
            if exchange.method == "OPTIONS" and is_foreign(exchange, policy.base_url):
                raise DilemFailure(errors.ORIGIN_REJECTED)
            raise DilemFailure(errors.METHOD_NOT_ALLOWED, allow=door.allow)
        require_no_cookies(exchange)
        require_origin(exchange, policy.base_url)
        forwarded = exchange.header_values(b"x-forwarded-for")
        address = caller_address(exchange.client, forwarded, policy.trusted_proxies)
        self._dilem.require_calm(address)
        await handle(exchange, address)
