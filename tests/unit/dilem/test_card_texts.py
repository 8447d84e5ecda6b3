"""What is taken out of a text, which way it runs, where it is broken, and that the fonts have it."""

from __future__ import annotations

import pytest

from gateway.dilem.card import bidi
from gateway.dilem.card.fonts import MEDIUM, Chain, chains
from gateway.dilem.card.labels import LABELS, weight
from gateway.dilem.card.lines import Paragraphs
from gateway.dilem.card.plain import MOST_MARKS, plain_line, plain_lines
from gateway.dilem.card.shaping import MOST_IN_CHARACTER, Shaped, Text, characters
from tests.unit.dilem.cards import SEEDS, filled


def chain(text: str = "") -> Chain:
    return chains(text)[MEDIUM]


@pytest.mark.parametrize(
    ("written", "drawn"),
    [
        ("a\u202eb\u202cc\u202ad\u202be\u202d", "abcde"),
        ("a\u2066b\u2067c\u2068d\u2069", "abcd"),
        ("\x00a\x07b\x1b[31mc\x7f\x9f", "ab[31mc"),
        ("a\u200b\u2060\ufeff\u00ad\u180e\u115f\u3164\u034fb", "ab"),
        ("  a \t b\u3000c  ", "a b c"),
        ("a\r\nb\vc\u2028d\u2029e\u0085f", "a b c d e f"),
        ("<b>a</b> &amp; {{b}} [c](d) ${e}", "<b>a</b> &amp; {{b}} [c](d) ${e}"),
        ("10\u00a0% \u202f!", "10\u00a0% \u202f!"),
        ("ب\u200cب", "ب\u200cب"),
        ("a\u200d\u200d\u200d\u200db", "a\u200db"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥", "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥"),
        ("🏴\U000e0067\U000e0062\U000e007f", "🏴\U000e0067\U000e0062\U000e007f"),
        ("hidden\U000e0068\U000e0069 words", "hidden words"),
        ("x" + "\u0301" * 300, "x" + "\u0301" * MOST_MARKS),
        ("\u200b\u200d\u2066 \u00ad", ""),
        ("\n\n\n", ""),
    ],
)
def test_what_may_be_drawn(written: str, drawn: str) -> None:
    assert plain_line(written) == drawn


def test_lines_are_kept_and_empty_ones_are_not() -> None:
    assert plain_lines("one\n\n \u200b \r\ntwo \n three\r") == ("one", "two", "three")


@pytest.mark.parametrize(
    ("logical", "visual"),
    [
        ("abc", "abc"),
        ("אבג", "גבא"),
        ("abc אבג 123", "abc 123 גבא"),
        ("אבג abc 123", "abc 123 גבא"),
        ("אבג 123", "123 גבא"),
        ("سعر 12.5% اليوم", "مويلا %12.5 رعس"),
        ("a (אב) b", "a (בא) b"),
        ("אב (a) גד", "דג )a( בא"),
        ("א-1, -2", "2- ,1-א"),
        ("$5 אב", "בא $5"),
        ("...", "..."),
    ],
)
def test_which_way_it_runs(logical: str, visual: str) -> None:
    levels = bidi.levels(logical, bidi.base_level(logical))
    # The brackets' mirror images are chosen by the font.
    assert "".join(logical[place] for place in bidi.visual_order(levels)) == visual


def test_marks_and_joiners_go_with_their_letters() -> None:
    levels = bidi.levels("א\u05b0\u200da\u0301\u200d", 1)
    assert levels[0] == levels[1] == levels[2] == 1
    assert levels[3] == levels[4] == levels[5] == 2


SCRIPTS = {
    "Latin": "ÅßøŁőșẞĳǆ Việt",
    "Greek": "Αθήναι ᾧ",
    "Cyrillic": "Київ Ђорђе Қазақ",
    "Armenian": "Հայերեն",
    "Georgian": "ქართული",
    "Hebrew": "שָׁלוֹם",
    "Arabic": "العربيّة فارسی پښتو اردو ۱۲۳ ٪ ؟",
    "Devanagari": "हिन्दी मराठी नेपाली ०१२ ।",
    "Bengali": "বাংলা",
    "Gurmukhi": "ਪੰਜਾਬੀ",
    "Gujarati": "ગુજરાતી",
    "Oriya": "ଓଡ଼ିଆ",
    "Tamil": "தமிழ்",
    "Telugu": "తెలుగు",
    "Kannada": "ಕನ್ನಡ",
    "Malayalam": "മലയാളം",
    "Sinhala": "සිංහල",
    "Thai": "ภาษาไทย ฿",
    "Lao": "ພາສາລາວ",
    "Khmer": "ភាសាខ្មែរ",
    "Myanmar": "မြန်မာဘာသာ",
    "Ethiopic": "አማርኛ",
    "Chinese": "简体中文繁體中文。《》",
    "Japanese": "ひらがなカタカナ漢字ー「」、。",
    "Korean": "한국어 조선말",
    "emoji": "🎉👍🏽👩🏿‍🚀👨‍👩‍👧‍👦❤️‍🔥🏳️‍🌈🇮🇹🇫🇷🇪🇸🇵🇹🇩🇪🇬🇧🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f1️⃣*️⃣☀️⛷️✅❌⚠️🫠🥹",
    "letters dressed up": "𝗯𝗼𝗹𝗱 𝒶𝓃𝒹 𝔣𝔯𝔞𝔨𝔱𝔲𝔯",  # noqa: RUF001 - on purpose
    "signs": "«»“”‘’„…–—•·€£¥₹₽₺₿§¶†‡°′″№™©®←→↑↓⇒✓✗✘★☆➜▸►≤≥≠≈±×÷∞√∑½¼²³αβπ",  # noqa: RUF001 - signs as they are written
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("heavy", [False, True])
def test_the_fonts_have(script: str, *, heavy: bool) -> None:
    text = SCRIPTS[script]
    found = chains(text)[700 if heavy else 400]
    assert [one for one in characters(text) if one != " " and found.typeface(one) is None] == []
    shaped = _whole(Text(text, found))
    # 0 is a font's own sign for what it lacks.
    assert [glyph for glyph in shaped.glyphs if glyph.typeface and not glyph.number] == []


def test_an_emoji_is_one_picture_whatever_it_is_joined_of() -> None:
    for emoji in ("👨‍👩‍👧‍👦", "👩🏿‍🚀", "🏳️‍🌈", "🇮🇹", "1️⃣", "❤️‍🔥"):
        shaped = _whole(Text(emoji, chain()))
        inked = [glyph for glyph in shaped.glyphs if glyph.typeface and any(glyph.typeface.ink(glyph.number))]
        assert len(inked) == 1, emoji


def test_a_digit_is_no_emoji_and_a_heart_in_text_is_none() -> None:
    found = chain()
    assert found.typeface("1") is found.typeface("a")
    assert found.typeface("1\ufe0f\u20e3") is not found.typeface("a")
    assert found.typeface("☎\ufe0e") is not found.typeface("☎\ufe0f")


def test_what_no_font_has_takes_room_as_a_box() -> None:
    shaped = _whole(Text("\U00013000\ue000", chain()))
    assert [glyph.typeface for glyph in shaped.glyphs] == [None, None]
    assert shaped.width > 1


def test_han_is_drawn_as_the_language_of_the_whole_text_draws_it() -> None:
    # 直 has a form of its own in Japanese.
    assert (
        _whole(Text("直", chain("直す"))).glyphs[0].number != _whole(Text("直", chain("直"))).glyphs[0].number
    )


def test_arabic_letters_join_and_stand_from_right_to_left() -> None:
    text = Text("بب", chain())
    joined, alone = _whole(text).glyphs, text.shape(0, 1).glyphs
    assert text.base == 1
    assert {glyph.number for glyph in joined} != {glyph.number for glyph in alone}


def test_a_character_without_end_is_cut() -> None:
    assert max(map(len, characters("👨\u200d" * 60))) <= MOST_IN_CHARACTER
    assert "".join(characters(SEEDS["mixed"] * 9)) == SEEDS["mixed"] * 9


def _whole(text: Text) -> Shaped:
    return text.shape(0, len(text.characters))


def broken(text: str, width: float, most: int = 99, *, even: bool = False) -> tuple[list[int], bool]:
    """The number of glyphs on each line, and whether all are there."""
    lines, whole = Paragraphs([Text(one, chain(text)) for one in plain_lines(text)]).broken(
        width, most, even=even
    )
    assert all(line.shaped.width <= width for line in lines)
    return [len(line.shaped.glyphs) for line in lines], whole


def test_lines_break_at_spaces_and_keep_all() -> None:
    assert broken("aa bb cc dd", 3.2) == ([5, 5], True)


def test_a_word_longer_than_a_line_is_broken_anywhere() -> None:
    lines, whole = broken("x" * 50, 5)
    assert whole
    assert sum(lines) == 50


def test_what_is_too_long_ends_in_an_ellipsis() -> None:
    lines, whole = broken("aa bb cc dd", 3.2, 1)
    assert not whole
    assert lines == [5], "five characters fit, without the ellipsis"
    assert broken("aa, bb cc dd", 2.4, 1) == ([3], False), "no comma stands before an ellipsis"


@pytest.mark.parametrize("text", ["これは「テスト」です。ちょっと、待って。", "「」。、「」。、「」。、"])
def test_japanese_never_begins_with_a_stop(text: str) -> None:
    typeset = Text(text, chain(text))
    lines, _ = Paragraphs([typeset]).broken(3.2, 99)
    starts, place = [], 0
    for line in lines:
        starts.append(text[place])
        place += len(line.shaped.glyphs)
    if "これ" in text:
        assert not set(starts) & set("」。、！っょ")  # noqa: RUF001 - as they are written
    assert place == len(text)


def test_even_lines_are_as_many() -> None:
    text = filled("some words ", 60)
    greedy, even = broken(text, 12), broken(text, 12, even=True)
    assert len(greedy[0]) == len(even[0])
    assert max(even[0]) - min(even[0]) <= max(greedy[0]) - min(greedy[0])


def test_korean_is_broken_at_spaces() -> None:
    assert broken("한국어 조선말", 4.5) == ([3, 3], True)


@pytest.mark.parametrize(
    ("probability", "said"),
    [
        (0.0, "0%"),
        (0.0001, "<1%"),
        (0.005, "1%"),
        (0.125, "13%"),
        (0.62, "62%"),
        (0.996, ">99%"),
        (1.0, "100%"),
    ],
)
def test_weights_in_words(probability: float, said: str) -> None:
    assert weight(probability, LABELS["en"]) == said


def test_every_language_says_what_the_weights_are_not() -> None:
    assert set(LABELS) == {"fr", "en", "it", "de", "es", "pt"}
    assert LABELS["en"].note == "Preference weights, not probabilities of success"
    assert len({labels.note for labels in LABELS.values()}) == 6
