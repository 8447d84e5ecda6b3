"""What a fake noticed: every request with its fate, and every request it refused as the real API would."""

import time
from typing import Any, Literal, TypeAlias

import msgspec

Outcome: TypeAlias = Literal["answered", "cut", "closed", "refused"]


class Seen(msgspec.Struct, kw_only=True):
    """One request that arrived. It changes while it is being answered; times are `time.monotonic()`."""

    number: int
    method: str
    path: str
    query: str
    headers: dict[str, str]
    at: float = msgspec.field(default_factory=time.monotonic)
    size: int = 0
    body: Any = None
    raw: bytes = b""
    status: int | None = None
    behaviour: Any = None
    outcome: Literal["open"] | Outcome = "open"
    ended_at: float | None = None

    @property
    def finished(self) -> bool:
        """The whole response was written (a refusal is one, too). True before its last byte is received."""
        return self.outcome in ("answered", "refused")

    @property
    def closed_at(self) -> float | None:
        """When the client closed the connection before the response was complete."""
        return self.ended_at if self.outcome == "closed" else None

    def end(self, outcome: Outcome) -> bool:
        """Whether this decides it: the first fate counts, what follows is the connection being taken down."""
        if self.outcome != "open":
            return False
        self.outcome = outcome
        self.ended_at = time.monotonic()
        return True


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the real API would not have accepted."""

    status: int
    message: str
    path: str
    number: int


class RefusalError(Exception):
    """Raised by the rules: the request is answered with this error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
