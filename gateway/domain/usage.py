"""What a call consumed and what that costs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import msgspec

from gateway.domain.money import ONE_MILLION, micros

SEARCH_PRICE = Decimal("0.01")
"""US dollars for one web search."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens and searches of one attempt. The classes are disjoint: cached input is not in `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    searches: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Add class by class."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.searches + other.searches,
        )

    @property
    def total_input(self) -> int:
        """All input tokens, cached or not: what decides the price tier."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class UnitPrice(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars per million tokens, from a number of input tokens upwards."""

    above_input_tokens: int = 0
    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs.

    Attributes:
        tiers: Unit prices by rising `above_input_tokens`; the first is for calls of any size.
        origin: `genai-prices` (bundled table) or `operatore` (set by an operator).
        day: The day the price was true.

    """

    model: str
    tiers: tuple[UnitPrice, ...]
    origin: str
    day: date

    def unit_for(self, total_input: int) -> UnitPrice:
        """The unit price of a call with so many input tokens."""
        chosen = self.tiers[0]
        for tier in self.tiers[1:]:
            if total_input > tier.above_input_tokens:
                chosen = tier
        return chosen

    def cost_of(self, usage: Usage, *, share: Decimal = Decimal(1)) -> int:
        """Cost in micro-dollars, rounded to the nearest; `share` is what part of the list price is paid.

        Searches have their own price, which no share lowers.
        """
        unit = self.unit_for(usage.total_input)
        tokens = (
            usage.input_tokens * unit.input
            + usage.output_tokens * unit.output
            + usage.cache_read_tokens * unit.cache_read
            + usage.cache_write_tokens * unit.cache_write
        ) / ONE_MILLION
        return micros(tokens * share + usage.searches * SEARCH_PRICE)

    def worst_case(self, input_tokens: int, output_tokens: int) -> int:
        """Micro-dollars that so many tokens can cost at most: dearest tier, every input token written to the cache."""
        highest_input = max(max(tier.input, tier.cache_write, tier.cache_read) for tier in self.tiers)
        highest_output = max(tier.output for tier in self.tiers)
        return micros((input_tokens * highest_input + output_tokens * highest_output) / ONE_MILLION) + 1
