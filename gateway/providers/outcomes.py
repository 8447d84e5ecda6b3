"""The single answers of a batch: how each text is named at the provider, and what came of it; pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.domain.batches import ItemAnswer, ItemFailure, ItemOutcome, ItemTrouble
from gateway.domain.events import Finished, Piece, Stop
from gateway.ports import ProviderError
from gateway.providers import failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gateway.domain.events import ProviderEvent
    from gateway.providers.asking import Reader

log = logging.getLogger(__name__)


def custom_id(number: str, position: int) -> str:
    """The name of one text at the provider: it begins with the batch's number."""
    return f"{number}-{position}"


def names_a_text_of(number: str, name: str) -> bool:
    """Whether a custom id was given by this batch."""
    return name.startswith(f"{number}-")


class Outcomes:
    """Collects what came of each text, in any order; of two results for one text the first counts.

    Args:
        number: The batch's.
        total: Its texts.

    """

    def __init__(self, number: str, total: int) -> None:
        self._positions = {custom_id(number, position): position for position in range(total)}
        self.told: dict[int, ItemOutcome] = {}
        self._names: set[str] = set()

    def add(self, name: str, outcome: Callable[[], ItemOutcome]) -> None:
        """Take one result; one of a text that is not ours says nothing."""
        self._names.add(name)
        position = self._positions.get(name)
        if position is not None and position not in self.told:
            self.told[position] = outcome()

    def require(self, results: int) -> None:
        """Check that as many results came as the provider says there are.

        Raises:
            ProviderError: They did not: some would be lost for ever if these were settled.

        """
        if len(self._names) < results:
            raise failures.faulty(f"{len(self._names)} results of a batch instead of {results}")

    def rest(self, trouble: ItemTrouble) -> None:
        """Say what came of all texts without a result."""
        for position in self._positions.values():
            self.told.setdefault(position, ItemFailure(trouble))


def outcome_of(reader: Reader, read: Callable[[], Iterable[ProviderEvent]]) -> ItemOutcome:
    """Fold the events of one answer; what can't be passed on is an error, with what it consumed."""
    try:
        events = tuple(read())
    except ProviderError as error:
        log.warning("an answer of a batch can't be passed on: %s", error.reason)
        return ItemFailure(ItemTrouble.ERRORED, reader.usage)
    return folded(events) or ItemFailure(ItemTrouble.ERRORED, reader.usage)


def folded(events: Sequence[ProviderEvent]) -> ItemOutcome | None:
    """Put the pieces of one answer together; None without an end."""
    end = events[-1] if events else None
    if not isinstance(end, Finished):
        return None
    if end.stop is Stop.REFUSED:
        return ItemFailure(ItemTrouble.REFUSED, end.usage)
    text = "".join(event.text for event in events if isinstance(event, Piece))
    return ItemAnswer(text, end.stop, end.usage, end.citations)


def nothing_accepted(error: ProviderError) -> ProviderError:
    """Mark a failure after which the provider holds no batch; a 4xx and a 529 say so by themselves."""
    refused = error.status is not None and (400 <= error.status < 500 or error.status == 529)
    error.sent = refused
    return error
