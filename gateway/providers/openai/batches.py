"""Deferred work through OpenAI's Batch API: a file of requests, a batch that works through it, files of results.

Nothing is deleted there: until the outcomes are settled they must be readable again. OpenAI forgets the files of a
batch by itself after 30 days.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from gateway.domain.batches import Ended, Gone, ItemFailure, ItemOutcome, ItemTrouble, Poll, Running
from gateway.ports import ProviderError
from gateway.providers import failures
from gateway.providers.errands import (
    RESULT_SECONDS,
    SUBMIT_SECONDS,
    Errand,
    decoded,
    read_lines,
    read_whole,
    run,
    sendable,
    submit_seconds,
)
from gateway.providers.openai.events import OpenAIReader
from gateway.providers.openai.request import ChatRequest, chat_request
from gateway.providers.outcomes import Outcomes, custom_id, nothing_accepted, outcome_of
from gateway.providers.shapes import form_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from yarl import URL

    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.completion import Shape
    from gateway.providers.shapes import Form
    from gateway.providers.transport import Outgoing
    from gateway.providers.upstream import Upstream

METADATA = "pepper"
"""Under this key a batch carries its number."""
LISTED_BEFORE = timedelta(minutes=10)
"""Batches so much older than the submission are not looked at: clocks differ less."""
_ENDPOINT = "/v1/chat/completions"
_WINDOW = "24h"
_PAGE = 100
_MOST_PAGES = 100
_JSONL = "application/binary"
_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
_REST = {"expired": ItemTrouble.EXPIRED, "cancelled": ItemTrouble.CANCELED, "failed": ItemTrouble.ERRORED}
"""By how a batch ended: what came of the texts that its files don't mention."""
_ENDED = {"completed", *_REST}
_FAILURES = {"batch_expired": ItemTrouble.EXPIRED, "batch_cancelled": ItemTrouble.CANCELED}


class _Request(msgspec.Struct, frozen=True):
    custom_id: str
    method: str
    url: str
    body: ChatRequest


class _Creation(msgspec.Struct, frozen=True):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str]


class _File(msgspec.Struct):
    id: str


class _Counts(msgspec.Struct):
    completed: int = 0


class _Batch(msgspec.Struct):
    id: str
    status: str
    created_at: int
    request_counts: _Counts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(name for name in (self.output_file_id, self.error_file_id) if name)


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw = msgspec.Raw()


class _Error(msgspec.Struct):
    code: str | None = None


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


_encode = msgspec.json.Encoder().encode
_decode_file = msgspec.json.Decoder(_File).decode
_decode_batch = msgspec.json.Decoder(_Batch).decode
_decode_page = msgspec.json.Decoder(_Page).decode
_decode_line = msgspec.json.Decoder(_Line).decode


class OpenAIBatches:
    """The part of `OpenAI` that defers."""

    _upstream: Upstream

    async def submit(self, number: str, calls: Sequence[ModelCall], target: Target) -> str:
        """Hand a batch in, once.

        Raises:
            ProviderError: As the port says; whatever happens before the batch itself is asked for, nothing was accepted.

        """
        try:
            outgoing = await self._upstream.outgoing()
            file = await _uploaded(outgoing, number, await _lines(number, calls, target))
        except ProviderError as error:
            raise nothing_accepted(error) from None
        creation = _Creation(file, _ENDPOINT, _WINDOW, {METADATA: number})
        errand = Errand(
            method="POST", url=_root(outgoing) / "batches", body=_encode(creation), seconds=SUBMIT_SECONDS
        )
        batch = decoded(_decode_batch, await run(errand, outgoing, read_whole), "batch")
        if not _ID.fullmatch(batch.id):
            raise failures.faulty("a batch without a usable name")
        return batch.id

    async def find(self, number: str, sent_at: datetime, total: int, held: Collection[str]) -> str | None:  # noqa: ARG002 - the number is enough
        """Look for the batch that carries the number.

        Raises:
            ProviderError: OpenAI could not be asked.

        """
        outgoing = await self._upstream.outgoing()
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await _listed(outgoing, after)
            for batch in page.data:
                named = batch.metadata and batch.metadata.get(METADATA) == number
                if named and batch.id not in held:
                    return batch.id
            if not page.has_more or not page.data:
                return None
            last = page.data[-1]
            if datetime.fromtimestamp(last.created_at, UTC) < sent_at - LISTED_BEFORE:
                return None
            after = last.id
        return None

    async def poll(
        self,
        provider_id: str,
        number: str,
        total: int,
        *,
        shape: Shape | None,
        documents: Sequence[str],  # noqa: ARG002 - OpenAI is sent none
    ) -> Poll:
        """Ask how far a batch is; its outcomes once it has ended.

        Raises:
            ProviderError: OpenAI could not be asked, or what it said is no answer.

        """
        if not _ID.fullmatch(provider_id):
            return Gone()
        outgoing = await self._upstream.outgoing()
        errand = Errand(url=_root(outgoing) / "batches" / provider_id)
        body = await _found(errand, outgoing)
        if body is None:
            return Gone()
        batch = decoded(_decode_batch, body, "batch")
        if batch.status not in _ENDED:
            return Running()
        outcomes = Outcomes(number, total)
        form = form_of(shape)
        read = [await _read(outgoing, name, outcomes, form) for name in batch.files]
        if read and not any(read):
            return Gone()
        if all(read) and batch.request_counts:
            outcomes.require(batch.request_counts.completed)
        if batch.status in _REST:
            outcomes.rest(_REST[batch.status])
        return Ended(outcomes.told)


