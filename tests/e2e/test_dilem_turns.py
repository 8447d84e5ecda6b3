"""A turn of Dilem over strict providers: one call, whatever fails; one repair; and every outcome paid and written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.dilem.contract import Clarification, DecideRequest, Error, Result
from gateway.dilem.decide import NotSentError
from gateway.dilem.errors import OUTCOME_UNKNOWN, DilemFailure
from gateway.dilem.turn_schema import TURN_SCHEMA
from gateway.domain.calls import Outcome
from gateway.domain.catalog import BrainFallback, ModelFallback, Reasoning
from gateway.domain.errors import StoreAwayError
from gateway.recipe_files import default_folder, read_recipes
from gateway.storage.calls import LedgerEntry
from tests.e2e.deciding import NOTICE, QUESTION, RESULT, DecidingStage, asked, deciding_stage, turning
from tests.e2e.surroundings import Fakes, Stores
from tests.fakes import (
    Behaviour,
    cut_after,
    drop,
    empty,
    error_event,
    hang,
    html,
    quiet_end,
    refuse,
    say,
    status,
    truncate,
    wrong_shape,
)
from tests.services import LOOPBACK, find_free_port


@pytest.fixture(scope="module")
def backend() -> str:
    """The stores have a part in the budget alone (test_dilem_budget.py)."""
    return "embedded"


@pytest.fixture
async def stage(stores: Stores, fakes: Fakes, tmp_path: Path) -> AsyncIterator[DecidingStage]:
    async with deciding_stage(stores, fakes, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["claude", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def code_of(told: object) -> str:
    assert isinstance(told, Error), told
    return told.code


def message_of(body: dict[str, Any]) -> dict[str, Any]:
    """What the model was told, of either provider's request."""
    decoded: dict[str, Any] = msgspec.json.decode(body["messages"][-1]["content"])
    return decoded


# --- what is asked and told -----------------------------------------------------------------------------------------


async def test_a_question_and_then_a_result(stage: DecidingStage, provider: str) -> None:
    brain = await stage.use(provider)
    stage.fake(provider).script(turning(QUESTION), turning(RESULT))
    text = "Perché non il treno? «sì» 🌶"
    question = await stage.turn(asked(text))
    assert isinstance(question, Clarification)
    assert (question.question, question.format, question.unit) == ("Quanti chilometri fai?", "number", "km")
    assert question.metrics == {"provider_calls": 1, "repairs": 0, "refinements": 0, "clarifications": 0}

    told = await stage.turn(asked(text, refinements=("Quanti?", " ", "10 km"), clarification_count=1))
    assert isinstance(told, Result)
    assert [option.probability for option in told.options] == [0.7, 0.3]
    assert told.sources == ()
    assert told.result_id is msgspec.UNSET
    assert told.models == {"decision": brain.principal}
    assert isinstance(told.timings, dict)
    assert told.timings.keys() == {"admission", "model", "validation", "total"}
    assert isinstance(told.metrics, dict)
    assert (told.metrics["options"], told.metrics["refinements"]) == (2, 2)

    first, second = stage.fake(provider).seen
    assert f'"text":"{text}"' in first.body["messages"][-1]["content"]  # as it was written, not escaped
    assert message_of(second.body) == {
        "text": text,
        "refinements": ["Quanti?", "10 km"],
        "language": "it",
        "force": False,
        "clarification_count": 1,
    }
    recipe = read_recipes(default_folder())["decide"]
    if provider == "claude":
        assert first.body["system"][0]["text"] == recipe.instructions
        assert first.body["output_config"]["format"]["schema"] == TURN_SCHEMA.schema
        assert first.body["max_tokens"] == recipe.max_tokens
    else:
        assert first.body["messages"][0]["content"] == recipe.instructions
        sent = {"name": "dilem_turn", "strict": True, "schema": TURN_SCHEMA.schema}
        assert first.body["response_format"]["json_schema"] == sent
        assert first.body["max_completion_tokens"] == recipe.max_tokens
        assert "temperature" not in first.body  # a model that reasons takes none
    rows = await stage.rows()
    assert [(row.project, row.by, row.recipe, row.outcome) for row in rows] == [
        ("dilem", "dilem", "decide", Outcome.OK)
    ] * 2
    assert all(row.cost > 0 and row.key_id is None for row in rows)
    assert await stage.spent() == sum(row.cost for row in rows)


async def test_an_older_model_is_asked_coolly(stage: DecidingStage) -> None:
    brain = await stage.use("openai", model="gpt-4.1")
    stage.fakes.openai.script(turning(RESULT))
    assert isinstance(await stage.turn(), Result)
    assert stage.fakes.openai.seen[0].body["temperature"] == 0.2
    assert brain.principal == "gpt-4.1"


