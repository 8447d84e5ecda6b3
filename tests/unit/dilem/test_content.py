"""The catalogues of words: whole, really translated, true to the code; examples that the contract takes; names of hosts."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from gateway.dilem.content import examples
from gateway.dilem.content.blocks import Code, Prose, Table
from gateway.dilem.content.fields import Field, fields_of
from gateway.dilem.content.html import inline
from gateway.dilem.content.markdown import Markdown
from gateway.dilem.content.site import Site
from gateway.dilem.content.words import FOLDER, words_in
from gateway.dilem.contract import LANGUAGES, DecisionResponse, Language
from gateway.dilem.errors import CODES
from gateway.dilem.operations import CASE_HEADER, OPERATIONS
from gateway.dilem.reading import decode

LONG = 40
"""Longer texts are no words that two languages may share."""


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{path}.{number}")


def _catalogue(language: Language) -> dict[str, str]:
    return dict(_texts(tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))))


def _all_fields(fields: Iterable[Field]) -> Iterator[Field]:
    for field in fields:
        yield field
        yield from _all_fields(field.fields)


def test_every_catalogue_has_the_same_entries() -> None:
    english = _catalogue("en")
    for language in LANGUAGES:
        words_in(language)
        assert _catalogue(language).keys() == english.keys(), language
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(LANGUAGES)


def test_texts_are_translated_and_keep_their_code() -> None:
    catalogues = {language: _catalogue(language) for language in LANGUAGES}
    for one, other in itertools.combinations(LANGUAGES, 2):
        same = {
            path
            for path, text in catalogues[one].items()
            if len(text) > LONG and text == catalogues[other][path]
        }
        assert same == set(), (one, other)
    for path, text in catalogues["en"].items():
        for language in LANGUAGES:
            translated = catalogues[language][path]
            assert _marks(translated) == _marks(text), (language, path)
            assert translated.strip() == translated or path == ".locale.thousands"
            assert "'" not in re.sub(r"`[^`]*`", "", translated), (language, path)


def _marks(text: str) -> list[str]:
    """What every translation must hold: code, and the places of numbers."""
    assert text.count("`") % 2 == 0, text
    return sorted(set(re.findall(r"`[^`]+`|\{\w+\}", text)))


def test_every_member_tool_and_code_has_its_words_and_no_other() -> None:
    kinds = [
        kind
        for operation in OPERATIONS
        for kind in (operation.body, operation.response)
        if isinstance(kind, type) and kind is not None
    ]
    members = {
        (field.owner, field.name)
        for kind in (*kinds, *DecisionResponse.__args__)
        for field in _all_fields(fields_of(kind))
    }
    for language in LANGUAGES:
        words = words_in(language)
        assert set(words.tools) == {operation.name for operation in OPERATIONS}
        assert set(words.codes) == {code.code for code in CODES}
        used = {f"{owner}.{name}" if f"{owner}.{name}" in words.fields else name for owner, name in members}
        assert set(words.fields) == used | {"Authorization", CASE_HEADER}, language


@pytest.mark.parametrize("language", LANGUAGES)
def test_limits_are_told_in_the_language(language: Language) -> None:
    decide = next(operation for operation in OPERATIONS if operation.name == "decide")
    fields = {field.name: field for field in fields_of(decide.body)}
    words = words_in(language)
    thousands = words.locale.thousands
    assert f"6{thousands}000" in words.limits_of(fields["text"])
    told = words.limits_of(fields["refinements"])
    assert "40" in told
    assert f"6{thousands}000" in told
    assert "`[]`" in told
    assert words.limits_of(fields["language"]).endswith('`"fr"`, `"en"`, `"it"`, `"de"`, `"es"`, `"pt"`')
    assert f"24{thousands}000" in words.parameters.total
    assert words_in("en").limits_of(fields["clarification_count"]) == "0 to 20 · Default: `0`"


def test_examples_are_what_the_contract_takes_and_gives() -> None:
    bodies = {operation.name: operation.body for operation in OPERATIONS if operation.body}
    assert set(examples.REQUESTS) == set(bodies)
    for name, body in examples.REQUESTS.items():
        assert decode(bodies[name], body)
    answers = {
        operation.name: operation.response
        for operation in OPERATIONS
        if operation.response is not None and operation.name != "decide"
    }
    assert set(examples.RESPONSES) == set(answers)
    for name, answer in examples.RESPONSES.items():
        assert msgspec.convert(answer, answers[name])
    for example in (examples.CLARIFICATION, examples.RESULT, examples.ERROR):
        assert msgspec.convert(example, DecisionResponse)
    arguments = {operation.name: operation.arguments for operation in OPERATIONS}
    for name, given in examples.ARGUMENTS.items():
        assert decode(arguments[name], given)


@pytest.mark.parametrize(
    ("base", "host", "reversed_host", "contact"),
    [
        ("https://dilem.example", "dilem.example", "example.dilem", "contact@dilem.example"),
        ("https://a.b.example:8443", "a.b.example", "example.b.a", "contact@a.b.example"),
        ("http://localhost:8080", "localhost", "localhost", "contact@localhost"),
        (
            "http://127.0.0.1:8080",
            "1.0.0.127.in-addr.arpa",
            "arpa.in-addr.127.0.0.1",
            "contact@[127.0.0.1]",
        ),
    ],
)
def test_names_come_from_the_host(base: str, host: str, reversed_host: str, contact: str) -> None:
    site = Site(base)
    assert (site.host, site.reversed_host, site.contact) == (host, reversed_host, contact)
    assert site.url("/x") == f"{base}/x"
    for block in (Site("http://[::1]:80").reversed_host, Site("http://[::1]:80").host):
        assert re.fullmatch(r"[a-z0-9.-]+", block)


def test_prose_is_told_safely() -> None:
    text = "a < b, `x & <y>`, **so**, [there](/en/docs/#x) and [*`"
    told = 'a &lt; b, <code>x &amp; &lt;y&gt;</code>, <strong>so</strong>, <a href="/en/docs/#x">there</a> and [*`'
    assert str(inline(text)) == told
    blocks = (Prose(text), Code("Label", "json", "{}"), Table(("a|b",), (("c|d",),)))
    assert list(Markdown(Site("https://dilem.example")).blocks(blocks)) == [
        text.replace("(/", "(https://dilem.example/"),
        "Label",
        "```json\n{}\n```",
        "| a\\|b |\n| --- |\n| c\\|d |",
    ]
