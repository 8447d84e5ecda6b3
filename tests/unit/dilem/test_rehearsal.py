"""The sandbox's stand-in keeps to the rules that the model is held to."""

from __future__ import annotations

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dilem.contract import LANGUAGES, Clarification, DecideRequest, Language, Result
from gateway.dilem.dilemma import Dilemma, Repair, dilemma_of, message_of, must_decide
from gateway.dilem.rehearsal import (
    NEVER_VALID,
    VALID_WHEN_REPAIRED,
    WORDS,
    alternatives,
    play,
    stand_ins,
)
from gateway.dilem.turn_schema import TURN_SCHEMA
from gateway.dilem.validation import Invalid, check
from gateway.domain.sandbox import triggers

REPAIR = Repair("{}", ("no",))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("word", [None, *WORDS])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("repair", [None, REPAIR])
def test_what_it_says_is_a_turn_unless_the_word_wants_none(
    language: Language, word: str | None, force: bool, repair: Repair | None
) -> None:
    dilemma = Dilemma(
        text=f"Treno o bus? [[prova:{word}]]",
        refinements=(),
        language=language,
        force=force,
        clarification_count=0,
        repair=repair,
    )
    said = play(message_of(dilemma))
    turn = check(said, forced=force)
    if word == NEVER_VALID or (word == VALID_WHEN_REPAIRED and repair is None):
        assert isinstance(turn, Invalid)
        return
    assert not isinstance(turn, Invalid)
    jsonschema.validate(msgspec.json.decode(said), TURN_SCHEMA.schema)
    assert said == play(message_of(dilemma))


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6_000).filter(str.strip),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=50), max_size=3),
    st.booleans(),
)
def test_any_text_has_its_turn(text: str, refinements: list[str], force: bool) -> None:
    if triggers(" ".join((text, *refinements))).codes:
        return
    request = DecideRequest(text=text, language="it", refinements=tuple(refinements), force_decision=force)
    turn = check(play(message_of(dilemma_of(request))), forced=force)
    if "\0" in text:  # which no front door lets in
        return
    decided = force or any(map(str.strip, refinements))
    assert isinstance(turn, Result if decided else Clarification)


def test_a_text_that_is_no_message_is_answered_too() -> None:
    assert isinstance(check(play("Treno o bus?"), forced=False), Clarification)
    assert stand_ins() == {"dilem_turn": play}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Treno o bus?", ("Treno", "bus")),
        ("Train, bus or car?", ("Train", "bus", "car")),
        ("O custo ou o tempo?", ("O custo", "o tempo")),
        ("Zug oder Bus, oder zu Fuß?", ("Zug", "Bus", "zu Fuß")),
        ("¿Tren o autobús?", ("Tren", "autobús")),
        ("Roma, Milano oppure Torino", ("Roma", "Milano", "Torino")),
        ("Bus o bus?", ()),
        ("Devo cambiare lavoro?", ()),
        ("Prima, poi, infine", ()),
        (" o ".join("abcdefghi"), ()),
        ("x" * 121 + " o y", ()),
    ],
)
def test_alternatives(text: str, found: tuple[str, ...]) -> None:
    assert alternatives(text) == found


@pytest.mark.parametrize(
    ("request_", "forced"),
    [
        (DecideRequest(text="a", language="it"), False),
        (DecideRequest(text="a", language="it", force_decision=True), True),
        (DecideRequest(text="a", language="it", clarification_count=19), False),
        (DecideRequest(text="a", language="it", clarification_count=20), True),
        (DecideRequest(text="a", language="it", refinements=("",) * 38), False),
        (DecideRequest(text="a", language="it", refinements=("",) * 39), True),
        (DecideRequest(text="a" * 4_000, language="it", refinements=("😀" * 6_000,) * 3), False),
        (DecideRequest(text="a" * 4_001, language="it", refinements=("😀" * 6_000,) * 3), True),
    ],
)
def test_when_no_question_may_be_asked_any_more(request_: DecideRequest, forced: bool) -> None:
    assert must_decide(request_) is forced


def test_the_message_is_written_with_every_letter_as_it_is() -> None:
    request = DecideRequest(text="Però «no» 🌶", language="de", refinements=(" ", "sì"))
    assert message_of(dilemma_of(request)) == (
        '{"text":"Però «no» 🌶","refinements":["sì"],"language":"de","force":false,"clarification_count":0}'
    )
