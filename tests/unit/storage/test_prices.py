from __future__ import annotations

import socket
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from gateway.domain.usage import UnitPrice, Usage
from gateway.storage.first_start import BRAINS
from gateway.storage.prices import bundled_price

AT = datetime(2026, 11, 30, tzinfo=UTC)


def unit(*prices: str, above: int = 0) -> UnitPrice:
    given, answer, read, write = map(Decimal, prices)
    return UnitPrice(above_input_tokens=above, input=given, output=answer, cache_read=read, cache_write=write)


def test_a_flat_price() -> None:
    price = bundled_price("claude", "claude-opus-5", AT)
    assert price is not None
    assert price.tiers == (unit("5", "25", "0.5", "6.25"),)
    assert (price.model, price.origin) == ("claude-opus-5", "genai-prices")
    assert AT.date().year - 1 <= price.day.year <= AT.date().year
    assert price.day <= AT.date()
    assert price.cost_of(Usage(1_000_000, 0, 1_000_000, 1_000_000)) == 11_750_000


def test_a_price_in_tiers_whose_cache_write_costs_as_input() -> None:
    price = bundled_price("openai", "gpt-5.5", AT)
    assert price is not None
    assert price.tiers == (
        unit("5", "30", "0.5", "5"),
        unit("10", "45", "1", "10", above=272_000),
    )


def test_a_missing_cache_read_costs_as_input() -> None:
    price = bundled_price("claude", "claude-2", AT)
    assert price is not None
    assert price.tiers == (unit("8", "24", "8", "8"),)


def test_an_embedding_has_no_output() -> None:
    price = bundled_price("openai", "text-embedding-3-small", AT)
    assert price is not None
    assert price.tiers == (unit("0.02", "0", "0.02", "0.02"),)


def test_a_price_that_begins_on_a_day() -> None:
    before = bundled_price("openai", "o3", datetime(2025, 6, 9, 23, tzinfo=UTC))
    after = bundled_price("openai", "o3", datetime(2025, 6, 10, tzinfo=UTC))
    assert before is not None
    assert after is not None
    assert (before.tiers[0].input, after.tiers[0].input) == (Decimal(10), Decimal(2))


def test_a_dated_string_has_the_price_of_its_name() -> None:
    for dated in ("claude-haiku-4-5-20251001", "claude-opus-5-20260801"):
        price = bundled_price("claude", dated, AT)
        plain = bundled_price("claude", dated[:-9], AT)
        assert price is not None
        assert plain is not None
        assert (price.model, price.tiers) == (dated, plain.tiers)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("claude", "claude-opus-55-foo"),
        ("claude", "claude-opus-5-foo"),
        ("claude", "claude-haiku-4-5-foo"),
        ("claude", "claude-haiku-4-50"),
        ("claude", "claude-3-opus"),
        ("claude", "Claude-Opus-5"),
        ("claude", "claude-opus-5 "),
        ("claude", ""),
        ("claude", "gpt-5.5"),
        ("openai", "claude-opus-5"),
        ("openai", "gpt-5.5-whatever"),
        ("openai", "whisper-1"),
        ("openai", "omni-moderation-latest"),
        ("prova", "gpt-5.5"),
        ("google", "gemini-2.5-pro"),
    ],
)
def test_what_the_table_does_not_name_has_no_price(provider: str, model: str) -> None:
    assert bundled_price(provider, model, AT) is None


def test_every_installed_brain_has_prices_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for brain in BRAINS:
        for model in (brain.principal, brain.economy):
            assert bundled_price(brain.provider, model) is not None
