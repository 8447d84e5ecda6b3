"""What operators may type, and what is refused before any store is opened."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain import inputs
from gateway.domain.catalog import BrainFallback, ModelFallback, NoFallback
from gateway.domain.tenants import Permission


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (inputs.read_project, "a", "a"),
        (inputs.read_project, "0-shop_it", "0-shop_it"),
        (inputs.read_project, "x" * 63, "x" * 63),
        (inputs.read_permissions, "", frozenset()),
        (
            inputs.read_permissions,
            " internet , documenti",
            frozenset({Permission.DOCUMENTS, Permission.INTERNET}),
        ),
        (inputs.read_per_hour, "0", 0),
        (inputs.read_per_hour, "1000000", 1_000_000),
        (inputs.read_budget, "none", None),
        (inputs.read_budget, "0", 0),
        (inputs.read_budget, "2.5", 2_500_000),
        (inputs.read_budget, "0.000001", 1),
        (inputs.read_budget, "999999999.999999", 999_999_999_999_999),
        (inputs.read_price, "0", Decimal(0)),
        (inputs.read_price, "0.075", Decimal("0.075")),
        (inputs.read_domains, "", ()),
        (inputs.read_domains, "a.it", ("a.it",)),
        (inputs.read_domains, "Esempio.IT, sub.b.co.uk", ("esempio.it", "sub.b.co.uk")),
        (inputs.read_domains, "perché.it", ("xn--perch-fsa.it",)),
        (inputs.read_domains, "a。it", ("a.it",)),
        (inputs.read_domains, "xn--perch-fsa.it", ("xn--perch-fsa.it",)),
        (inputs.read_name, "  Pepper 6 · OpenAI ", "Pepper 6 · OpenAI"),
        (inputs.read_name, "perche\u0301", "perché"),
        (inputs.read_label, "", ""),
        (inputs.read_model_choice, "default", None),
        (inputs.read_model_choice, "Pepper 7", "Pepper 7"),
        (inputs.read_switch, "on", True),
        (inputs.read_switch, "off", False),
        (inputs.read_switch, "file", None),
        (inputs.read_key_id, "12", 12),
        (inputs.read_fallback, "none", NoFallback()),
        (inputs.read_fallback, "model:claude-haiku-4-5", ModelFallback("claude-haiku-4-5")),
        (inputs.read_fallback, "pepper:Pepper 6 · OpenAI", BrainFallback("Pepper 6 · OpenAI")),
        (inputs.read_fallback, 'pepper:"Pepper 6"', BrainFallback("Pepper 6")),
    ],
)
def test_what_is_taken(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *(
            (inputs.read_project, text)
            for text in ("", "A", "-a", "_a", "a b", "a\n", "è", "a" * 64, "a/b", "a:b", "a{b}")
        ),
        *(
            (inputs.read_permissions, text)
            for text in ("tutto", "Documenti", "documenti,", ",", "internet,internet")
        ),
        *(
            (inputs.read_per_hour, text)
            for text in ("", "-1", "1.5", "1e3", "1_000", "\u0661\u0662", "1000001", "9" * 5000, "nan")
        ),
        *(
            (inputs.read_budget, text)
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
        *((inputs.read_price, text) for text in ("none", "-0.1", "nan", "1000001", "1e999999999")),
        *(
            (inputs.read_domains, text)
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
            (inputs.read_name, text)
            for text in ("", "  ", "a\nb", "a\x00", "\udcff", "x" * 129, "\x1b[31m", "\u202ex")
        ),
        *((inputs.read_label, text) for text in ("a\nb", "x" * 129)),
        *((inputs.read_switch, text) for text in ("", "ON", "true", "1")),
        *((inputs.read_key_id, text) for text in ("", "0", "-1", "1.0", "x", "9" * 30, "\u0661")),
        *(
            (inputs.read_fallback, text)
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
        inputs.read_project,
        inputs.read_permissions,
        inputs.read_per_hour,
        inputs.read_budget,
        inputs.read_price,
        inputs.read_domains,
        inputs.read_name,
        inputs.read_text,
        inputs.read_key_id,
        inputs.read_fallback,
    ):
        try:
            read(text)
        except ValueError:
            continue


@given(st.text(alphabet="aàß·.-0x。\uff11", max_size=30))
def test_a_domain_that_is_taken_is_plain_and_stays_itself(text: str) -> None:
    try:
        taken = inputs.read_domains(text)
    except ValueError:
        return
    assert inputs.read_domains(",".join(taken)) == taken
    assert all(domain.isascii() and domain == domain.lower() and "/" not in domain for domain in taken)
