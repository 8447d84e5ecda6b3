"""Dilem's seven operations, as REST and MCP call them: typed requests in, typed answers or a `DilemFailure` out.

A door first lets an address in (`require_calm`), then learns who calls (`identify`), then asks for the operation.
"""

from __future__ import annotations

from msgspec import Struct

from gateway.dilem import errors
from gateway.dilem.card.facts import card_file
from gateway.dilem.card.renderer import CardFailedError, CardRenderer
from gateway.dilem.contract import (
    TOTAL_CHARACTERS,
    Budget,
    CardFile,
    CardRequest,
    CaseState,
    Clarification,
    Collective,
    DecideRequest,
    Dilemmas,
    Feedback,
    FeedbackAck,
    FeedbackRequest,
    Result,
    Session,
    Usage,
    UserFeedback,
    Voice,
)
from gateway.dilem.decide import Deciding
from gateway.dilem.errors import DilemFailure, day_time
from gateway.dilem.feedback import Reporting, Votes
from gateway.dilem.limits import MinuteLimit
from gateway.dilem.policy import (
    CARDS_PER_MINUTE,
    DECIDE_SECONDS,
    REMEMBERED,
    REPORT_RETENTION,
    RETENTION,
    USAGE_PER_MINUTE,
    VOICE_CAPTURE_SECONDS,
    VOICE_SECONDS,
    VOTES_PER_MINUTE,
    Policy,
)
from gateway.dilem.sessions import Caller, Sessions
from gateway.dilem.turns import BUSY_RETRY_AFTER, Turns, next_day
from gateway.domain.clock import Clock
from gateway.storage.database import Database
from gateway.storage.dilem.cases import Cases
from gateway.storage.dilem.identities import Identities
from gateway.storage.dilem.reports import Reports
from gateway.storage.dilem.results import Results
from gateway.storage.dilem.unwritten import Unwritten


class Card(Struct, frozen=True):
    """A drawn card."""

    png: bytes
    file: CardFile


class Dilem:
    """The service of one process."""

    def __init__(
        self, *, database: Database, deciding: Deciding, unwritten: Unwritten, policy: Policy, now: Clock
    ) -> None:
        self.policy = policy
        self._now = now
        self._deciding = deciding
        self._identities = Identities(database)
        self._cases = Cases(database)
        self._sessions = Sessions(self._identities, policy, now)
        self._turns = Turns(self._cases, deciding, unwritten, policy, now)
        self._votes = Votes(Results(database), now)
        self._reporting = Reporting(Reports(database), now)
        self._addresses = MinuteLimit(policy.requests_per_minute)
        self._usages = MinuteLimit(USAGE_PER_MINUTE)
        self._cards = MinuteLimit(CARDS_PER_MINUTE)
        self._voting = MinuteLimit(VOTES_PER_MINUTE)
        self._renderer = CardRenderer()

    # --- who calls --------------------------------------------------------------------------------------------------

    def require_calm(self, address: str) -> None:
        """Count a request of an address, whatever it is.

        Raises:
            DilemFailure: 429 `rate_limited`.

        """
        self._addresses.take(address, self._now())

    async def identify(self, token: str | None, address: str) -> Caller:
        """Give the caller of a token: see `Sessions.identify`."""
        return await self._sessions.identify(token, address)

    # --- the operations ---------------------------------------------------------------------------------------------

    async def start_session(self, token: str | None, address: str) -> Session:
        """Make an identity, or renew the one of the token: see `Sessions`."""
        if token is None:
            return await self._sessions.start(address)
        return await self._sessions.renew(token, address)

    async def get_usage(self, caller: Caller, case_id: str | None) -> Usage:
        """Tell the caller's credits, and the state of a case.

        Raises:
            DilemFailure: 429 `rate_limited`.
            StoreAwayError: The database does not answer.

        """
        now = self._now()
        self._usages.take(caller.identity, now)
        state = await self._cases.state(caller.identity, case_id, now.date())
        limit = self.policy.daily_limit
        return Usage(
            day=now.date().isoformat(),
            resets_at=day_time(next_day(now)),
            collective=Collective(completed=state.completed_by_all),
            dilemmas=Dilemmas(used=state.used, limit=limit, remaining=max(0, limit - state.used)),
            case=CaseState(id=case_id, admitted=state.admitted, completed=state.completed),
            voice=Voice(
                seconds_used=0,
                seconds_reserved=0,
                seconds_remaining=VOICE_SECONDS,
                seconds_limit=VOICE_SECONDS,
                max_seconds=VOICE_CAPTURE_SECONDS,
            ),
            budget=Budget(daily_usd=self.policy.daily_usd, available=await self._deciding.affordable()),
        )

    async def decide(
        self,
        caller: Caller,
        case_id: str,
        request: DecideRequest,
        request_id: str,
        seconds: float = DECIDE_SECONDS,
    ) -> Clarification | Result:
        """Take one turn of a dilemma; it goes on if the caller is lost: see `Turns.take`.

        Raises:
            DilemFailure: 422 `input_too_long`, any refusal, or (status 200) what the pipeline failed with.

        """
        require_total(request)
        return await self._turns.take(caller, case_id, request, request_id, seconds)

    async def export_result_card(self, caller: Caller, request: CardRequest) -> Card:
        """Draw a result; nothing is kept.

        Raises:
            DilemFailure: 429 `rate_limited`, or 503 when there is no card in time.

        """
        self._cards.take(caller.identity, self._now())
        try:
            png = await self._renderer.render(request.result, request.language, request.theme)
        except CardFailedError as error:
            raise DilemFailure(
                errors.SERVICE_UNAVAILABLE, retry_after=BUSY_RETRY_AFTER, reason=str(error)
            ) from None
        return Card(png, card_file(png, request.theme, request.language))

    async def get_result_feedback(self, caller: Caller, result_id: str) -> Feedback:
        """Give the caller's vote: see `Votes.read`; or 429 `rate_limited`."""
        self._voting.take(caller.identity, self._now())
        return await self._votes.read(caller, result_id)

    async def set_result_feedback(self, caller: Caller, request: FeedbackRequest) -> Feedback:
        """Record the caller's vote: see `Votes.write`; or 429 `rate_limited`."""
        self._voting.take(caller.identity, self._now())
        return await self._votes.write(caller, request)

    async def send_user_feedback(self, caller: Caller, report: UserFeedback) -> FeedbackAck:
        """Store a report to the operator: see `Reporting.send`."""
        return await self._reporting.send(caller, report)

    # --- upkeep -----------------------------------------------------------------------------------------------------

    async def write_waiting(self) -> None:
        """Write what the database did not take at its time: see `Turns.write_waiting`."""
        await self._turns.write_waiting()

    async def forget_old(self) -> None:
        """Delete what is past its retention.

        Raises:
            StoreAwayError: The database does not answer; the rest is deleted the next time.

        """
        now = self._now()
        await self._identities.forget_texts(now - RETENTION, now - REPORT_RETENTION, now)
        await self._identities.forget_expired(now - REMEMBERED)

    async def stop(self) -> None:
        """Return when every turn has been written down."""
        await self._turns.ended()


def require_total(request: DecideRequest) -> None:
    """Refuse text and refinements that are too long together, with 422 `input_too_long`."""
    if request.characters > TOTAL_CHARACTERS:
        raise DilemFailure(errors.INPUT_TOO_LONG)