def _root(outgoing: Outgoing) -> URL:
    """The address that `/chat/completions` hangs on."""
    return outgoing.url.parent.parent


async def _lines(number: str, calls: Sequence[ModelCall], target: Target) -> bytes:
    """Write the file of requests, letting others run in between: it may be large."""
    lines: list[bytes] = []
    for position, call in enumerate(calls):
        whole = msgspec.structs.replace(call, watched=False)
        request = chat_request(whole, target, form_of(call.shape))
        lines.append(_encode(_Request(custom_id(number, position), "POST", _ENDPOINT, request)))
        await asyncio.sleep(0)
    return b"\n".join(lines) + b"\n"


async def _uploaded(outgoing: Outgoing, number: str, lines: bytes) -> str:
    form = aiohttp.FormData()
    form.add_field("purpose", "batch")
    form.add_field("file", sendable(lines), filename=f"{number}.jsonl", content_type="application/jsonl")
    errand = Errand(
        method="POST", url=_root(outgoing) / "files", body=form, seconds=submit_seconds(len(lines))
    )
    return decoded(_decode_file, await run(errand, outgoing, read_whole), "file").id


async def _listed(outgoing: Outgoing, after: str | None) -> _Page:
    query = {"limit": str(_PAGE)} | ({"after": after} if after else {})
    errand = Errand(url=(_root(outgoing) / "batches").with_query(query))
    return decoded(_decode_page, await run(errand, outgoing, read_whole), "list of batches")


async def _read(outgoing: Outgoing, file: str, outcomes: Outcomes, form: Form | None) -> bool:
    """Take the results of one file; False if it is not there any more."""
    if not _ID.fullmatch(file):
        raise failures.faulty("a file without a usable name")

    def take(line: bytes) -> bool:
        told = decoded(_decode_line, line, "result of a batch")
        outcomes.add(told.custom_id, lambda: _outcome(told, form))
        return True

    url = _root(outgoing) / "files" / file / "content"
    try:
        errand = Errand(url=url, accept=_JSONL, seconds=RESULT_SECONDS)
        await run(errand, outgoing, lambda response: read_lines(response, take))
    except ProviderError as error:
        if error.status != 404:
            raise
        return False
    return True


async def _found(errand: Errand, outgoing: Outgoing) -> bytes | None:
    try:
        return await run(errand, outgoing, read_whole)
    except ProviderError as error:
        if error.status != 404:
            raise
    return None


def _outcome(line: _Line, form: Form | None) -> ItemOutcome:
    if line.error is not None or line.response is None or line.response.status_code != 200:
        code = line.error.code if line.error else None
        return ItemFailure(_FAILURES.get(code or "", ItemTrouble.ERRORED))
    reader = OpenAIReader(form)
    body = bytes(line.response.body)
    return outcome_of(reader, lambda: reader.whole(body))
