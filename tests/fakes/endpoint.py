"""What a provider tells the shared server about one of its addresses: what it accepts and how it answers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from tests.fakes.behaviours import Answer, Scripted
from tests.fakes.seen import RefusalError, Seen


class Frame(NamedTuple):
    """Some bytes of a streamed answer; `piece` marks those that carry a piece of visible text."""

    data: bytes
    piece: bool = False


class Endpoint(Protocol):
    """One method and path. `default` answers when no script does; it may be a function of the request."""

    default: Scripted

    def accept(self, seen: Seen) -> None:
        """Decodes `seen.raw` into `seen.body` and checks it, raising `RefusalError` as the real API would."""

    def streams(self, seen: Seen) -> bool:
        """Whether the request asks for a stream."""

    def dress(self, scripted: Answer, seen: Seen) -> Answer:
        """Adapts a default answer to the request: schema, forced tool, thinking."""

    def whole(self, scripted: Answer, seen: Seen) -> bytes:
        """The answer as one body."""

    def frames(self, scripted: Answer, seen: Seen) -> Iterator[Frame]:
        """The answer as a stream."""


class Dialect(Protocol):
    """What all addresses of a provider have in common."""

    request_id_header: str

    def authorise(self, seen: Seen, key: str) -> None:
        """Raises `RefusalError` for a missing or wrong key and bad protocol headers."""

    def error(self, refusal: RefusalError, request_id: str) -> bytes:
        """An error body."""

    def error_event(self, kind: str, message: str, request_id: str) -> bytes:
        """An error in mid-stream."""

    def status_of(self, kind: str) -> int:
        """The HTTP status an error of this kind has when nothing was sent yet."""


Route = tuple[str, str, Endpoint]
"""Method, regular expression of the whole path, endpoint."""

Condition = Callable[[], object]
