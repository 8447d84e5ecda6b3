"""Dilem's seven operations over REST: each reads its request in the contract's order of checks and asks the service."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.dilem import errors, operations
from gateway.dilem.contract import CardRequest, DecideRequest, FeedbackRequest, UserFeedback
from gateway.dilem.errors import DilemFailure
from gateway.dilem.operations import PNG, Operation
from gateway.dilem.policy import DECIDE_SECONDS
from gateway.dilem.reading import decode, read_object
from gateway.dilem.service import Dilem, require_total
from gateway.dilem.sessions import Caller
from gateway.routes.dilem.body import bounded_body
from gateway.routes.dilem.checks import bearer_token, case_of, is_encoded, is_json, required_case
from gateway.routes.dilem.responses import HEADERS, told
from gateway.routes.exchange import Exchange

Handle: TypeAlias = Callable[[Exchange, str], Awaitable[None]]
"""Takes the exchange and the caller's address."""

_RESULT_ID = re.compile(r"[0-9a-f]{32}")


class Rest:
    """The operations' handlers."""

    def __init__(self, dilem: Dilem) -> None:
        self._dilem = dilem

    def handlers(self) -> dict[str, Handle]:
        """Give the handler of every operation, by its name."""
        return {
            operations.START_SESSION.name: self.start_session,
            operations.GET_USAGE.name: self.get_usage,
            operations.DECIDE.name: self.decide,
            operations.EXPORT_RESULT_CARD.name: self.export_result_card,
            operations.GET_RESULT_FEEDBACK.name: self.get_result_feedback,
            operations.SET_RESULT_FEEDBACK.name: self.set_result_feedback,
            operations.SEND_USER_FEEDBACK.name: self.send_user_feedback,
        }

    async def start_session(self, exchange: Exchange, address: str) -> None:
        """Make an identity, or renew the one whose token is shown."""
        token = bearer_token(exchange)
        if token is not None:
            await self._dilem.identify(token, address)
        body = await _body(exchange, operations.START_SESSION)
        if body.strip(b" \t\r\n") and read_object(body):
            raise DilemFailure(
                errors.INVALID_INPUT, "/: takes no members; a session travels in the Authorization header."
            )
        await told(exchange, await self._dilem.start_session(token, address))

    async def get_usage(self, exchange: Exchange, address: str) -> None:
        """Tell credits and a case's state."""
        caller = await self._caller(exchange, address)
        await _body(exchange, operations.GET_USAGE)
        await told(exchange, await self._dilem.get_usage(caller, case_of(exchange)))

    async def decide(self, exchange: Exchange, address: str) -> None:
        """Take a turn."""
        caller = await self._caller(exchange, address)
        request = decode(DecideRequest, read_object(await _body(exchange, operations.DECIDE)))
        require_total(request)
        case_id = required_case(exchange)
        left = exchange.arrived + DECIDE_SECONDS - time.monotonic()
        await told(exchange, await self._dilem.decide(caller, case_id, request, exchange.request_id, left))

    async def export_result_card(self, exchange: Exchange, address: str) -> None:
        """Draw a card."""
        caller = await self._caller(exchange, address)
        request = decode(CardRequest, read_object(await _body(exchange, operations.EXPORT_RESULT_CARD)))
        card = await self._dilem.export_result_card(caller, request)
        name = (b"content-disposition", f'attachment; filename="{card.file.filename}"'.encode())
        await exchange.reply(200, card.png, *HEADERS, name, kind=PNG)

    async def get_result_feedback(self, exchange: Exchange, address: str) -> None:
        """Tell the vote on a result."""
        caller = await self._caller(exchange, address)
        await _body(exchange, operations.GET_RESULT_FEEDBACK)
        result_id = exchange.path.rpartition("/")[2]
        if not _RESULT_ID.fullmatch(result_id):
            raise DilemFailure(errors.INVALID_INPUT, "/result_id: takes 32 lower-case hexadecimal digits.")
        await told(exchange, await self._dilem.get_result_feedback(caller, result_id))

    async def set_result_feedback(self, exchange: Exchange, address: str) -> None:
        """Record a vote."""
        caller = await self._caller(exchange, address)
        body = await _body(exchange, operations.SET_RESULT_FEEDBACK)
        request = decode(FeedbackRequest, read_object(body))
        await told(exchange, await self._dilem.set_result_feedback(caller, request))

    async def send_user_feedback(self, exchange: Exchange, address: str) -> None:
        """Store a report."""
        caller = await self._caller(exchange, address)
        report = decode(UserFeedback, read_object(await _body(exchange, operations.SEND_USER_FEEDBACK)))
        await told(exchange, await self._dilem.send_user_feedback(caller, report))

    async def _caller(self, exchange: Exchange, address: str) -> Caller:
        return await self._dilem.identify(bearer_token(exchange), address)


async def _body(exchange: Exchange, operation: Operation) -> bytes:
    """Read a body that is as the operation wants it, also where it is then passed over.

    Raises:
        DilemFailure: 415 where that is declared, else 422, for its type or coding.
        Failure: 413, 408, or 503 when the worker holds too many bodies.
        CallerLeft: The connection closed before the end.

    """
    if operation.checks_media_type and (not is_json(exchange) or is_encoded(exchange)):
        raise DilemFailure(errors.UNSUPPORTED_MEDIA_TYPE)
    if is_encoded(exchange):
        raise DilemFailure(errors.INVALID_INPUT, "/: the body takes no content coding.")
    if operation is operations.DECIDE and not is_json(exchange):
        raise DilemFailure(errors.INVALID_INPUT, "/: the body must be application/json, in UTF-8.")
    return await bounded_body(exchange)
