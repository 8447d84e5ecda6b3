"""The provider `prova` is deterministic and does what the trigger words say."""

import asyncio
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.catalog import Target
from gateway.domain.completion import Choice, Fields, JsonSchema, Shape, Turn
from gateway.domain.errors import INTERNAL_ERROR, Failure
from gateway.domain.events import Stop
from gateway.domain.sandbox import Triggers, triggers, without_triggers
from gateway.domain.usage import Usage
from gateway.ports import Trouble
from gateway.providers.sandbox import Sandbox
from gateway.providers.sandbox.answers import pieces_of
from tests.unit.providers.stage import Outcome, call_of, outcome_of, target_of

TARGET: Target = target_of("prova")


async def ask(
    content: str, *, provider: Sandbox | None = None, watched: bool = True, **how: object
) -> Outcome:
    call = call_of(content, watched=watched, **how)  # type: ignore[arg-type]
    return await outcome_of(provider or Sandbox(), call, TARGET)


# The words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ciao", Triggers()),
        ("prima [[prova:budget_esaurito]] poi", Triggers(codes=("budget_esaurito",))),
        ("[[prova:errore_ai]][[prova:troncata]]", Triggers(codes=("errore_ai", "troncata"))),
        ("[[prova:lento:5]]", Triggers(silence=5.0)),
        ("[[prova:lento:0.25]]", Triggers(silence=0.25)),
        ("[[prova:lento:9999]]", Triggers(silence=300.0)),
        ("[[prova:pezzi:200]]", Triggers(pieces=200)),
        ("[[prova:pezzi:0]]", Triggers(pieces=1)),
        ("[[prova:pezzi:999999999]]", Triggers(pieces=10_000)),
        ("[[prova:taglio:0]]", Triggers(cut_after=0)),
        ("[[prova:tentativi:2]]", Triggers(failing_attempts=2)),
        ("[[prova:usa:10:20]]", Triggers(tokens=(10, 20))),
        ("[[prova:ricerca:2]]", Triggers(searches=2)),
        ("[[prova:differito:90]]", Triggers(deferral=90.0)),
        ("[[prova:differito:999999]]", Triggers(deferral=86_400.0)),
        ("[[prova:scade]]", Triggers(codes=("scade",))),
        ("[[prova:ricerca:999]]", Triggers(searches=100)),
        ("[[prova:usa:10]] [[prova:lento:1:2]] [[prova:lento:x]] [[prova:lento:1.2.3]]", Triggers()),
        ("[[prova:lento:1]] [[prova:lento:2]]", Triggers(silence=2.0)),
        ("[[prova:]] [[prova: errore_ai]] [prova:errore_ai] [[PROVA:errore_ai]]", Triggers()),
    ],
)
def test_words(text: str, found: Triggers) -> None:
    assert triggers(text) == found


@given(st.text())
def test_any_text_has_some_or_no_words(text: str) -> None:
    found = triggers(f"[[prova:{text}]]")

    assert 0 <= found.silence <= 300


def test_a_text_without_its_words() -> None:
    assert without_triggers(" uno [[prova:lento:1]] due [[prova:x]]") == "uno  due"


def test_many_words_are_found_fast() -> None:
    started = time.monotonic()
    triggers("[[prova:" * 12_500)
    assert time.monotonic() - started < 1


# Answers


async def test_the_same_call_has_the_same_answer() -> None:
    first, second = await ask("Buongiorno a tutti"), await ask("Buongiorno a tutti")

    assert first == second
    assert "«Buongiorno a tutti»" in first.text
    assert "3 parole e 18 caratteri" in first.text


async def test_all_that_is_asked_makes_a_difference() -> None:
    calls = [
        await ask("Ciao"),
        await ask("Ciao!"),
        await ask("Ciao", instructions="Altre istruzioni."),
        await ask("Ciao", parameters="In inglese."),
        await ask("Ciao", before=(Turn("user", "a"), Turn("assistant", "b"))),
    ]

    assert len({told.text for told in calls}) == len(calls)


async def test_a_long_text_is_quoted_in_part() -> None:
    told = await ask("parola " * 10_000)

    assert len(told.text) < 400
    assert "10000 parole" in told.text


async def test_nobody_writes_more_than_the_tokens_of_the_call() -> None:
    told = await ask("Ciao a tutti quanti", answer_tokens=5)

    assert told.stop is Stop.TRUNCATED
    assert len(told.text) <= 20


async def test_the_text_is_as_long_as_its_half_when_cut() -> None:
    whole, half = await ask("Ciao"), await ask("Ciao [[prova:troncata]]")

    assert half.stop is Stop.TRUNCATED
    assert whole.text.startswith(half.text)


@pytest.mark.parametrize("count", [1, 2, 7, 200, 10_000])
async def test_pieces_as_wanted(count: int) -> None:
    told = await ask(f"Ciao [[prova:pezzi:{count}]]", answer_tokens=50)
    whole = await ask(f"Ciao [[prova:pezzi:{count}]]", answer_tokens=50, watched=False)

    assert len(told.pieces) == count
    assert told.stop is Stop.END
    assert told.text == whole.text


@given(st.text(min_size=1), st.integers(1, 300))
def test_any_text_falls_into_any_number_of_pieces(text: str, count: int) -> None:
    pieces = pieces_of(text, count)

    assert len(pieces) == count
    assert "".join(pieces).startswith(text)
    assert "".join(pieces_of(text, None)) == text


