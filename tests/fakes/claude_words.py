"""How the Anthropic API says what is wrong with a request."""

from collections.abc import Collection
from typing import Any

from tests.fakes.fields import Field
from tests.fakes.seen import RefusalError

_TYPES = {
    "object": "dictionary",
    "array": "list",
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}


class ClaudeWords:
    """Places are dotted paths; every fault is a 400 of type invalid_request_error."""

    def step(self, place: str, key: str | int) -> str:
        return f"{place}.{key}" if place else str(key)

    def unknown(self, place: str) -> RefusalError:
        return RefusalError(400, f"{place}: Extra inputs are not permitted")

    def missing(self, place: str) -> RefusalError:
        return RefusalError(400, f"{place}: Field required")

    def wrong_type(self, place: str, expected: str, value: Any) -> RefusalError:
        return RefusalError(400, f"{place}: Input should be a valid {_TYPES[expected]}")

    def not_allowed(self, place: str, value: Any, allowed: Collection[str]) -> RefusalError:
        return RefusalError(400, f"{place}: Input should be {', '.join(repr(a) for a in sorted(allowed))}")

    def bad(self, place: str, message: str, code: str | None = None) -> RefusalError:
        return RefusalError(400, f"{place}: {message}" if place else message)


def request_field(body: Any) -> Field:
    """The root of a request's body."""
    return Field(body, "", ClaudeWords())
