"""An earlier answer, told again: whole or in one piece, as the repeat asks."""

from __future__ import annotations

import msgspec

from gateway.domain.completion import Answer
from gateway.domain.events import Events, Piece, Told


def as_repeat(answer: Answer) -> Answer:
    """The answer of a repeat under an Idempotency-Key: identical, but marked."""
    return msgspec.structs.replace(answer, meta=msgspec.structs.replace(answer.meta, replayed=True))


async def replay(answer: Answer) -> Events:
    """Tell it: nothing is pretended about pieces that there are not."""
    if answer.text:
        yield Piece(answer.text)
    yield Told(answer)