async def test_a_brain_that_reasons_does_so(stage: DecidingStage, provider: str) -> None:
    await stage.use(provider, reasoning=Reasoning.MEDIUM)
    stage.fake(provider).script(turning(RESULT))
    assert isinstance(await stage.turn(), Result)
    [seen] = stage.fake(provider).seen
    assert seen.body.get("thinking") or seen.body.get("reasoning_effort") == "medium"


@pytest.mark.parametrize(
    "request_",
    [
        asked(force_decision=True),
        asked(clarification_count=20),
        asked(refinements=("a",) * 39),
        asked("x" * 6_000, refinements=("y" * 6_000, "y" * 6_000, "y" * 4_001)),
    ],
    ids=["wished", "twenty", "refinements", "characters"],
)
async def test_who_can_answer_no_more_is_asked_no_more(stage: DecidingStage, request_: DecideRequest) -> None:
    await stage.use()
    stage.fakes.claude.script(turning(QUESTION), turning(RESULT), turning(NOTICE))
    assert isinstance(await stage.turn(request_), Result)
    first, second = stage.fakes.claude.seen
    assert message_of(first.body)["force"] is True
    assert "no question may be asked" in message_of(second.body)["repair"]["problems"][0]
    notice = await stage.turn(request_)
    assert isinstance(notice, Clarification)
    assert notice.purpose == "insufficient_evidence"


async def test_before_that_questions_may_be_asked(stage: DecidingStage) -> None:
    await stage.use()
    stage.fakes.claude.script(turning(QUESTION))
    request = asked("x" * 6_000, refinements=("y" * 6_000, "y" * 6_000, "y" * 4_000), clarification_count=19)
    assert isinstance(await stage.turn(request), Clarification)
    assert message_of(stage.fakes.claude.seen[0].body)["force"] is False


# --- one call -------------------------------------------------------------------------------------------------------

FAILURES: list[tuple[str, Behaviour]] = [
    ("500", status(500)),
    ("502", status(502)),
    ("503", status(503)),
    ("504", status(504)),
    ("408", status(408)),
    ("409", status(409)),
    ("400", status(400)),
    ("401", status(401)),
    ("429", status(429)),
    ("529", status(529)),
    ("html", html()),
    ("html 502", html(502)),
    ("reset", drop()),
    ("half a JSON", quiet_end(1)),
    ("cut", cut_after(1)),
    ("error", error_event("api_error")),
    ("wrong shape", wrong_shape()),
    ("no body", status(200, body=b"")),
]


async def test_a_turn_that_fails_is_asked_once(stage: DecidingStage, provider: str) -> None:
    brain = await stage.use(provider)
    fake = stage.fake(provider)
    for name, behaviour in FAILURES:
        await stage.change(brain=brain.name)
        before, rows = len(fake.seen), len(await stage.rows())
        fake.script(behaviour)
        assert code_of(await stage.turn()) == "provider_error", name
        assert len(fake.seen) == before + 1, name
        row = (await stage.rows())[-1]
        assert len(await stage.rows()) == rows + 1, name
        assert (row.outcome, len(row.attempts)) == (Outcome.FAILED, 1), name
    assert await stage.spent() == sum(row.cost for row in await stage.rows())


async def test_the_reserve_is_asked_only_after_a_clear_refusal_to_serve(
    stage: DecidingStage, provider: str
) -> None:
    reserve = f"{provider}-reserve"
    stage.teach(provider, reserve)
    await stage.desk.price(reserve, 1.0, 5.0)
    brain = await stage.use(provider, fallback=ModelFallback(reserve))
    fake = stage.fake(provider)
    for name, behaviour in FAILURES:
        await stage.change(brain=brain.name)
        before = len(fake.seen)
        fake.script(behaviour)
        fake.default = lambda _: turning(RESULT)
        told = await stage.turn()
        asked_models = [seen.body["model"] for seen in fake.seen[before:]]
        if name in ("429", "529"):
            assert isinstance(told, Result), name
            assert told.models == {"decision": reserve}
            assert isinstance(told.metrics, dict)
            assert told.metrics["provider_calls"] == 2
            assert asked_models == [brain.principal, reserve]
        else:
            assert code_of(told) == "provider_error", name
            assert asked_models == [brain.principal], name


async def test_the_reserve_is_asked_once_too(stage: DecidingStage) -> None:
    await stage.use(fallback=BrainFallback("Pepper 6 · OpenAI"))
    stage.fakes.claude.script(status(529))
    stage.fakes.openai.script(status(500))
    assert code_of(await stage.turn()) == "provider_error"
    assert (len(stage.fakes.claude.seen), len(stage.fakes.openai.seen)) == (1, 1)


