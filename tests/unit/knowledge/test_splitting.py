"""Passages: nothing visible is lost, none is blank or too long, headings go along, hostile texts are texts."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.domain.knowledge import MAX_DOCUMENT_CHARACTERS
from gateway.knowledge.splitting import MOST_PASSAGE_CHARACTERS, _pieces, cleaned, split

SENTENCE = "Il consiglio si è riunito per discutere il bilancio e le tariffe dei servizi. "
FAMILY = "👩‍👩‍👧‍👦"
UNSEEN = "\u00ad\u200b\u202a\u202e\u2066\u2069\u2060\ufeff\U000e0041"

texts = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\0\x07\x1b\r\n\t #*->|.!?`'\"<>\u200d\u202e\u0301👩🏽🇮🇹漢あقא"),
    ),
    max_size=3_000,
)
shaped = st.lists(
    st.sampled_from(
        [
            "# Titolo\n",
            "## Altro ##\n",
            "Art. 12 - Multe\n",
            "Capo II\n",
            "- voce\n",
            "\n\n",
            "\r\n",
            "    ",
            SENTENCE,
            "x" * 950,
            FAMILY * 30,
        ]
    ),
    max_size=60,
).map("".join)


def visible(text: str) -> str:
    return "".join(character for character in text if character.isprintable() and not character.isspace())


@given(st.one_of(texts, shaped))
@example("\u200d" * 5_000)
@example("a" * 4_000 + " " * 4_000 + "b")
@example(("a" * 10 + "\n" * 90) * 200)
def test_what_always_holds(text: str) -> None:
    passages = split(text)
    assert passages == split(text)
    pieces = [piece for _, piece in _pieces(cleaned(text))]
    assert [passage.endswith(piece) for passage, piece in zip(passages, pieces, strict=True)] == [True] * len(
        pieces
    )
    assert visible("".join(pieces)) == visible(cleaned(text))
    for passage in passages:
        assert 0 < len(passage) <= MOST_PASSAGE_CHARACTERS
        assert visible(passage)
        assert not any(unicodedata.category(character) == "Cs" for character in passage)
        assert "\0" not in passage
        assert "\r" not in passage


@pytest.mark.parametrize(
    "text", ["", " ", "\n\r\n\t", "\0\0", "\u200b\u202e", " " * MAX_DOCUMENT_CHARACTERS, "\u200d" * 9_000]
)
def test_a_blank_text_has_no_passages(text: str) -> None:
    assert split(text) == ()


def test_a_short_text_is_one_passage() -> None:
    assert split("Ciao.") == ("Ciao.",)


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        FAMILY,
        "\n",
        "a\n",
        "> ",
        "[",
        "](",
        "#",
        "# a\n",
        "Art. 1\n",
        "|a",
        "`",
        "e\u0301",
        "\u0301\u0316",
        "&amp;",
        "\u202ea",
        "\0a",
        "a    ",
        "1. ",
    ],
)
def test_the_longest_texts_of_one_thing(unit: str) -> None:
    text = (unit * (MAX_DOCUMENT_CHARACTERS // len(unit) + 1))[:MAX_DOCUMENT_CHARACTERS]
    passages = split(text)
    assert all(len(passage) <= MOST_PASSAGE_CHARACTERS for passage in passages)
    assert len(passages) < 1_000


def test_ordinary_passages_are_whole_sentences_of_about_a_thousand_characters() -> None:
    passages = split(SENTENCE * 300)
    assert all(passage.startswith("Il consiglio") and passage.endswith("servizi.") for passage in passages)
    assert all(800 <= len(passage) <= MOST_PASSAGE_CHARACTERS for passage in passages[1:-1])


def test_neighbours_share_a_sentence() -> None:
    sentences = [f"La frase numero {number} parla della voce {number} del listino." for number in range(90)]
    passages = split(" ".join(sentences))
    for earlier, later in pairwise(passages):
        assert later.split("\n")[0] in earlier
        assert earlier.endswith(later.split("\n")[0])


def test_a_grapheme_is_never_cut() -> None:
    for unit in (FAMILY, "👍🏽", "🇮🇹", "e\u0301"):
        text = (unit * 3_000)[: len(unit) * 3_000]
        for passage in split(text):
            assert passage.replace(unit, "").strip() == ""


def test_each_passage_says_under_which_headings_it_stands() -> None:
    text = f"# Regolamento 2026\n\n## Orari\n\n{SENTENCE * 20}\n\n## Multe\n\n{SENTENCE * 3}"
    passages = split(text)
    assert passages[0].startswith("# Regolamento 2026")
    assert passages[1].startswith("Regolamento 2026 / Orari\n\n")
    last = passages[-1]
    assert last.startswith("Regolamento 2026\n\n## Multe")


def test_articles_of_plain_text_are_headings_too() -> None:
    text = f"TITOLO II DELLE MULTE\n\nArt. 12 - Recidiva\n\n{SENTENCE * 40}\n\nArticolo 13\n\n{SENTENCE * 20}"
    passages = split(text)
    assert passages[1].startswith("TITOLO II DELLE MULTE / Art. 12 - Recidiva\n\n")
    assert passages[-1].startswith("TITOLO II DELLE MULTE / Articolo 13\n\n")


def test_a_heading_too_long_for_its_passages_is_left_out() -> None:
    text = f"# {'T' * 119}\n\n## {'S' * 119}\n\n{SENTENCE * 30}"
    assert split(text)[1].startswith(f"{'S' * 119}\n\n")


def test_what_is_not_seen_is_not_kept() -> None:
    assert split(f"pri{UNSEEN}ma\r\nse\0con\x07da\u2028terza") == ("prima\nse con da\nterza",)
