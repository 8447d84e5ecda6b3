"""How the OpenAI API says what is wrong with a request."""

from collections.abc import Collection
from typing import Any

from tests.fakes.fields import Field
from tests.fakes.seen import RefusalError


class OpenAIWords:
    """Places look like `messages[0].content`; a fault names its parameter and has a code."""

    def step(self, place: str, key: str | int) -> str:
        if isinstance(key, int):
            return f"{place}[{key}]"
        return f"{place}.{key}" if place else key

    def unknown(self, place: str) -> RefusalError:
        return _refusal(f"Unknown parameter: '{place}'.", place, "unknown_parameter")

    def missing(self, place: str) -> RefusalError:
        return _refusal(f"Missing required parameter: '{place}'.", place, "missing_required_parameter")

    def wrong_type(self, place: str, expected: str, value: Any) -> RefusalError:
        got = type(value).__name__
        return _refusal(
            f"Invalid type for '{place}': expected {expected}, but got {got}.", place, "invalid_type"
        )

    def not_allowed(self, place: str, value: Any, allowed: Collection[str]) -> RefusalError:
        known = ", ".join(f"'{name}'" for name in sorted(allowed))
        return _refusal(f"Invalid value: '{value}'. Supported values are: {known}.", place, "invalid_value")

    def bad(self, place: str, message: str, code: str | None = None) -> RefusalError:
        return _refusal(message if code else f"Invalid '{place}': {message}", place, code or "invalid_value")


def _refusal(message: str, place: str, code: str) -> RefusalError:
    return RefusalError(400, message, kind="invalid_request_error", param=place or None, code=code)


def request_field(body: Any) -> Field:
    """The root of a request's body."""
    return Field(body, "", OpenAIWords())
