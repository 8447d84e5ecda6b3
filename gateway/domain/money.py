"""Money is an integer number of micro-dollars (a millionth of a US dollar); this module holds the one rounding."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

MICROS_PER_DOLLAR = 1_000_000


def micros(dollars: Decimal) -> int:
    """Round an amount in US dollars to the nearest micro-dollar."""
    return int((dollars * MICROS_PER_DOLLAR).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def divide(amount: int, by: int) -> int:
    """Round a fraction of two whole numbers, neither of them negative, to the nearest likewise."""
    return (2 * amount + by) // (2 * by)


def dollars(amount: int) -> float:
    """Give an amount of micro-dollars as US dollars, for printing."""
    return amount / MICROS_PER_DOLLAR


def parse_dollars(text: str) -> Decimal:
    """Read an amount typed by a person: a finite number, zero or more, of at most 12 digits before the point.

    Raises:
        ValueError: The text is not such an amount.

    """
    try:
        amount = Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError(text) from error
    if not amount.is_finite() or amount < 0 or amount >= Decimal(10) ** 12:
        raise ValueError(text)
    return amount
