"""What operators may type, and what is refused before any store is opened."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli import values
from gateway.domain.catalog import BrainFallback, ModelFallback, NoFallback
from gateway.domain.tenants import Permission


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (values.read_project, "a", "a"),
        (values.read_project, "0-shop_it", "0-shop_it"),
        (values.read_project, "x" * 63, "x" * 63),
        (values.read_permissions, "", frozenset()),
        (
            values.read_permissions,
            " internet , documenti",
            frozenset({Permission.DOCUMENTS, Permission.INTERNET}),
        ),
        (values.read_per_hour, "0", 0),
        (values.read_per_hour, "1000000", 1_000_000),
        (values.read_budget, "none", None),
        (values.read_budget, "0", 0),
        (values.read_budget, "2.5", 2_500_000),
        (values.read_budget, "0.000001", 1),
        (values.read_budget, "999999999.999999", 999_999_999_999_999),
        (values.read_price, "0", Decimal(0)),
        (values.read_price, "0.075", Decimal("0.075")),
        (values.read_domains, "", ()),
        (values.read_domains, "a.it", ("a.it",)),
        (values.read_domains, "Esempio.IT, sub.b.co.uk", ("esempio.it", "sub.b.co.uk")),
        (values.read_domains, "perché.it", ("xn--perch-fsa.it",)),
        (values.read_domains, "a。it", ("a.it",)),
        (values.read_domains, "xn--perch-fsa.it", ("xn--perch-fsa.it",)),
        (values.read_name, "  Pepper 6 · OpenAI ", "Pepper 6 · OpenAI"),
        (values.read_name, "perche\u0301", "perché"),
        (values.read_label, "", ""),
        (values.read_model_choice, "default", None),
        (values.read_model_choice, "Pepper 7", "Pepper 7"),
        (values.read_switch, "on", True),
        (values.read_switch, "off", False),
        (values.read_switch, "file", None),
        (values.read_key_id, "12", 12),
        (values.read_fallback, "none", NoFallback()),
        (values.read_fallback, "model:claude-haiku-4-5", ModelFallback("claude-haiku-4-5")),
        (values.read_fallback, "pepper:Pepper 6 · OpenAI", BrainFallback("Pepper 6 · OpenAI")),
        (values.read_fallback, 'pepper:"Pepper 6"', BrainFallback("Pepper 6")),
    ],
)
def test_what_is_taken(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *(
            (values.read_project, text)
            for text in ("", "A", "-a", "_a", "a b", "a\n", "è", "a" * 64, "a/b", "a:b", "a{b}")
        ),
        *(
            (values.read_permissions, text)
            for text in ("tutto", "Documenti", "documenti,", ",", "internet,internet")
        ),
        *(
            (values.read_per_hour, text)
            for text in ("", "-1", "1.5", "1e3", "1_000", "\u0661\u0662", "1000001", "9" * 5000, "nan")
        ),
        *(
            (values.read_budget, text)
            for text in (
                *(
                    "",
                    "None",
                    "-1",
                    "nan",
                    "NaN",
                    "sNaN",
                    "inf",
                    "-inf",
                    "Infinity",
                    "1e3",
                    "1_000",
                    "2,50",
                    "$2",
                ),
                *("0.0000001", "1000000000", "9" * 5000, "\u0663", "+1", "1.", "0x10"),
            )
        ),
        *((values.read_price, text) for text in ("none", "-0.1", "nan", "1000001", "1e999999999")),
        *(
            (values.read_domains, text)
            for text in (
                *(
                    "https://a.it",
                    "a.it/x",
                    "a.it:443",
                    "a",
                    "localhost",
                    "127.0.0.1",
                    "[::1]",
                    "*.a.it",
                    ".a.it",
                ),
                *(
                    "a.it.",
                    "a..it",
                    "-a.it",
                    "a-.it",
                    "a_b.it",
                    "a.it,A.it",
                    "perché.it,xn--perch-fsa.it",
                    "a.it,,b.it",
                ),
                *(
                    "a b.it",
                    "a\n.it",
                    "user@a.it",
                    "straße.de",
                    "\udcff.it",
                    "x" * 64 + ".it",
                    "a." * 127 + "it",
                ),
                *(
                    "\uff41.it,a.it",
                    "a。it,a.it",
                    "\u202ea.it",
                    ",".join(f"a{number}.it" for number in range(101)),
                ),
            )
        ),
        *(
            (values.read_name, text)
            for text in ("", "  ", "a\nb", "a\x00", "\udcff", "x" * 129, "\x1b[31m", "\u202ex")
        ),
        *((values.read_label, text) for text in ("a\nb", "x" * 129)),
        *((values.read_switch, text) for text in ("", "ON", "true", "1")),
        *((values.read_key_id, text) for text in ("", "0", "-1", "1.0", "x", "9" * 30, "\u0661")),
        *(
            (values.read_fallback, text)
            for text in ("", "None", "model:", "pepper:", 'pepper:""', "claude:x", "model:a\nb")
        ),
    ],
)
def test_what_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        read(text)
    assert str(refusal.value).strip()


@given(st.text())
def test_whatever_is_typed_is_taken_or_refused(text: str) -> None:
    for read in (
        values.read_project,
        values.read_permissions,
        values.read_per_hour,
        values.read_budget,
        values.read_price,
        values.read_domains,
        values.read_name,
        values.read_text,
        values.read_key_id,
        values.read_fallback,
    ):
        try:
            read(text)
        except ValueError:
            continue


@given(st.text(alphabet="aàß·.-0x。\uff11", max_size=30))
def test_a_domain_that_is_taken_is_plain_and_stays_itself(text: str) -> None:
    try:
        taken = values.read_domains(text)
    except ValueError:
        return
    assert values.read_domains(",".join(taken)) == taken
    assert all(domain.isascii() and domain == domain.lower() and "/" not in domain for domain in taken)
