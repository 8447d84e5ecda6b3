"""The bundled prices: a package's own table, read from the disk, never from the network."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from gateway.domain.usage import Price, UnitPrice

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

ORIGIN = "genai-prices"
PUBLISHERS = {"claude": "anthropic", "openai": "openai"}
"""The table's names for our providers."""
DATED = re.compile(r"(.+?)-(?:\d{8}|\d{4}-\d{2}-\d{2})")
"""A model's dated string: the name and the day it was made."""


def bundled_price(provider: str, model: str, at: datetime | None = None) -> Price | None:
    """Give the price of exactly this model, or None when the table does not know it.

    A dated string has the price of its name; any other likeness is none. A missing price of cached input is that of
    input.

    Args:
        provider: `claude` or `openai`; others are not in the table.
        model: The provider's string.
        at: When the price must be true (some begin on a day); default: now.

    """
    instant = at or datetime.now(UTC)
    found = _find(provider, model)
    if found is None:
        return None
    tiers = _tiers(found, found.get_prices(instant))
    if tiers is None:
        return None
    return Price(model=model, tiers=tiers, origin=ORIGIN, day=_day_of_table(instant.date()))


def bundled_window(provider: str, model: str) -> int | None:
    """Give how many tokens this model holds, input and answer together, or None when the table does not know."""
    found = _find(provider, model)
    return None if found is None else found.context_window


@cache
def _publisher(provider: str) -> Provider | None:
    # Two megabytes of Python: only who asks for a price loads them.
    from genai_prices.data import providers  # noqa: PLC0415

    return next((each for each in providers if each.id == PUBLISHERS.get(provider)), None)


@cache
def _find(provider: str, model: str) -> ModelInfo | None:
    publisher = _publisher(provider)
    if publisher is None:
        return None
    found = next((each for each in publisher.models if each.is_match(model)), None)
    if found is None:
        return None
    # The table matches by beginnings too: `claude-haiku-4-5-whatever` would be Haiku's price.
    names = _names(found)
    dated = DATED.fullmatch(model)
    return found if model in names or (dated is not None and dated[1] in names) else None


def _names(model: ModelInfo) -> set[str]:
    """Give every string the table names outright."""
    from genai_prices.types import ClauseEquals, ClauseOr  # noqa: PLC0415

    clauses = model.match.or_ if isinstance(model.match, ClauseOr) else [model.match]
    return {model.id, *(clause.equals for clause in clauses if isinstance(clause, ClauseEquals))}


def _tiers(model: ModelInfo, prices: ModelPrice) -> tuple[UnitPrice, ...] | None:
    listed = prices.input_mtok
    # An embedding model has no output; anything else without its price is not priced by tokens.
    answer = (
        prices.output_mtok if prices.output_mtok is not None or "embedding" not in model.id else Decimal(0)
    )
    if listed is None or answer is None:
        return None
    read = listed if prices.cache_read_mtok is None else prices.cache_read_mtok
    write = listed if prices.cache_write_mtok is None else prices.cache_write_mtok
    starts = {0}.union(*(_starts(each) for each in (listed, answer, read, write)))
    return tuple(
        UnitPrice(
            above_input_tokens=start,
            input=_from(listed, start),
            output=_from(answer, start),
            cache_read=_from(read, start),
            cache_write=_from(write, start),
        )
        for start in sorted(starts)
    )


def _starts(price: Decimal | TieredPrices) -> set[int]:
    return set() if isinstance(price, Decimal) else {tier.start for tier in price.tiers}


def _from(price: Decimal | TieredPrices, start: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    return next((tier.price for tier in reversed(price.tiers) if tier.start <= start), price.base)


@cache
def _day_of_table(today: date) -> date:
    """Give the last day on which a price of the table began: it does not tell its own day, and is no older."""
    from genai_prices.types import ModelPrice, StartDateConstraint  # noqa: PLC0415

    days = [
        condition.constraint.start_date
        for publisher in map(_publisher, PUBLISHERS)
        if publisher is not None
        for model in publisher.models
        if not isinstance(model.prices, ModelPrice)
        for condition in model.prices
        if isinstance(condition.constraint, StartDateConstraint) and condition.constraint.start_date <= today
    ]
    return max(days, default=today)