async def test_the_deadline_is_the_turns(stage: DecidingStage, provider: str) -> None:
    reserve = f"{provider}-reserve"
    stage.teach(provider, reserve)
    await stage.desk.price(reserve, 1.0, 5.0)
    await stage.use(provider, fallback=ModelFallback(reserve))
    stage.fake(provider).script(hang(60))
    assert code_of(await stage.turn(seconds=0.7)) == "provider_timeout"
    assert len(stage.fake(provider).seen) == 1
    [row] = await stage.rows()
    assert row.outcome is Outcome.FAILED


async def test_a_refusal_is_told_and_paid(stage: DecidingStage, provider: str) -> None:
    await stage.use(provider, fallback=BrainFallback("Pepper 6"))
    stage.fake(provider).script(refuse("Non posso."))
    assert code_of(await stage.turn()) == "provider_refused"
    [row] = await stage.rows()
    assert row.outcome is Outcome.REFUSED
    assert await stage.spent() == row.cost > 0


# --- nothing was sent -----------------------------------------------------------------------------------------------


async def test_what_never_arrived_may_go_to_the_reserve_and_else_is_undone(
    stores: Stores, fakes: Fakes, tmp_path: Path
) -> None:
    nobody = {"ANTHROPIC_BASE_URL": f"http://{LOOPBACK}:{find_free_port()}"}
    async with deciding_stage(stores, fakes, tmp_path, nobody) as stage:
        await stage.use(fallback=BrainFallback("Pepper 6 · OpenAI"))
        fakes.openai.script(turning(RESULT))
        assert isinstance(await stage.turn(), Result)
        await stage.use()
        with pytest.raises(NotSentError) as caught:
            await stage.turn()
        assert caught.value.body().code == "service_unavailable"
        assert await stage.spent() == sum(row.cost for row in await stage.rows())


async def test_without_a_key_nothing_is_sent(stores: Stores, fakes: Fakes, tmp_path: Path) -> None:
    async with deciding_stage(stores, fakes, tmp_path, {"ANTHROPIC_API_KEY": ""}) as stage:
        await stage.use()
        with pytest.raises(NotSentError) as caught:
            await stage.turn()
        assert caught.value.code.status == 503


async def test_a_database_away_before_a_turn_undoes_it(stage: DecidingStage) -> None:
    await stage.use()
    stage.core.current.lost()
    with pytest.raises(NotSentError) as caught:
        await stage.turn()
    assert caught.value.body().code == "service_unavailable"
    assert caught.value.retry_after == 5
    assert stage.fakes.claude.seen == []


async def test_a_ledger_that_nobody_takes_leaves_the_outcome_unknown(
    stage: DecidingStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: LedgerEntry, told: Callable[[Exception], None]) -> None:
        told(StoreAwayError("gone"))

    await stage.use()
    stage.fakes.claude.script(turning(RESULT))
    with monkeypatch.context() as patched:
        patched.setattr(stage.core.ledger, "put", refused)
        with pytest.raises(DilemFailure) as caught:
            await stage.turn()
    assert caught.value.code is OUTCOME_UNKNOWN
    assert not isinstance(caught.value, NotSentError)


async def test_what_the_model_can_not_hold_is_refused_before(stage: DecidingStage) -> None:
    await stage.use("openai", model="gpt-4")
    with pytest.raises(NotSentError) as caught:
        await stage.turn()
    assert (caught.value.code.status, caught.value.code.code) == (413, "provider_payload_too_large")
    assert stage.fakes.openai.seen == []
    assert await stage.rows() == []


async def test_a_disabled_project_is_no_service(stage: DecidingStage) -> None:
    await stage.change(active=False)
    with pytest.raises(NotSentError) as caught:
        await stage.turn()
    assert caught.value.code.status == 503
    assert not await stage.deciding().affordable()


# --- repair ---------------------------------------------------------------------------------------------------------

INVALID: list[tuple[str, Behaviour]] = [
    ("prose", say("Io prenderei il treno.")),
    ("weights", turning(RESULT | {"selected": "bus"})),
    ("truncated", truncate('{"turn": {"type": "result", "summary": "Tre')),
    ("all thought", empty()),
]


