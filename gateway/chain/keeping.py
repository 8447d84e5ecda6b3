"""What the gate keeps for the chain, as bytes: answers for repeats, and notes about calls that gave none."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gateway.domain.completion import Answer
from gateway.domain.errors import FAULTS, INTERNAL_ERROR, Failure
from gateway.storage.conversations import ConversationPair


class KeptAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer under an Idempotency-Key, or in the cache.

    Attributes:
        pair: The conversation's pair that could not be committed with it: whoever repeats writes it first.

    """

    answer: Answer
    pair: ConversationPair | None = None


class CutCall(msgspec.Struct, frozen=True, tag="cut"):
    """What a stream that was cut left in a conversation: its repeat goes on there and replaces the pair."""

    conversation: str
    request_id: str


class FailedCall(msgspec.Struct, frozen=True, tag="failed"):
    """How a call failed: for those who waited for it under the same key. Later ones run anew."""

    code: str
    status: int
    note: str | None
    retry_after: int | None

    def failure(self) -> Failure:
        """The same failure again."""
        fault = next(
            (one for one in FAULTS if (one.code, one.status) == (self.code, self.status)), INTERNAL_ERROR
        )
        return Failure(fault, self.note, retry_after=self.retry_after, reason="as the call it waited for")


Note: TypeAlias = CutCall | FailedCall

_answers = msgspec.json.Decoder(KeptAnswer)
_notes: msgspec.json.Decoder[Note] = msgspec.json.Decoder(Note)


def pack(kept: KeptAnswer | Note) -> bytes:
    """Give the bytes something is kept as."""
    return msgspec.json.encode(kept)


def unpack(kept: bytes) -> KeptAnswer:
    """Read a packed answer."""
    return _answers.decode(kept)


def unpack_note(note: bytes) -> Note:
    """Read a packed note."""
    return _notes.decode(note)


def note_of(failure: Failure) -> FailedCall:
    """Give the note of a failure."""
    return FailedCall(failure.fault.code, failure.fault.status, failure.note, failure.retry_after)
