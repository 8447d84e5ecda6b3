"""What a call consumed and what that costs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cached_property

import msgspec

from gateway.domain.money import divide, micros

SEARCH_PRICE = Decimal("0.01")
"""US dollars for one web search."""
_SEARCH_MICROS = micros(SEARCH_PRICE)


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


class _Tariff(msgspec.Struct, frozen=True):
    """A price in whole numbers: dollars per million tokens are micro-dollars per token, here multiplied by `scale`.

    Attributes:
        tiers: Of each tier input, output, cache reads and cache writes.
        highest_input, highest_output: The dearest that a token can be.

    """

    scale: int
    tiers: tuple[tuple[int, int, int, int], ...]
    highest_input: int
    highest_output: int


class Price(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a model costs. Reckoned in whole numbers, and exactly (every call does so several times).

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
        return self.tiers[self._tier(total_input)]

    def cost_of(self, usage: Usage, *, share: Decimal = Decimal(1)) -> int:
        """Cost in micro-dollars, rounded to the nearest; `share` is what part of the list price is paid.

        Searches have their own price, which no share lowers.
        """
        tariff = self._tariff
        given, taken, read, written = tariff.tiers[self._tier(usage.total_input)]
        tokens = (
            usage.input_tokens * given
            + usage.output_tokens * taken
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * written
        )
        part, whole = share.as_integer_ratio()
        return divide(tokens * part, tariff.scale * whole) + usage.searches * _SEARCH_MICROS

    def worst_case(self, input_tokens: int, output_tokens: int) -> int:
        """Micro-dollars that so many tokens can cost at most: dearest tier, every input token written to the cache."""
        tariff = self._tariff
        tokens = input_tokens * tariff.highest_input + output_tokens * tariff.highest_output
        return divide(tokens, tariff.scale) + 1

    def _tier(self, total_input: int) -> int:
        chosen = 0
        for index in range(1, len(self.tiers)):
            if total_input > self.tiers[index].above_input_tokens:
                chosen = index
        return chosen

    @cached_property
    def _tariff(self) -> _Tariff:
        amounts = [(tier.input, tier.output, tier.cache_read, tier.cache_write) for tier in self.tiers]
        scale = 10 ** max(_digits(amount) for tier in amounts for amount in tier)
        tiers = tuple(
            (_times(given, scale), _times(taken, scale), _times(read, scale), _times(written, scale))
            for given, taken, read, written in amounts
        )
        return _Tariff(
            scale,
            tiers,
            highest_input=max(max(given, read, written) for given, _, read, written in tiers),
            highest_output=max(taken for _, taken, _, _ in tiers),
        )


def _times(amount: Decimal, scale: int) -> int:
    above, below = amount.as_integer_ratio()
    return above * scale // below


def _digits(amount: Decimal) -> int:
    """How many digits an amount has behind its point."""
    exponent = amount.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