@pytest.mark.parametrize(("name", "behaviour"), INVALID, ids=[name for name, _ in INVALID])
async def test_an_answer_that_is_no_turn_is_repaired_once(
    stage: DecidingStage, provider: str, name: str, behaviour: Behaviour
) -> None:
    brain = await stage.use(provider)
    stage.fake(provider).script(behaviour, turning(RESULT))
    told = await stage.turn(request_id=f"repaired-{provider}-{name}")
    assert isinstance(told, Result)
    assert told.models == {"decision": brain.principal, "repair": brain.principal}
    assert isinstance(told.metrics, dict)
    assert (told.metrics["repairs"], told.metrics["provider_calls"]) == (1, 2)
    assert isinstance(told.timings, dict)
    assert "repair" in told.timings
    first, second = stage.fake(provider).seen
    repair = message_of(second.body).pop("repair")
    assert repair.keys() == {"answer", "problems"}
    assert repair["problems"]
    assert message_of(first.body) == {k: v for k, v in message_of(second.body).items() if k != "repair"}
    rows = await stage.rows()
    assert len(rows) == 2
    assert await stage.spent() == sum(row.cost for row in rows) > rows[0].cost

    stage.fake(provider).script(behaviour, behaviour)
    assert code_of(await stage.turn()) == "model_output_invalid"
    assert stage.fake(provider).unused == 0
    assert len(await stage.rows()) == 4


async def test_there_is_no_repair_without_time(stage: DecidingStage) -> None:
    await stage.use()
    stage.fakes.claude.script(say("No."))
    assert code_of(await stage.turn(seconds=24.9)) == "model_output_invalid"
    assert len(stage.fakes.claude.seen) == 1


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (status(500), "provider_error"),
        (refuse("No."), "provider_refused"),
        (drop(), "provider_error"),
    ],
)
async def test_a_repair_that_fails_is_not_asked_again(
    stage: DecidingStage, behaviour: Behaviour, code: str
) -> None:
    await stage.use()
    stage.fakes.claude.script(say("No."), behaviour)
    assert code_of(await stage.turn()) == code
    assert len(stage.fakes.claude.seen) == 2


# --- who leaves, and the sandbox ------------------------------------------------------------------------------------


async def test_two_turns_at_once_are_two_calls(stage: DecidingStage) -> None:
    await stage.use()
    stage.fakes.claude.default = lambda _: turning(RESULT)
    told = await asyncio.gather(*(stage.turn() for _ in range(5)))
    assert all(isinstance(each, Result) for each in told)
    assert len(stage.fakes.claude.seen) == len(await stage.rows()) == 5


async def test_every_outcome_has_its_word(stage: DecidingStage) -> None:
    await stage.change(sandbox=True)

    async def turn(text: str, *refinements: str, seconds: float = 95.0) -> object:
        try:
            return await stage.turn(asked(text, refinements=refinements), seconds=seconds)
        except DilemFailure as failure:
            return failure

    question = await turn("Treno o bus?")
    assert isinstance(question, Clarification)
    assert (question.format, len(question.choices)) == ("single", 3)
    told = await turn("Treno o bus?", "Che cosa conta? Il tempo")
    assert isinstance(told, Result)
    assert [option.label for option in told.options] == ["Treno", "bus"]
    assert isinstance(await turn("[[prova:risultato]]"), Result)
    assert isinstance(await turn("[[prova:risultato]]", "[[prova:chiarimento]]"), Clarification)
    for word, purpose in (
        ("ambito", "decision_scope"),
        ("avviso_ambito", "scope_notice"),
        ("prove_insufficienti", "insufficient_evidence"),
    ):
        notice = await turn(f"Treno o bus? [[prova:{word}]]")
        assert isinstance(notice, Clarification)
        assert notice.purpose == purpose
        assert "prova:" not in notice.summary
    repaired = await turn("[[prova:json_riparato]]", "ecco")
    assert isinstance(repaired, Result)
    assert isinstance(repaired.metrics, dict)
    assert repaired.metrics["repairs"] == 1
    for word, code in (
        ("json_invalido", "model_output_invalid"),
        ("troncata", "model_output_invalid"),
        ("richiesta_rifiutata", "provider_refused"),
        ("errore_ai", "provider_error"),
        ("ai_non_disponibile", "provider_error"),
        ("tentativi:1", "provider_error"),
        ("taglio:0", "provider_error"),
    ):
        assert code_of(await turn(f"Treno o bus? [[prova:{word}]]")) == code, word
    assert code_of(await turn("[[prova:lento:5]]", seconds=0.2)) == "provider_timeout"
    for word, code in (
        ("non_inviata", "service_unavailable"),
        ("budget_esaurito", "budget_exhausted"),
        ("contenuto_troppo_grande", "provider_payload_too_large"),
    ):
        failure = await turn(f"[[prova:{word}]]")
        assert isinstance(failure, NotSentError), word
        assert failure.code.code == code
    unknown = await turn("[[prova:errore_interno]]")
    assert isinstance(unknown, DilemFailure)
    assert unknown.code is OUTCOME_UNKNOWN
    assert stage.fakes.claude.seen == stage.fakes.openai.seen == []
    assert await stage.spent() == 0
