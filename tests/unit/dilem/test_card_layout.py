"""Whatever a result holds: nothing leaves the card, and no text touches another."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.dilem.card.elements import Box, Scene, Words
from gateway.dilem.card.facts import HEIGHT, WIDTH
from gateway.dilem.card.layout import PANEL_LEFT, lay_out
from gateway.dilem.card.shaping import MOST_INK
from gateway.dilem.card.texts import texts_of
from gateway.dilem.contract import CardResult, Language
from tests.unit.dilem.cards import SEEDS, USUAL, card, filled, longest

LANGUAGES: tuple[Language, ...] = get_args(Language)


def scene(result: CardResult, language: Language = "en") -> Scene:
    return lay_out(texts_of(result, language))


def touch(one: Box | Words, other: Box | Words) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def panel(drawn: Scene) -> Box:
    (found,) = [box for box in drawn.boxes if box.color == "hero"]
    return found


def check(drawn: Scene) -> None:
    hero = panel(drawn)
    every: list[Box | Words] = [*drawn.boxes, *drawn.words]
    for one in every:
        assert one.x >= PANEL_LEFT
        assert one.x + one.width <= WIDTH - PANEL_LEFT
        assert one.y >= 0
        assert one.y + one.height <= HEIGHT - 40
        assert one.width > 0
        assert one.height > 0
        inside = hero.y <= one.y and one.y + one.height <= hero.y + hero.height
        assert inside if one.color.startswith("hero") else not touch(one, hero)
    for words in drawn.words:
        assert words.y < words.baseline < words.y + words.height
        assert words.left >= words.x or len(words.shaped.glyphs) <= 12
    for one, other in combinations(drawn.words, 2):
        assert not touch(one, other), (one.color, other.color)
    for words in drawn.words:
        for box in drawn.boxes:
            assert box is hero or not touch(words, box)


def widths_hold(drawn: Scene) -> bool:
    return all(words.shaped.width * words.size <= words.width + 1 for words in drawn.words)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_longest_of_everything(seed: str) -> None:
    drawn = scene(longest(SEEDS[seed]))
    check(drawn)
    assert widths_hold(drawn)


def test_the_highest_lines_there_may_be() -> None:
    texts = texts_of(longest(SEEDS["words"]), "de")
    for option in (texts.chosen, *texts.others):
        option.label.ink = option.description.ink = MOST_INK
    texts.summary.ink = MOST_INK
    check(lay_out(texts))


ALPHABETS = st.sampled_from([*SEEDS.values(), "\u200b", "\u202e", "\n", " ", "…", "x" * 40, "A. ", "12,5 € "])
TEXTS = st.lists(ALPHABETS | st.text(max_size=8), min_size=1, max_size=6).map("".join).filter(bool)


@st.composite
def results(draw: st.DrawFn) -> CardResult:
    def text(most: int) -> str:
        return filled(draw(TEXTS), draw(st.sampled_from([1, 9, 40, most // 3, most])))

    options = [
        (text(120), text(240) if draw(st.booleans()) else "", draw(st.floats(0, 1)))
        for _ in range(draw(st.integers(2, 8)))
    ]
    return card(text(6000), *options, selected=draw(st.integers(0, len(options) - 1)))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(result=results(), language=st.sampled_from(LANGUAGES))
def test_anything(result: CardResult, language: Language) -> None:
    check(scene(result, language))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("options", [2, 8])
def test_the_fixed_words_fit_in_every_language(language: Language, options: int) -> None:
    drawn = scene(card("Yes.", *[("Yes", "", 1.0)] * options), language)
    check(drawn)
    assert widths_hold(drawn)
    quiet = [words for words in drawn.words if words.color == "quiet"]
    assert len(quiet) == 2, "the number of options and the note are on every card"


def test_the_chosen_option_is_the_largest_and_alone_in_its_panel() -> None:
    drawn = scene(USUAL)
    hero = panel(drawn)
    sizes = sorted({words.size for words in drawn.words}, reverse=True)
    largest = [words for words in drawn.words if words.size == sizes[0]]
    assert {words.color for words in largest} == {"hero_ink"}
    assert all(touch(words, hero) for words in largest)
    outside = max(words.size for words in drawn.words if not touch(words, hero) and words.color == "ink")
    assert sizes[0] > 2 * outside


def bars(drawn: Scene) -> list[tuple[str, int]]:
    """Filled parts from top to bottom: colour and hundredths."""
    tracks = {(box.y, box.height): box.width for box in drawn.boxes if box.color in ("track", "hero_track")}
    return [
        (box.color, round(100 * box.width / tracks[box.y, box.height]))
        for box in sorted(drawn.boxes, key=lambda box: box.y)
        if (box.y, box.height) in tracks and box.color in ("accent", "hero_accent")
    ]


def test_bars_tell_the_weights_the_others_ranked() -> None:
    drawn = scene(card("S", ("a", "", 0.2), ("b", "", 0.1), ("c", "", 0.4), ("d", "", 0.3), selected=0))
    assert bars(drawn) == [("hero_accent", 20), ("accent", 40), ("accent", 30), ("accent", 10)]


def test_nothing_has_no_bar_and_next_to_nothing_has_one() -> None:
    drawn = scene(card("S", ("a", "", 1.0), ("b", "", 0.0001), ("c", "", 0.0)))
    assert [color for color, _ in bars(drawn)] == ["hero_accent", "accent"]


def test_a_short_text_is_written_larger_than_a_long_one() -> None:
    def largest(label: str) -> int:
        return max(words.size for words in scene(card("S", (label, "", 0.5), ("b", "", 0.5))).words)

    assert largest("Yes") > largest(filled("a word or two ", 120))


def test_a_summary_that_is_not_visible_leaves_no_heading() -> None:
    empty = scene(card("\u200b\u202e \n", ("a", "", 0.5), ("b", "", 0.5)))
    told = scene(card("told", ("a", "", 0.5), ("b", "", 0.5)))
    check(empty)
    assert len(told.words) - len(empty.words) == 2


def test_what_runs_from_right_to_left_stands_at_the_right() -> None:
    drawn = scene(card("שלום", ("לישון", "לילה טוב", 0.6), ("לקום", "", 0.4)))
    check(drawn)
    below = panel(drawn).y + panel(drawn).height
    summary = next(words for words in drawn.words if words.color == "ink" and words.y > below)
    right = summary.x + summary.width
    assert summary.left + round(summary.shaped.width * summary.size) == pytest.approx(right, abs=1)
    filled_bar = next(box for box in drawn.boxes if box.color == "hero_accent")
    track = next(box for box in drawn.boxes if box.color == "hero_track")
    assert filled_bar.x + filled_bar.width == track.x + track.width
