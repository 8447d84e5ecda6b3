"""Shapes there and back: a schema that any provider takes, and answers read liberally but told strictly."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.completion import Choice, Fields, Shape
from gateway.ports import ProviderError, Trouble
from gateway.providers.shapes import Form, form_of

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)
names = st.lists(
    texts | st.sampled_from(["campo_1", "campo_2", "campo__1", "a b", "a"]),
    min_size=1,
    max_size=50,
    unique=True,
)


def form(shape: Shape) -> Form:
    made = form_of(shape)
    assert made is not None
    return made


def properties_of(shape: Shape) -> dict[str, dict[str, Any]]:
    properties = form(shape).schema["properties"]
    assert isinstance(properties, dict)
    return properties


def read(shape: Shape, answer: object) -> str:
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    return form(shape).read(text)


def test_no_shape_has_no_form() -> None:
    assert form_of(None) is None


# Fields


def test_a_name_that_a_schema_can_hold_stays() -> None:
    assert list(properties_of(Fields(("nome", "Codice_Fiscale", "x" * 64)))) == [
        "nome",
        "Codice_Fiscale",
        "x" * 64,
    ]


def test_other_names_are_told_in_the_description() -> None:
    properties = properties_of(Fields(('tra "virgolette"', "nome", "campo_1", "x" * 65)))

    assert list(properties) == ["campo__1", "nome", "campo_1", "campo__4"]
    assert properties["campo__1"]["description"] == 'Il campo "tra \\"virgolette\\"".'
    assert "description" not in properties["nome"]


def test_the_schema_has_no_unions_and_nothing_optional() -> None:
    schema = form(Fields(tuple(f"campo {number}" for number in range(50)))).schema

    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    assert "anyOf" not in str(schema)
    assert "null" not in str(schema)


@given(names)
def test_any_names_come_back(asked: list[str]) -> None:
    shape = Fields(tuple(asked))
    properties = properties_of(shape)
    assert len(properties) == len(asked)

    told = read(shape, {key: [str(position)] for position, key in enumerate(properties)})

    values = msgspec.json.decode(told, type=dict[str, str | None])
    assert list(values) == asked
    assert list(values.values()) == [str(position) for position in range(len(asked))]


@pytest.mark.parametrize(
    ("given_", "value"),
    [
        (["Ada"], "Ada"),
        (["Ada", "Bea"], "Ada, Bea"),
        ([], None),
        ([""], None),
        (["", "Ada", None], "Ada"),
        ("Ada", "Ada"),
        ("", None),
        (None, None),
        (12, "12"),
        (True, "true"),
        ([1, "due"], "1, due"),
        ({"a": [1, 2]}, '{"a":[1,2]}'),
        ([["x"], "y"], '["x"], y'),
        ("perché «no» 🌶", "perché «no» 🌶"),
    ],
)
def test_values_are_read_liberally(given_: object, value: str | None) -> None:
    assert msgspec.json.decode(read(Fields(("a",)), {"a": given_})) == {"a": value}


def test_numbers_keep_their_digits() -> None:
    assert (
        read(Fields(("a", "b")), '{"a": 1.10, "b": [12345678901234567890, 1e5]}')
        == '{"a":"1.10","b":"12345678901234567890, 1e5"}'
    )


def test_missing_names_are_null_and_others_are_dropped() -> None:
    assert read(Fields(("a", "b c")), {"altro": ["x"], "a": ["1"]}) == '{"a":"1","b c":null}'


def test_a_field_is_found_under_its_own_name_too() -> None:
    assert read(Fields(("b c",)), {"b c": ["1"]}) == '{"b c":"1"}'


def test_white_space_around_the_json_is_allowed() -> None:
    assert read(Fields(("a",)), ' \n{"a" : [ "1" ] }\n') == '{"a":"1"}'


@pytest.mark.parametrize(
    "text",
    ["", "ciao", "[]", '"a"', "null", '{"a": ["x"', '{"a": ["x"]} e poi', '{"a": NaN}', '{"a": "\\ud800"}'],
)
def test_what_is_no_object_is_no_answer(text: str) -> None:
    with pytest.raises(ProviderError) as caught:
        form(Fields(("a",))).read(text)
    assert caught.value.trouble is Trouble.FAULTY
    assert caught.value.__cause__ is caught.value.__context__ is None


# Choice


def test_plain_options_are_sent_as_they_are() -> None:
    options = ("positivo", "né carne né pesce", "Costi/ricavi (2026)", "C.S.R. & altro")

    assert properties_of(Choice(options))["categoria"] == {"type": "string", "enum": list(options)}


@pytest.mark.parametrize(
    "odd", ['"a"', "dell'orto", "a\nb", "a\\b", " a", "a ", "🌶", "\x07", "\u2028", "e\u0300"]
)
def test_other_options_get_codes(odd: str) -> None:
    category = properties_of(Choice((odd, "b")))["categoria"]

    assert category["enum"] == ["categoria_1", "categoria_2"]
    assert f"categoria_1 = {msgspec.json.encode(odd).decode()}" in category["description"]


def test_a_hundred_long_options_get_codes() -> None:
    category = properties_of(Choice(tuple(f"{number} {'x' * 190}" for number in range(100))))["categoria"]

    assert sum(map(len, category["enum"])) < 7_500


@given(
    st.lists(
        texts | st.sampled_from(["categoria_1", "1", "A", "a", " a"]), min_size=2, max_size=100, unique=True
    )
)
def test_any_option_comes_back(options: list[str]) -> None:
    shape = Choice(tuple(options))
    enum = properties_of(shape)["categoria"]["enum"]
    assert len(set(enum)) == len(options)

    assert [read(shape, {"categoria": code}) for code in enum] == options


@pytest.mark.parametrize(
    "answer",
    [
        {"categoria": "Sì, certo"},
        {"categoria": " sì, CERTO\n"},
        {"categoria": ["Sì, certo"]},
        {"altro": "Sì, certo"},
        '"Sì, certo"',
        '["Sì, certo"]',
        "Sì, certo",
        " sì, certo \n",
    ],
)
@pytest.mark.parametrize("other", ["no", "non 'so'"])
def test_an_option_is_read_liberally(answer: object, other: str) -> None:
    assert read(Choice((other, "Sì, certo")), answer) == "Sì, certo"


def test_a_code_is_read_in_any_case() -> None:
    assert read(Choice(("a'", "b'")), {"categoria": "Categoria_2"}) == "b'"


def test_options_that_look_like_json_can_be_bare() -> None:
    assert read(Choice(("{}", "[x]")), "[x]") == "[x]"
    assert read(Choice(("1", "2")), {"categoria": 2}) == "2"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "forse",
        {"categoria": "forse"},
        {"categoria": None},
        {},
        {"x": "sì", "y": "no"},
        {"categoria": ["sì", "no"]},
        "sì no",
    ],
)
def test_what_is_none_of_the_options_is_no_answer(answer: object) -> None:
    with pytest.raises(ProviderError) as caught:
        read(Choice(("sì", "no")), answer)
    assert caught.value.trouble is Trouble.FAULTY


def test_likeness_that_fits_two_options_fits_none() -> None:
    shape = Choice(("A", "a"))

    assert read(shape, "a") == "a"
    with pytest.raises(ProviderError):
        read(Choice(("Ab", "aB")), "AB")
