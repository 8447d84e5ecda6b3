"""What can be asked for: recipes and brains, and the models a brain turns to."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from typing_extensions import override


class Level(StrEnum):
    """Which of a brain's two models a recipe uses."""

    PRINCIPAL = "principale"
    ECONOMY = "economico"


class Reasoning(StrEnum):
    """How much a brain thinks before it answers."""

    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


THINKING_ALLOWANCE: dict[Reasoning, int] = {
    Reasoning.OFF: 0,
    Reasoning.LOW: 4_096,
    Reasoning.MEDIUM: 12_288,
    Reasoning.HIGH: 32_768,
}
"""Tokens that a brain may think, on top of the answer's own limit."""


class ExtraKind(StrEnum):
    """Types of a recipe's extras, as written in its front matter."""

    TEXT = "testo"
    FLAG = "booleano"
    INTEGER = "intero"
    FIELDS = "campi"
    CATEGORIES = "categorie"


class Extra(msgspec.Struct, frozen=True):
    """One parameter that a recipe understands.

    Attributes:
        instruction: For TEXT, FLAG and INTEGER: the sentence added to the recipe when the extra is given (for a
            FLAG: when it is true); `{valore}` stands for the value, quoted as JSON.
        minimum, maximum: Bounds of an INTEGER, inclusive; for TEXT `maximum` is the longest value in characters.

    """

    name: str
    kind: ExtraKind
    description: str = ""
    instruction: str = ""
    minimum: int | None = None
    maximum: int | None = None


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for a kind of work, with its limits.

    Attributes:
        version: 1 for the file; a version made by an operator counts on from there. The ledger names it.
        variant_of: Project whose own variant this is, or None.
        max_tokens: The answer is never longer than this, in tokens.
        base_tokens, tokens_per_input: The answer of a short input is allowed
            `base_tokens + tokens_per_input * input tokens`, if that is less than `max_tokens`.
        cache_hours: How long an answer may be given again for the same request; 0 is never.
        partner: Whether partner projects can see it (recipes of the gateway's own front doors are hidden).

    """

    name: str
    description: str
    level: Level
    instructions: str
    extras: tuple[Extra, ...] = ()
    max_tokens: int
    base_tokens: int
    tokens_per_input: float
    cache_hours: float = 0
    internet: bool = False
    knowledge: bool = False
    partner: bool = True
    version: int = 1
    variant_of: str | None = None

    def answer_tokens(self, input_tokens: int) -> int:
        """How many tokens the answer to an input of this size may have."""
        return min(self.max_tokens, self.base_tokens + int(self.tokens_per_input * input_tokens))


class NoFallback(msgspec.Struct, frozen=True, tag="none"):
    """Nobody else is asked."""

    @override
    def __str__(self) -> str:
        """As the command line writes it."""
        return "none"


class ModelFallback(msgspec.Struct, frozen=True, tag="model"):
    """Another model of the same provider is asked."""

    model: str

    @override
    def __str__(self) -> str:
        """As the command line and `meta.ripiego` write it (there with `modello:`)."""
        return f"model:{self.model}"


class BrainFallback(msgspec.Struct, frozen=True, tag="pepper"):
    """Another brain's model of the same level is asked."""

    brain: str

    @override
    def __str__(self) -> str:
        """As the command line and `meta.ripiego` write it."""
        return f"pepper:{self.brain}"


Fallback = NoFallback | ModelFallback | BrainFallback


def parse_fallback(text: str) -> Fallback:
    """Read `none`, `model:ID` or `pepper:NAME`.

    Raises:
        ValueError: It is none of these.

    """
    kind, _, name = text.partition(":")
    if text == "none":
        return NoFallback()
    if kind == "model" and name:
        return ModelFallback(name)
    if kind == "pepper" and name:
        return BrainFallback(name)
    raise ValueError(text)


class Brain(msgspec.Struct, frozen=True, kw_only=True):
    """A «modello Pepper»: what partners call the version they talk to."""

    name: str
    provider: str
    principal: str
    economy: str
    reasoning: Reasoning = Reasoning.OFF
    fallback: Fallback = NoFallback()
    description: str = ""
    news: str = ""
    voice: bool = False
    default: bool = False

    def model(self, level: Level) -> str:
        """The provider's string of the model for this level."""
        return self.principal if level is Level.PRINCIPAL else self.economy


class Target(msgspec.Struct, frozen=True):
    """One provider's model, asked for one brain.

    Attributes:
        fallback: The value of `meta.ripiego` if this one answers; None for the first choice.

    """

    provider: str
    model: str
    brain: str
    reasoning: Reasoning
    fallback: str | None = None

    @property
    def thinking_tokens(self) -> int:
        """Tokens it may think before answering."""
        return THINKING_ALLOWANCE[self.reasoning]
