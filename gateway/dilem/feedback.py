"""Votes on results and reports to the operator. Only what the user said is recorded; whose a result is not is not told."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import cast

import msgspec

from gateway.dilem import errors
from gateway.dilem.contract import Feedback, FeedbackAck, FeedbackRequest, Reason, UserFeedback
from gateway.dilem.errors import DilemFailure
from gateway.dilem.policy import REPORTS_PER_HOUR, RETENTION
from gateway.dilem.sessions import Caller
from gateway.domain.clock import Clock
from gateway.storage.dilem.reports import Kept, Report, Reports
from gateway.storage.dilem.results import Results, Vote

HOUR = timedelta(hours=1)

_canonical = msgspec.json.Encoder(order="deterministic")


class Votes:
    """Votes of the owners of results."""

    def __init__(self, results: Results, now: Clock) -> None:
        self._results = results
        self._now = now

    async def read(self, caller: Caller, result_id: str) -> Feedback:
        """Give the vote on the caller's own result.

        Raises:
            DilemFailure: 404, one and the same for a result that is absent, too old or another's.
            StoreAwayError: The database does not answer.

        """
        vote = await self._results.vote_on(caller.identity, result_id, self._now() - RETENTION)
        if vote is None:
            raise DilemFailure(errors.RESULT_NOT_FOUND)
        return Feedback(result_id=result_id, helpful=vote.helpful, reason=cast("Reason | None", vote.reason))

    async def write(self, caller: Caller, request: FeedbackRequest) -> Feedback:
        """Put a vote in place of the former.

        Raises:
            DilemFailure: 404, as `read`.
            StoreAwayError: Written or not: the same vote may be written again.

        """
        vote = Vote(request.helpful, request.reason)
        after = self._now() - RETENTION
        if not await self._results.vote(caller.identity, request.result_id, after, vote):
            raise DilemFailure(errors.RESULT_NOT_FOUND)
        return Feedback(result_id=request.result_id, helpful=request.helpful, reason=request.reason)


class Reporting:
    """What users send to the operator."""

    def __init__(self, reports: Reports, now: Clock) -> None:
        self._reports = reports
        self._now = now

    async def send(self, caller: Caller, report: UserFeedback) -> FeedbackAck:
        """Store a report, once whatever is repeated.

        Raises:
            DilemFailure: 409 `request_id_conflict`, 429 `rate_limited`.
            StoreAwayError: Stored or not: the same report may be sent again.

        """
        payload = _canonical.encode(report)
        now = self._now()
        kept = await self._reports.add(
            Report(
                identity=caller.identity,
                request_id=report.request_id,
                digest=hashlib.sha256(payload).digest(),
                payload=payload.decode(),
                created_at=now,
            ),
            since=now - HOUR,
            most=REPORTS_PER_HOUR,
        )
        match kept:
            case Kept.CONFLICT:
                raise DilemFailure(errors.REQUEST_ID_CONFLICT)
            case Kept.TOO_MANY:
                raise DilemFailure(errors.RATE_LIMITED, "Too many reports within an hour.")
            case Kept.GONE:
                raise DilemFailure(errors.SESSION_INVALID)
            case Kept.STORED | Kept.REPEATED:
                return FeedbackAck(ok=True)
