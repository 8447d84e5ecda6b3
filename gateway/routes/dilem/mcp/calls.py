"""The seven tools' work: arguments in, a typed answer or an error object out. Nothing here knows the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from gateway.dilem import contract, errors, operations
from gateway.dilem.errors import DilemFailure
from gateway.dilem.operations import OPERATIONS
from gateway.dilem.reading import decode, require_speakable
from gateway.dilem.service import Card, Dilem
from gateway.dilem.sessions import Caller
from gateway.routes.dilem.responses import answer_or_error
from gateway.routes.exchange import Exchange

CALL_SECONDS = 105.0
"""From the request's headers to the answer, whether anybody still waits for it or not."""

Answer: TypeAlias = (
    contract.Session
    | contract.Usage
    | contract.Clarification
    | contract.Result
    | Card
    | contract.Feedback
    | contract.FeedbackAck
    | contract.Error
)
Typed = TypeVar("Typed")


class Call(Struct, frozen=True):
    """A tool's call as it came in.

    Attributes:
        address: Where from, for the limits.
        arguments: As read; not yet looked at.

    """

    exchange: Exchange
    address: str
    arguments: dict[str, Any]


class Calls:
    """The tools, by name."""

    def __init__(self, dilem: Dilem) -> None:
        self._dilem = dilem
        by_operation: Mapping[str, Callable[[Call], Awaitable[Answer]]] = {
            operations.START_SESSION.name: self._start_session,
            operations.GET_USAGE.name: self._get_usage,
            operations.DECIDE.name: self._decide,
            operations.EXPORT_RESULT_CARD.name: self._export_result_card,
            operations.GET_RESULT_FEEDBACK.name: self._get_result_feedback,
            operations.SET_RESULT_FEEDBACK.name: self._set_result_feedback,
            operations.SEND_USER_FEEDBACK.name: self._send_user_feedback,
        }
        self._tools = {each.name: by_operation[each.name] for each in OPERATIONS}

    async def take(self, name: str, call: Call) -> Answer:
        """Do what a tool does, in its time; whatever goes wrong is an error object.

        Raises:
            KeyError: There is no such tool.

        """
        return await answer_or_error(call.exchange, self._in_time(name, self._tools[name], call))

    async def _in_time(self, name: str, tool: Callable[[Call], Awaitable[Answer]], call: Call) -> Answer:
        left = call.exchange.arrived + CALL_SECONDS - time.monotonic()
        try:
            async with asyncio.timeout(left):
                require_speakable(call.arguments)
                return await tool(call)
        except TimeoutError:
            decides = name == operations.DECIDE.name
            raise DilemFailure(
                errors.OUTCOME_UNKNOWN if decides else errors.SERVICE_UNAVAILABLE,
                reason=f"{name}: no end in time",
            ) from None

    # --- the tools --------------------------------------------------------------------------------------------------

    async def _start_session(self, call: Call) -> contract.Session:
        arguments = decode(contract.StartSessionArguments, call.arguments)
        return await self._dilem.start_session(arguments.session, call.address)

    async def _get_usage(self, call: Call) -> contract.Usage:
        caller = await self._caller(call)
        arguments = decode(contract.GetUsageArguments, call.arguments)
        return await self._dilem.get_usage(caller, arguments.case_id)

    async def _decide(self, call: Call) -> contract.Clarification | contract.Result:
        caller = await self._caller(call)
        arguments = decode(contract.DecideArguments, call.arguments)
        request = _made(arguments.request)
        return await self._dilem.decide(caller, arguments.case_id, request, call.exchange.request_id)

    async def _export_result_card(self, call: Call) -> Card:
        caller = await self._caller(call)
        arguments = decode(contract.ExportResultCardArguments, call.arguments)
        return await self._dilem.export_result_card(caller, arguments.request())

    async def _get_result_feedback(self, call: Call) -> contract.Feedback:
        caller = await self._caller(call)
        arguments = decode(contract.GetResultFeedbackArguments, call.arguments)
        return await self._dilem.get_result_feedback(caller, arguments.result_id)

    async def _set_result_feedback(self, call: Call) -> contract.Feedback:
        caller = await self._caller(call)
        arguments = decode(contract.SetResultFeedbackArguments, call.arguments)
        return await self._dilem.set_result_feedback(caller, _made(arguments.request))

    async def _send_user_feedback(self, call: Call) -> contract.FeedbackAck:
        caller = await self._caller(call)
        arguments = decode(contract.SendUserFeedbackArguments, call.arguments)
        return await self._dilem.send_user_feedback(caller, _made(arguments.request))

    async def _caller(self, call: Call) -> Caller:
        """Whose call it is: asked before the other arguments are looked at, as REST asks before it reads a body."""
        token = call.arguments.get("session")
        if token is None:
            raise DilemFailure(errors.SESSION_REQUIRED, "/session: is required: start_session gives it.")
        if not isinstance(token, str):
            raise DilemFailure(errors.SESSION_INVALID)
        return await self._dilem.identify(token, call.address)


def _made(request: Callable[[], Typed]) -> Typed:
    """Make what REST would have sent; a rule over several members names its own in the message."""
    try:
        return request()
    except ValueError as error:
        raise DilemFailure(errors.INVALID_INPUT, f"{error}.") from None
