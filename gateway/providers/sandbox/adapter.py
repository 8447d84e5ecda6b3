"""The provider `prova` behind the port: it is always there, reaches nobody, and does what the trigger words say."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import aclosing
from typing import TYPE_CHECKING

from typing_extensions import override

from gateway.domain.completion import JsonSchema
from gateway.domain.errors import INTERNAL_ERROR, Failure
from gateway.domain.events import Finished, Metered, Piece, Searched, Searching, Stop
from gateway.domain.sandbox import triggers
from gateway.ports import ProviderError, Trouble
from gateway.providers import failures
from gateway.providers.sandbox.answers import (
    CHARACTERS_PER_TOKEN,
    answer_text,
    half_of,
    pieces_of,
    shaped_text,
    usage_of,
)
from gateway.providers.sandbox.batches import BROKEN, SandboxBatches
from gateway.providers.sandbox.extras import searches_of
from gateway.providers.sandbox.quotes import Quotes
from gateway.providers.sandbox.schemas import instance_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gateway.domain.calls import ModelCall
    from gateway.domain.catalog import Target
    from gateway.domain.completion import Citation
    from gateway.domain.events import ProviderEvents
    from gateway.domain.sandbox import Triggers

REFUSED = "richiesta_rifiutata"
REJECTED = "errore_ai"
AWAY = "ai_non_disponibile"
TRUNCATED = "troncata"
UNSENT = "non_inviata"
_GIVE_UP_SECONDS = 3_600.0
"""A wait so long that nobody waits: the caller gets the error at once."""
_MOST_COUNTED_REQUESTS = 1_000


class Sandbox(SandboxBatches):
    """Answers without a model.

    Args:
        folder: Where deferred work waits, made when needed, shared by the processes of a machine; without one none
            is taken.
        stand_ins: Who plays the model where a schema of this name is asked for: given the last turn's text, trigger
            words included, they give its answer. Other schemas are answered with an instance that means nothing.

    """

    name = "prova"

    def __init__(
        self, folder: Path | None = None, stand_ins: Mapping[str, Callable[[str], str]] | None = None
    ) -> None:
        super().__init__(folder)
        self._stand_ins = stand_ins or {}
        self._failed: OrderedDict[str, int] = OrderedDict()
        """How many attempts of a request have failed so far; the oldest requests are forgotten."""
        self._quotes = Quotes()

    @property
    def ready(self) -> bool:
        """Always: it needs no key."""
        return True

    async def stream(self, call: ModelCall, target: Target) -> ProviderEvents:  # noqa: ARG002 - every model is alike here
        """Ask once.

        Raises:
            ProviderError: The text asks for it.
            Failure: 500, likewise.

        """
        wanted = triggers(call.turns[-1].text)
        if wanted.silence:
            await asyncio.sleep(wanted.silence)
        self._fail_if_wanted(call, wanted)
        async with aclosing(self._told(call, wanted)) as events:
            async for event in events:
                yield event

    @override
    async def _told(self, call: ModelCall, wanted: Triggers) -> ProviderEvents:
        usage = usage_of(call, "", wanted)
        yield Metered(usage)
        if REFUSED in wanted.codes:
            yield Finished(Stop.REFUSED, usage)
            return
        searches = searches_of(call, wanted)
        for search in searches:
            yield Searching(search.id, search.query)
            yield Searched(search.id)
        if searches:
            yield Metered(usage_of(call, "", wanted, len(searches)))
        citations: tuple[Citation, ...] = (
            *await self._quotes.of(call),
            *(search.found for search in searches),
        )
        pieces, stop = self._answer(call, wanted, citations)
        text = "".join(pieces)
        for number, piece in enumerate(pieces if call.watched else (text,)):
            # Who gets the answer in one piece gets none of one that is cut.
            if wanted.cut_after is not None and (number >= wanted.cut_after or not call.watched):
                break
            yield Piece(piece)
        if wanted.cut_after is not None:
            raise ProviderError(Trouble.UNREACHABLE, "cut, as the text wants")
        yield Finished(stop, usage_of(call, text, wanted, len(searches)), citations)

    @override
    def _fail_if_wanted(self, call: ModelCall, wanted: Triggers) -> None:
        if BROKEN in wanted.codes:
            raise Failure(INTERNAL_ERROR, reason="a fault of the gateway, as the text wants")
        if UNSENT in wanted.codes:
            raise ProviderError(
                Trouble.UNREACHABLE,
                "no connection, as the text wants",
                retry_after=_GIVE_UP_SECONDS,
                sent=False,
            )
        if AWAY in wanted.codes:
            raise ProviderError(
                Trouble.OVERLOADED, "overloaded, as the text wants", status=529, retry_after=_GIVE_UP_SECONDS
            )
        if REJECTED in wanted.codes:
            raise ProviderError(Trouble.REJECTED, "refused with status 400, as the text wants", status=400)
        failed = self._failed.pop(call.request_id, 0)
        if failed >= wanted.failing_attempts:
            return
        self._failed[call.request_id] = failed + 1
        if len(self._failed) > _MOST_COUNTED_REQUESTS:
            self._failed.popitem(last=False)
        raise failures.faulty(
            f"attempt {failed + 1} of {wanted.failing_attempts} that fail, as the text wants"
        )

    def _answer(
        self, call: ModelCall, wanted: Triggers, citations: tuple[Citation, ...]
    ) -> tuple[list[str], Stop]:
        """Give the answer in pieces, and whether it is whole: nobody writes more than the call's tokens."""
        content = call.turns[-1].text
        if isinstance(call.shape, JsonSchema):
            play = self._stand_ins.get(call.shape.name)
            text = instance_text(call.shape.schema) if play is None else play(content)
            return (half_of([text]), Stop.TRUNCATED) if TRUNCATED in wanted.codes else ([text], Stop.END)
        if call.shape is not None:
            if TRUNCATED in wanted.codes:
                raise ProviderError(
                    Trouble.UNUSABLE, "a forced shape cut by the token limit, as the text wants"
                )
            return [shaped_text(call.shape, content)], Stop.END
        text = answer_text(call, citations)
        limit = call.answer_tokens * CHARACTERS_PER_TOKEN
        if wanted.pieces is None and len(text) > limit:
            return pieces_of(text[:limit], None), Stop.TRUNCATED
        pieces = pieces_of(text, wanted.pieces)
        return (half_of(pieces), Stop.TRUNCATED) if TRUNCATED in wanted.codes else (pieces, Stop.END)