async def test_tokens_as_wanted() -> None:
    assert (await ask("[[prova:usa:1234:567]]")).usage == Usage(1234, 567)


async def test_silence_as_wanted() -> None:
    started = time.monotonic()
    told = await ask("[[prova:lento:0.2]]")

    assert told.error is None
    assert 0.2 <= time.monotonic() - started < 2


async def test_silence_can_be_broken_off() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ask("[[prova:lento:300]]")


# Errors


@pytest.mark.parametrize("watched", [False, True])
async def test_a_cut_as_wanted(watched: bool) -> None:
    told = await ask("[[prova:taglio:2]]", watched=watched)

    assert told.trouble is Trouble.UNREACHABLE
    assert len(told.pieces) == (2 if watched else 0)
    assert told.usage.input_tokens > 0


async def test_a_cut_after_all_pieces_comes_before_the_end() -> None:
    told = await ask("[[prova:pezzi:2]] [[prova:taglio:50]]")

    assert told.trouble is Trouble.UNREACHABLE
    assert len(told.pieces) == 2


async def test_errors_as_wanted() -> None:
    rejected = await ask("[[prova:errore_ai]]")
    away = await ask("[[prova:ai_non_disponibile]]")

    assert rejected.trouble is Trouble.REJECTED
    assert away.trouble is Trouble.OVERLOADED
    assert away.error is not None
    assert away.error.retry_after is not None
    assert away.error.retry_after > 300


async def test_words_of_the_chain_are_left_to_it() -> None:
    assert (await ask("[[prova:budget_esaurito]]")).error is None


async def test_attempts_fail_as_wanted_and_then_one_answers() -> None:
    provider = Sandbox()
    told = [await ask("[[prova:tentativi:2]]", provider=provider, request_id="r1") for _ in range(3)]
    other = await ask("[[prova:tentativi:1]]", provider=provider, request_id="r2")

    assert [one.trouble for one in told] == [Trouble.FAULTY, Trouble.FAULTY, None]
    assert other.trouble is Trouble.FAULTY


async def test_requests_that_never_come_back_are_forgotten() -> None:
    provider = Sandbox()
    for number in range(1_100):
        await ask("[[prova:tentativi:9]]", provider=provider, request_id=f"r{number}")

    assert len(provider._failed) <= 1_000


# Shapes


async def shaped(shape: Shape, content: str) -> str:
    told = await ask(content, shape=shape)
    assert told.error is None
    assert len(told.pieces) == 1
    return told.text


async def test_fields_are_read_from_the_text() -> None:
    names = ("nome", "Codice Fiscale", "ora: inizio", "età", "vuoto", 'a "b"')
    content = 'Nome: Ada Rossi\ncodice fiscale:  RSSDAA\nora: inizio: 9:30\nnome: Bea\nvuoto:\na "b": sì\n[[prova:x]]'

    assert msgspec.json.decode(await shaped(Fields(names), content)) == {
        "nome": "Ada Rossi",
        "Codice Fiscale": "RSSDAA",
        "ora: inizio": "9:30",
        "età": None,
        "vuoto": None,
        'a "b"': "sì",
    }


async def test_the_category_named_in_the_text_is_chosen() -> None:
    shape = Choice(("positivo", "negativo", "misto"))

    assert await shaped(shape, "Un parere NEGATIVO") == "negativo"
    assert await shaped(shape, "Chissà") == await shaped(shape, "Chissà")
    assert await shaped(shape, "Chissà") in shape.options


# A schema of somebody's own


def schema_of(**properties: Any) -> JsonSchema:
    return JsonSchema("prova", {"type": "object", "properties": properties})


async def test_a_schema_without_a_stand_in_is_filled_in() -> None:
    schema = schema_of(
        a={"type": "string"},
        b={"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        c={"const": True},
        d={"enum": ["x", "y"]},
        e={"type": "object", "properties": {}},
        f={"type": "null"},
    )
    assert json.loads(await shaped(schema, "Ciao")) == {
        "a": "prova",
        "b": [0],
        "c": True,
        "d": "x",
        "e": {},
        "f": None,
    }


@pytest.mark.parametrize(
    "inner", [{"$ref": "#/$defs/a"}, {"type": ["string", "null"]}, {}, True, {"allOf": [{"type": "string"}]}]
)
async def test_a_schema_that_is_not_understood_is_refused(inner: Any) -> None:
    told = await ask("Ciao", shape=schema_of(a=inner))
    assert told.trouble is Trouble.REJECTED


async def test_a_stand_in_sees_the_text_with_its_words() -> None:
    provider = Sandbox(stand_ins={"prova": lambda text: f"<{text}>"})
    told = await ask("[[prova:usa:1:2]] ciao", provider=provider, shape=schema_of())
    assert told.text == "<[[prova:usa:1:2]] ciao>"
    assert (told.usage.input_tokens, told.usage.output_tokens) == (1, 2)


async def test_nothing_sent_and_a_fault_as_wanted() -> None:
    unsent = await ask("[[prova:non_inviata]]")
    assert unsent.error is not None
    assert unsent.error.declined
    assert not unsent.error.sent
    with pytest.raises(Failure) as caught:
        await ask("[[prova:errore_interno]]")
    assert caught.value.fault is INTERNAL_ERROR
