"""How an answer's text becomes events, whichever provider it comes from.

White space alone is no answer and is never told; a forced shape is told in one piece, when it is known to be whole (or
when somebody else judges that).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.domain.events import Finished, Piece, Stop
from gateway.ports import ProviderError, Trouble
from gateway.providers import failures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.domain.completion import Citation
    from gateway.domain.events import ProviderEvent
    from gateway.domain.usage import Usage
    from gateway.providers.shapes import Form


class Teller:
    """Takes the text as it comes.

    Args:
        form: Of a forced shape: nothing is told before the end then.

    """

    def __init__(self, form: Form | None) -> None:
        self._form = form
        self._kept: list[str] = []
        """What has not been told: the white space before the first word, or all of a forced shape."""
        self._begun = False

    def piece(self, text: str) -> Iterable[Piece]:
        """Tell a piece of text, if it can be told already."""
        if self._begun:
            return (Piece(text),) if text else ()
        self._kept.append(text)
        if self._form is not None or not text or text.isspace():
            return ()
        self._begun = True
        return (Piece("".join(self._kept)),)

    def end(self, stop: Stop, usage: Usage, citations: tuple[Citation, ...] = ()) -> Iterable[ProviderEvent]:
        """Tell the end.

        Raises:
            ProviderError: There was no text, or it does not have the forced shape.

        """
        finished = Finished(stop, usage, citations)
        if self._begun or stop is Stop.REFUSED:
            return (finished,)
        text = "".join(self._kept)
        if self._form is not None and self._form.tells_cut:
            return (Piece(self._form.read(text)), finished) if text else (finished,)
        if not text or text.isspace():
            raise failures.faulty(f"an answer without text ({stop.value})")
        if self._form is None:
            return (Piece(text), finished)
        if stop is Stop.TRUNCATED:
            raise ProviderError(Trouble.UNUSABLE, "a forced shape cut by the token limit")
        return (Piece(self._form.read(text)), finished)
