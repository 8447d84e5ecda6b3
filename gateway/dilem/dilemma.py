"""What the model is told of a dilemma: one JSON message, in which everything that others wrote is data."""

from __future__ import annotations

import msgspec

from gateway.dilem.contract import DecideRequest, Language

LAST_CLARIFICATION = 20
LAST_REFINEMENTS = 39
LAST_CHARACTERS = 22_000
"""Beyond these another question could not be answered within the limits of a request."""


class Repair(msgspec.Struct, frozen=True):
    """The model's own answer that was no turn, and why."""

    answer: str
    problems: tuple[str, ...]


class Dilemma(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message.

    Attributes:
        language: Of the interface; the answer follows the user's own words.
        force: No question may be asked any more.

    """

    text: str
    refinements: tuple[str, ...]
    language: Language
    force: bool
    clarification_count: int
    repair: Repair | None = None


def dilemma_of(request: DecideRequest) -> Dilemma:
    """What the model is told of a request: refinements without text are left out."""
    return Dilemma(
        text=request.text,
        refinements=tuple(each for each in request.refinements if each.strip()),
        language=request.language,
        force=must_decide(request),
        clarification_count=request.clarification_count,
    )


def must_decide(request: DecideRequest) -> bool:
    """Whether no question may be asked any more: by the user's wish, or because it could not be answered."""
    return (
        request.force_decision
        or request.clarification_count >= LAST_CLARIFICATION
        or len(request.refinements) >= LAST_REFINEMENTS
        or request.characters > LAST_CHARACTERS
    )


def message_of(dilemma: Dilemma) -> str:
    """Write a dilemma with every letter as it is: escaped ones make some models write NULs."""
    return msgspec.json.encode(dilemma).decode()
