"""Deferred work through Anthropic's Message Batches: `POST /v1/messages/batches` and what can be asked about one.

Results are read at the batch's own address and not at the `results_url` it names: the key is sent nowhere else.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec

from gateway.domain.batches import Ended, Gone, ItemFailure, ItemOutcome, ItemTrouble, Poll, Running
from gateway.ports import ProviderError
from gateway.providers import failures
from gateway.providers.claude.events import ClaudeReader
from gateway.providers.claude.request import MessageRequest, message_request
from gateway.providers.errands import (
    RESULT_SECONDS,
    Errand,
    decoded,
    read_lines,
    read_whole,
    run,
    submit_seconds,
)
from gateway.providers.outcomes import Outcomes, custom_id, names_a_text_of, nothing_accepted, outcome_of
from gateway.providers.shapes import form_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.completion import Shape
    from gateway.domain.events import ProviderEvent
    from gateway.providers.shapes import Form
    from gateway.providers.transport import Outgoing
    from gateway.providers.upstream import Upstream

CREATED_BEFORE = timedelta(minutes=1)
"""A batch may seem created so long before it was sent: two clocks."""
CREATED_AFTER = timedelta(minutes=10)
_PAGE = 1_000
_MOST_PAGES = 100
_ENDED = "ended"
_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
_JSONL = "application/binary"
_FAILURES = {
    "errored": ItemTrouble.ERRORED,
    "canceled": ItemTrouble.CANCELED,
    "expired": ItemTrouble.EXPIRED,
}


class _Request(msgspec.Struct, frozen=True):
    custom_id: str
    params: MessageRequest


class _Counts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def done(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired

    @property
    def total(self) -> int:
        return self.processing + self.done


class _Batch(msgspec.Struct):
    id: str
    processing_status: str
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    request_counts: _Counts
    archived_at: str | None = None

    @property
    def ended(self) -> bool:
        return self.processing_status == _ENDED


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw()


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


_encode = msgspec.json.Encoder().encode
_decode_batch = msgspec.json.Decoder(_Batch).decode
_decode_page = msgspec.json.Decoder(_Page).decode
_decode_line = msgspec.json.Decoder(_Line).decode


class ClaudeBatches:
    """The part of `Claude` that defers."""

    _upstream: Upstream

    async def submit(self, number: str, calls: Sequence[ModelCall], target: Target) -> str:
        """Hand a batch in, once.

        Raises:
            ProviderError: As the port says.

        """
        try:
            outgoing = await self._upstream.outgoing()
        except ProviderError as error:
            raise nothing_accepted(error) from None
        body = await _body(number, calls, target)
        errand = Errand(
            method="POST",
            url=outgoing.url / "batches",
            body=body,
            seconds=submit_seconds(len(body)),
        )
        batch = decoded(_decode_batch, await run(errand, outgoing, read_whole), "batch")
        if not _ID.fullmatch(batch.id):
            raise failures.faulty("a batch without a usable name")
        return batch.id

    async def find(self, number: str, sent_at: datetime, total: int, held: Collection[str]) -> str | None:
        """Look among the batches of that time for one of that size; its texts' names, told when it has ended, decide.

        Raises:
            ProviderError: Claude could not be asked.

        """
        outgoing = await self._upstream.outgoing()
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await _listed(outgoing, after)
            for batch in page.data:
                if batch.created_at < sent_at - CREATED_BEFORE:
                    return None
                fits = (
                    batch.ended
                    and batch.created_at <= sent_at + CREATED_AFTER
                    and batch.request_counts.total == total
                    and batch.id not in held
                )
                if fits and await _is_ours(outgoing, batch.id, number):
                    return batch.id
            if not page.has_more or not page.data:
                return None
            after = page.data[-1].id
        return None

    async def poll(
        self, provider_id: str, number: str, total: int, *, shape: Shape | None, documents: Sequence[str]
    ) -> Poll:
        """Ask how far a batch is; its outcomes once it has ended.

        Raises:
            ProviderError: Claude could not be asked, or what it said is no answer.

        """
        if not _ID.fullmatch(provider_id):
            return Gone()
        outgoing = await self._upstream.outgoing()
        errand = Errand(url=outgoing.url / "batches" / provider_id)
        outcomes = Outcomes(number, total)
        form = form_of(shape)

        def take(line: bytes) -> bool:
            told = decoded(_decode_line, line, "result of a batch")
            outcomes.add(told.custom_id, lambda: _outcome(told.result, form, tuple(documents)))
            return True

        try:
            batch = decoded(_decode_batch, await run(errand, outgoing, read_whole), "batch")
            if not batch.ended:
                return Running()
            if batch.archived_at is not None:
                return Gone()
            errand = _results(outgoing, provider_id)
            await run(errand, outgoing, lambda response: read_lines(response, take))
        except ProviderError as error:
            if error.status != 404:
                raise
            return Gone()
        outcomes.require(batch.request_counts.done)
        return Ended(outcomes.told)


async def _body(number: str, calls: Sequence[ModelCall], target: Target) -> bytes:
    """Put the texts into one body, letting others run in between: it may be large."""
    parts: list[bytes] = []
    for position, call in enumerate(calls):
        whole = msgspec.structs.replace(call, watched=False)
        request = message_request(whole, target, form_of(call.shape))
        parts.append(_encode(_Request(custom_id(number, position), request)))
        await asyncio.sleep(0)
    return b'{"requests":[%s]}' % b",".join(parts)


async def _listed(outgoing: Outgoing, after: str | None) -> _Page:
    query = {"limit": str(_PAGE)} | ({"after_id": after} if after else {})
    errand = Errand(url=(outgoing.url / "batches").with_query(query))
    return decoded(_decode_page, await run(errand, outgoing, read_whole), "list of batches")


async def _is_ours(outgoing: Outgoing, provider_id: str, number: str) -> bool:
    """Look at the first result's name; a batch whose results are gone is nobody's."""
    names: list[str] = []

    def take(line: bytes) -> bool:
        names.append(decoded(_decode_line, line, "result of a batch").custom_id)
        return False

    try:
        errand = _results(outgoing, provider_id)
        await run(errand, outgoing, lambda response: read_lines(response, take))
    except ProviderError as error:
        if error.status != 404:
            raise
    return any(names_a_text_of(number, name) for name in names)


def _results(outgoing: Outgoing, provider_id: str) -> Errand:
    url = outgoing.url / "batches" / provider_id / "results"
    return Errand(url=url, accept=_JSONL, seconds=RESULT_SECONDS)


def _outcome(result: _Result, form: Form | None, documents: tuple[str, ...]) -> ItemOutcome:
    if result.type != "succeeded":
        return ItemFailure(_FAILURES.get(result.type, ItemTrouble.ERRORED))
    # As if it might have searched: an answer that was paused ends with what there is, for nobody will continue it.
    reader = ClaudeReader(form, documents=documents, searching=True)

    def read() -> Iterable[ProviderEvent]:
        events = reader.whole(bytes(result.message))
        return (*events, *reader.conclude()) if reader.paused else events

    return outcome_of(reader, read)
