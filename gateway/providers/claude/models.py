"""What Claude's models differ in, as far as a request must know; told by how their names begin."""

from __future__ import annotations

_BUDGETED_THINKING = (
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-opus-4-5",
    "claude-opus-4-1",
    "claude-opus-4-0",
    "claude-opus-4-2025",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2025",
    "claude-3",
)
_SHORTEST_OUTPUT = ("claude-opus-4-1", "claude-opus-4-0", "claude-opus-4-2025")
LEAST_THINKING_TOKENS = 1_024
"""No model takes a smaller budget."""


def thinks_within_budget(model: str) -> bool:
    """Whether a model thinks within a budget given to it; all others decide by themselves."""
    return model.startswith(_BUDGETED_THINKING)


def most_output_tokens(model: str) -> int:
    """How many tokens a model writes at most, thinking included: asking for more is refused."""
    if model.startswith(_SHORTEST_OUTPUT):
        return 32_000
    return 64_000 if thinks_within_budget(model) else 128_000
