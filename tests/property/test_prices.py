"""Prices are reckoned in whole numbers: the result is that of exact decimals, rounded once."""

from __future__ import annotations

from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.usage import SEARCH_PRICE, Price, UnitPrice, Usage

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)

amounts = st.decimals(min_value=0, max_value=10**11, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [
        Decimal(text)
        for text in ("0", "5", "25", "0.5", "6.25", "0.0025", "1E+2", "0.1234567890123456789012345678901")
    ]
)
tokens = st.integers(0, 3_000_000)
usages = st.builds(Usage, tokens, tokens, tokens, tokens, st.integers(0, 5))


@st.composite
def prices(draw: st.DrawFn) -> Price:
    bounds = sorted(draw(st.sets(st.integers(1, 2_000_000), max_size=2)))
    tiers = tuple(
        UnitPrice(
            above_input_tokens=above,
            input=draw(amounts),
            output=draw(amounts),
            cache_read=draw(amounts),
            cache_write=draw(amounts),
        )
        for above in (0, *bounds)
    )
    return Price(model="m", tiers=tiers, origin="operatore", day=date(2026, 1, 1))


def rounded(dollars: Decimal) -> int:
    return int((dollars * 1_000_000).to_integral_value())


@given(prices(), usages, st.sampled_from(["1", "0.5", "0.3"]))
def test_a_cost_is_the_exact_one_rounded_once(price: Price, usage: Usage, share: str) -> None:
    unit = [
        tier for tier in price.tiers if tier is price.tiers[0] or usage.total_input > tier.above_input_tokens
    ][-1]
    with localcontext(EXACT):
        amount = (
            usage.input_tokens * unit.input
            + usage.output_tokens * unit.output
            + usage.cache_read_tokens * unit.cache_read
            + usage.cache_write_tokens * unit.cache_write
        )
        exact = rounded(amount / 1_000_000 * Decimal(share) + usage.searches * SEARCH_PRICE)
    assert price.unit_for(usage.total_input) is unit
    assert price.cost_of(usage, share=Decimal(share)) == exact


@given(prices(), tokens, tokens)
def test_no_split_of_the_input_costs_more_than_the_worst_case(price: Price, given_: int, taken: int) -> None:
    with localcontext(EXACT):
        dearest = max(max(tier.input, tier.cache_read, tier.cache_write) for tier in price.tiers)
        exact = rounded((given_ * dearest + taken * max(tier.output for tier in price.tiers)) / 1_000_000)
    assert price.worst_case(given_, taken) == exact + 1
    for usage in (Usage(given_, taken), Usage(0, taken, given_), Usage(0, taken, 0, given_)):
        assert price.cost_of(usage) <= price.worst_case(given_, taken)
