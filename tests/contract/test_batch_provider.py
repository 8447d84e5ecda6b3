"""What the port `BatchProvider` promises holds for every provider."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from gateway.domain.batches import (
    Ended,
    Gone,
    ItemAnswer,
    ItemFailure,
    ItemOutcome,
    ItemTrouble,
    Poll,
    Running,
)
from gateway.domain.calls import ModelCall
from gateway.domain.completion import Choice, Fields, PageCitation, Pdf, Shape
from gateway.domain.events import Stop
from gateway.domain.usage import Usage
from gateway.ports import BatchProvider, ProviderError, Trouble
from gateway.providers import errands, failures
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from gateway.providers.sandbox import Sandbox
from gateway.providers.sandbox.batches import KEPT_SECONDS
from tests.fakes import (
    CLAUDE_BATCHES,
    OPENAI_BATCHES,
    OPENAI_FILES,
    Behaviour,
    ClaudeServer,
    OpenAIServer,
    cite,
    cut_after,
    drop,
    empty,
    hang,
    html,
    huge_error,
    pause,
    quiet_end,
    redirect,
    refuse,
    say,
    status,
    text,
    truncate,
    wrong_shape,
)
from tests.unit.providers.stage import call_of, open_transport, target_of

NUMBER = "prt_0123456789ab"
REMOTE = ["claude", "openai"]
CREATE = {"claude": f"POST {CLAUDE_BATCHES}", "openai": f"POST {OPENAI_BATCHES}"}
LIST = {"claude": f"GET {CLAUDE_BATCHES}", "openai": f"GET {OPENAI_BATCHES}"}
STATE = {"claude": f"GET {CLAUDE_BATCHES}/x", "openai": f"GET {OPENAI_BATCHES}/x"}
RESULTS = {"claude": f"GET {CLAUDE_BATCHES}/x/results", "openai": f"GET {OPENAI_FILES}/x/content"}
UPLOAD = f"POST {OPENAI_FILES}"


class Stage(msgspec.Struct):
    """A provider, its fake, and how each thing is made to happen there; for `prova` the texts do it."""

    name: str
    provider: BatchProvider
    server: ClaudeServer | OpenAIServer
    folder: Path
    shape: Shape | None = None
    documents: tuple[str, ...] = ()

    async def submit(self, *texts: str | ModelCall, number: str = NUMBER) -> str:
        calls = [call_of(one, shape=self.shape) if isinstance(one, str) else one for one in texts]
        return await self.provider.submit(number, calls, target_of(self.name))

    async def poll(self, provider_id: str, total: int, number: str = NUMBER) -> Poll:
        return await self.provider.poll(
            provider_id, number, total, shape=self.shape, documents=self.documents
        )

    async def outcomes(self, provider_id: str, total: int) -> dict[int, ItemOutcome]:
        polled = await self.poll(provider_id, total)
        assert isinstance(polled, Ended)
        return polled.outcomes

    async def find(self, total: int, *, held: tuple[str, ...] = (), sent: float = 0.0) -> str | None:
        sent_at = datetime.now(UTC) - timedelta(seconds=sent)
        return await self.provider.find(NUMBER, sent_at, total, held)


@asynccontextmanager
async def open_stage(name: str, folder: Path) -> AsyncIterator[Stage]:
    server = OpenAIServer() if name == "openai" else ClaudeServer()
    with server:
        async with open_transport() as transport:
            providers: dict[str, Callable[[], BatchProvider]] = {
                "claude": lambda: Claude(transport, server.key, server.url),
                "openai": lambda: OpenAI(transport, server.key, server.url),
                "prova": lambda: Sandbox(folder / "prova"),
            }
            yield Stage(name, providers[name](), server, folder / "prova")
        assert server.refused == []


@pytest_asyncio.fixture(params=[*REMOTE, "prova"])
async def any_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(request.param, tmp_path) as stage:
        yield stage


@pytest_asyncio.fixture(params=REMOTE)
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(request.param, tmp_path) as stage:
        yield stage


@pytest_asyncio.fixture
async def claude(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage("claude", tmp_path) as stage:
        yield stage


@pytest_asyncio.fixture
async def openai(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage("openai", tmp_path) as stage:
        yield stage


@pytest_asyncio.fixture
async def prova(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage("prova", tmp_path) as stage:
        yield stage


async def failure_of(stage: Stage, *texts: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await stage.submit(*(texts or ("uno", "due")))
    assert stage.server.key not in str(caught.value)
    return caught.value


# Every provider


async def test_answers_by_position(any_stage: Stage) -> None:
    any_stage.server.batches.shuffled = True

    outcomes = await any_stage.outcomes(await any_stage.submit("uno", "due", "tre"), 3)

    assert sorted(outcomes) == [0, 1, 2]
    answers = [outcomes[position] for position in range(3)]
    assert all(isinstance(answer, ItemAnswer) for answer in answers)
    for position, answer in enumerate(answers):
        assert isinstance(answer, ItemAnswer)
        word = ("uno", "due", "tre")[position] if any_stage.name == "prova" else f"numero {position}"
        assert word in answer.text
        assert answer.stop is Stop.END
        assert answer.usage.input_tokens > 0
        assert answer.usage.output_tokens > 0


async def test_results_may_be_read_again(any_stage: Stage) -> None:
    provider_id = await any_stage.submit("uno", "due")

    assert await any_stage.outcomes(provider_id, 2) == await any_stage.outcomes(provider_id, 2)


async def test_it_runs_until_it_is_ready(any_stage: Stage) -> None:
    any_stage.server.batches.delay = 0.4
    provider_id = await any_stage.submit("uno [[prova:differito:0.4]]", "due [[prova:differito:0.1]]")

    assert await any_stage.poll(provider_id, 2) == Running()
    await asyncio.sleep(0.45)
    assert len(await any_stage.outcomes(provider_id, 2)) == 2


async def test_each_text_has_its_own_fate(any_stage: Stage) -> None:
    any_stage.server.batches.fates = {1: "errored", 2: "expired"}
    any_stage.server.batches.answers = {3: refuse()}
    texts = ("uno", "[[prova:fallisce]]", "[[prova:scade]]", "[[prova:richiesta_rifiutata]]", "cinque")

    outcomes = await any_stage.outcomes(await any_stage.submit(*texts), 5)

    assert isinstance(outcomes[0], ItemAnswer)
    assert outcomes[1] == ItemFailure(ItemTrouble.ERRORED)
    assert outcomes[2] == ItemFailure(ItemTrouble.EXPIRED)
    refused = outcomes[3]
    assert isinstance(refused, ItemFailure)
    assert refused.trouble is ItemTrouble.REFUSED
    assert refused.usage.input_tokens > 0
    assert isinstance(outcomes[4], ItemAnswer)


async def test_a_cut_by_tokens_is_told(any_stage: Stage) -> None:
    any_stage.server.batches.answers = {0: truncate("Metà di una")}

    outcome = (await any_stage.outcomes(await any_stage.submit("Ciao a tutti [[prova:troncata]]"), 1))[0]

    assert isinstance(outcome, ItemAnswer)
    assert outcome.stop is Stop.TRUNCATED


@pytest.mark.parametrize(
    ("shape", "written", "expected"),
    [
        (Fields(("nome", "totale €")), "nome: Rossi", '{"nome":'),
        (Choice(("fattura", "non «so»")), "una fattura", "fattura"),
    ],
)
async def test_forced_shapes_are_read(any_stage: Stage, shape: Shape, written: str, expected: str) -> None:
    any_stage.shape = shape

    outcome = (await any_stage.outcomes(await any_stage.submit(written), 1))[0]

    assert isinstance(outcome, ItemAnswer)
    assert outcome.text.startswith(expected)


async def test_half_a_shape_is_no_answer(any_stage: Stage) -> None:
    any_stage.shape = Fields(("nome",))
    any_stage.server.batches.answers = {0: truncate('{"nome": ["Ro')}

    outcome = (await any_stage.outcomes(await any_stage.submit("nome: Ro [[prova:troncata]]"), 1))[0]

    assert isinstance(outcome, ItemFailure)
    assert outcome.trouble is ItemTrouble.ERRORED


async def test_a_hundred_texts_of_which_the_rest_expire(any_stage: Stage) -> None:
    any_stage.server.batches.done = 42
    any_stage.server.batches.shuffled = True
    texts = [f"testo {n}" if n < 42 else "[[prova:scade]]" for n in range(100)]

    outcomes = await any_stage.outcomes(await any_stage.submit(*texts), 100)

    assert [isinstance(outcomes[n], ItemAnswer) for n in range(100)] == [True] * 42 + [False] * 58
    assert {outcomes[n] for n in range(42, 100)} == {ItemFailure(ItemTrouble.EXPIRED)}


async def test_what_nobody_knows_is_gone(any_stage: Stage) -> None:
    provider_id = await any_stage.submit("uno")
    if any_stage.name == "prova":
        provider_id = f"prova_{NUMBER}_1700000000"
    else:
        any_stage.server.batches.forget(provider_id)

    assert await any_stage.poll(provider_id, 1) == Gone()
    assert await any_stage.poll("../altro?x=1", 1) == Gone()


async def test_it_is_found_again(any_stage: Stage) -> None:
    provider_id = await any_stage.submit("uno", "due")
    await any_stage.submit("uno", "due", number="prt_ffffffffffff")

    assert await any_stage.find(2) == provider_id
    assert await any_stage.find(2, held=(provider_id,)) is None


async def test_what_was_never_accepted_is_not_found(any_stage: Stage) -> None:
    assert await any_stage.find(2) is None


@pytest.mark.parametrize(
    ("word", "behaviour", "code"),
    [
        ("ai_non_disponibile", status(529), 529),
        ("errore_ai", status(400), 400),
    ],
)
async def test_a_clear_refusal(any_stage: Stage, word: str, behaviour: Behaviour, code: int) -> None:
    if any_stage.name != "prova":
        any_stage.server.script(behaviour, on=CREATE[any_stage.name])

    error = await failure_of(any_stage, "uno", f"[[prova:{word}]]")

    assert error.status == code


# Submitting over the wire


async def test_what_is_watched_is_asked_whole(stage: Stage) -> None:
    provider_id = await stage.submit(call_of("uno", watched=True))

    assert len(await stage.outcomes(provider_id, 1)) == 1


async def test_what_cannot_have_arrived_is_told(stage: Stage) -> None:
    stage.server.stop()

    error = await failure_of(stage)

    assert error.trouble is Trouble.UNREACHABLE
    assert not error.sent


@pytest.mark.parametrize("base", ["ftp://example.org", "https://127.0.0.1:{port}"])
async def test_an_address_that_answers_nobody(stage: Stage, base: str) -> None:
    make = Claude if stage.name == "claude" else OpenAI
    async with open_transport() as transport:
        stage.provider = make(transport, stage.server.key, base.format(port=stage.server.port))

        assert not (await failure_of(stage)).sent
    assert stage.server.seen == []


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (aiohttp.ConnectionTimeoutError(), False),
        (aiohttp.ServerFingerprintMismatch(b"", b"", "", 0), False),
        (aiohttp.InvalidUrlClientError("x"), False),
        (aiohttp.ServerDisconnectedError(), True),
        (aiohttp.ClientOSError(), True),
        (aiohttp.SocketTimeoutError(), True),
    ],
)
def test_what_may_have_been_sent(error: aiohttp.ClientError, sent: bool) -> None:
    assert failures.of_connection(error).sent is sent


async def test_without_a_key_nothing_is_sent(stage: Stage) -> None:
    make = Claude if stage.name == "claude" else OpenAI
    async with open_transport() as transport:
        stage.provider = make(transport, None, stage.server.url)

        assert not (await failure_of(stage)).sent


AMBIGUOUS: dict[str, tuple[Behaviour, Trouble]] = {
    "dropped": (drop(), Trouble.UNREACHABLE),
    "html": (html(), Trouble.FAULTY),
    "html 502": (html(502), Trouble.FAULTY),
    "wrong shape": (wrong_shape(), Trouble.FAULTY),
    "empty": (status(200, body=b""), Trouble.FAULTY),
    "status 500": (status(500), Trouble.FAULTY),
    "status 504": (status(504), Trouble.TIMEOUT),
    "huge error": (huge_error(3_000_000), Trouble.FAULTY),
    "no name": (
        status(200, body={"id": "", "created_at": 1, "status": "", "request_counts": {}}),
        Trouble.FAULTY,
    ),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
async def test_accepted_but_the_reply_is_lost(stage: Stage, case: str) -> None:
    behaviour, trouble = AMBIGUOUS[case]
    batches = stage.server.batches
    stage.server.script(batches.lost(behaviour), on=CREATE[stage.name])
    if isinstance(stage.server, ClaudeServer):
        stage.server.batches.plant("msgbatch_x", ["altro-0", "altro-1"])

    error = await failure_of(stage)

    assert error.trouble is trouble
    assert error.sent
    assert error.status is None or error.status >= 500
    assert batches.created == 1, "sent once"
    found = await stage.find(2)
    assert found in batches.held
    assert len(await stage.outcomes(found, 2)) == 2


async def test_a_reply_cut_in_the_middle_is_ambiguous(stage: Stage) -> None:
    stage.server.script(cut_after(1), on=CREATE[stage.name])

    error = await failure_of(stage)

    assert error.sent
    assert stage.server.batches.created == 1
    assert await stage.find(2) is not None


async def test_a_reply_that_does_not_come_is_ambiguous(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"gateway.providers.{stage.name}.batches.submit_seconds", lambda _: 0.3)
    monkeypatch.setattr("gateway.providers.openai.batches.SUBMIT_SECONDS", 0.3)
    stage.server.script(stage.server.batches.lost(hang()), on=CREATE[stage.name])

    error = await failure_of(stage)

    assert error.trouble is Trouble.TIMEOUT
    assert error.sent
    assert error.status is None


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422, 429, 529])
async def test_a_clear_status_is_told(stage: Stage, code: int) -> None:
    stage.server.script(status(code, retry_after=3), on=CREATE[stage.name])

    error = await failure_of(stage)

    assert error.status == code
    assert error.retry_after == 3
    assert stage.server.batches.created == 0


async def test_a_redirect_takes_nothing(stage: Stage) -> None:
    stage.server.script(redirect(f"{stage.server.root}/altrove"), on=CREATE[stage.name])

    assert not (await failure_of(stage)).sent


async def test_large_bodies_are_handed_in(stage: Stage) -> None:
    texts = ["è" * 100_000] * 12

    assert len(await stage.outcomes(await stage.submit(*texts), 12)) == 12


def test_large_bodies_have_more_time() -> None:
    assert errands.submit_seconds(1_000) == 60
    assert errands.submit_seconds(30 * 1024 * 1024) == 90
    assert errands.submit_seconds(500 * 1024 * 1024) == 120


# Polling over the wire


async def test_duplicates_and_strangers_among_the_results(stage: Stage) -> None:
    batches = stage.server.batches
    batches.doubled = batches.strange = batches.shuffled = True

    outcomes = await stage.outcomes(await stage.submit("uno", "due", "tre"), 3)

    assert sorted(outcomes) == [0, 1, 2]
    assert all(isinstance(outcome, ItemAnswer) for outcome in outcomes.values())


NO_ANSWERS: dict[str, tuple[Behaviour, set[Trouble]]] = {
    "html": (html(), {Trouble.FAULTY}),
    "html 502": (html(502), {Trouble.FAULTY}),
    "wrong shape": (wrong_shape(), {Trouble.FAULTY}),
    "null": (status(200, body=b"null"), {Trouble.FAULTY}),
    "dropped": (drop(), {Trouble.UNREACHABLE}),
    "cut": (cut_after(1), {Trouble.UNREACHABLE}),
    "half": (quiet_end(1), {Trouble.FAULTY}),
    "unauthorised": (status(401), {Trouble.REJECTED}),
    "limited": (status(429), {Trouble.OVERLOADED}),
    "overloaded": (status(529), {Trouble.OVERLOADED}),
    "fault": (status(500), {Trouble.FAULTY}),
    "broken compression": (
        status(200, body=b"\x1f\x8bnonsense", headers={"content-encoding": "gzip"}),
        {Trouble.FAULTY, Trouble.UNREACHABLE},
    ),
}


@pytest.mark.parametrize("where", ["state", "results", "list"])
@pytest.mark.parametrize("case", NO_ANSWERS)
async def test_what_is_no_answer_may_be_asked_again(stage: Stage, where: str, case: str) -> None:
    behaviour, troubles = NO_ANSWERS[case]
    provider_id = await stage.submit("uno", "due")
    on = {"state": STATE, "results": RESULTS, "list": LIST}[where][stage.name]
    # What only asks is asked a second time by the HTTP client itself when a connection breaks.
    stage.server.script(*[behaviour] * (2 if case == "dropped" else 1), on=on)

    with pytest.raises(ProviderError) as caught:
        await (stage.find(2) if where == "list" else stage.poll(provider_id, 2))

    assert caught.value.trouble in troubles
    assert stage.server.unused == 0
    assert await stage.find(2) == provider_id
    assert len(await stage.outcomes(provider_id, 2)) == 2


@pytest.mark.parametrize("where", ["state", "results"])
async def test_nobody_waits_for_ever(stage: Stage, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider_id = await stage.submit("uno")
    stage.server.script(hang(), on={"state": STATE, "results": RESULTS}[where][stage.name])
    monkeypatch.setattr(asyncio, "timeout", _impatient(asyncio.timeout))

    with pytest.raises(ProviderError) as caught:
        await stage.poll(provider_id, 1)

    assert caught.value.trouble is Trouble.TIMEOUT


def _impatient(timeout: Callable[[float], asyncio.Timeout]) -> Callable[[float], asyncio.Timeout]:
    return lambda seconds: timeout(seconds / 60)


async def test_what_is_not_told_is_missing(stage: Stage) -> None:
    stage.server.batches.omitted = {1}

    assert sorted(await stage.outcomes(await stage.submit("uno", "due", "tre"), 3)) == [0, 2]


async def test_an_answer_of_nothing_is_an_error_with_its_usage(stage: Stage) -> None:
    stage.server.batches.answers = {0: empty(output_tokens=900), 1: say(" \n ")}

    outcomes = await stage.outcomes(await stage.submit("uno", "due", "tre"), 3)

    assert [isinstance(outcomes[n], ItemAnswer) for n in range(3)] == [False, False, True]
    empty_one = outcomes[0]
    assert isinstance(empty_one, ItemFailure)
    assert empty_one.trouble is ItemTrouble.ERRORED
    assert empty_one.usage.output_tokens == 900


async def test_counts_are_disjoint(stage: Stage) -> None:
    answer = say("ciao", input_tokens=11, output_tokens=7, cache_read=300, cache_write=40)
    stage.server.batches.answers = {0: answer}

    outcome = (await stage.outcomes(await stage.submit("uno"), 1))[0]

    assert outcome.usage == Usage(11, 7, cache_read_tokens=300, cache_write_tokens=40)


async def test_a_line_too_long_is_no_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "MOST_LINE_BYTES", 300_000)
    stage.server.batches.answers = {0: say("x" * 600_000), 1: say("y" * 100_000)}
    long, short = await stage.submit("uno"), await stage.submit("uno", "due", number="prt_2")
    del stage.server.batches.answers[0]

    assert len((await stage.provider.poll(short, "prt_2", 2, shape=None, documents=())).outcomes) == 2  # type: ignore[union-attr]
    stage.server.batches.answers[0] = say("x" * 600_000)
    with pytest.raises(ProviderError) as caught:
        await stage.poll(long, 1)
    assert caught.value.trouble is Trouble.FAULTY


async def test_every_page_of_the_list_is_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"gateway.providers.{stage.name}.batches._PAGE", 2)
    provider_id = await stage.submit("uno", "due")
    for n in range(5):
        await stage.submit("uno", number=f"prt_{n:012d}")

    assert await stage.find(2) == provider_id
    assert len([seen for seen in stage.server.seen if "limit=2" in seen.query]) == 3


async def test_the_list_is_not_read_beyond_its_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"gateway.providers.{stage.name}.batches._PAGE", 1)
    for n in range(5):
        name = f"batch_{n}"
        if isinstance(stage.server, ClaudeServer):
            stage.server.batches.plant(name, ["altro-0", "altro-1"], age=3_600 + n)
        else:
            stage.server.batches.plant(name, age=3_600 + n)

    assert await stage.find(2) is None
    assert len(stage.server.seen) == 1


async def test_the_key_goes_nowhere_else(stage: Stage) -> None:
    with ClaudeServer() as elsewhere:
        if isinstance(stage.server, ClaudeServer):
            stage.server.batches._root = lambda: elsewhere.root
        await stage.outcomes(await stage.submit("uno"), 1)

        assert elsewhere.seen == []


# Claude


async def test_citations_have_the_full_names(claude: Stage) -> None:
    name = "Contratto " + "x" * 600
    pdf = Pdf(name=name, data="JVBERi0xLjcKJSVFT0YK", pages=1)
    claude.documents = (name,)
    claude.server.batches.answers = {0: text("Sì.", citations=[cite("il canone", pages=(3, 4))])}

    outcome = (await claude.outcomes(await claude.submit(call_of("uno", attachments=(pdf,))), 1))[0]

    assert isinstance(outcome, ItemAnswer)
    assert outcome.citations == (PageCitation(name, 3, "il canone"),)


async def test_a_paused_answer_ends_with_what_there_is(claude: Stage) -> None:
    claude.server.batches.answers = {0: pause("Finora so questo.")}

    outcome = (await claude.outcomes(await claude.submit("uno"), 1))[0]

    assert isinstance(outcome, ItemAnswer)
    assert outcome.text == "Finora so questo."
    assert outcome.stop is Stop.TRUNCATED


async def test_what_has_not_ended_is_not_confirmed(claude: Stage) -> None:
    claude.server.batches.delay = 60
    provider_id = await claude.submit("uno", "due")

    assert await claude.find(2) is None
    claude.server.batches.end()
    assert await claude.find(2) == provider_id


@pytest.mark.parametrize("others", ["another size", "other names", "older", "newer"])
async def test_other_batches_are_not_ours(claude: Stage, others: str) -> None:
    assert isinstance(claude.server, ClaudeServer)
    ours = [f"{NUMBER}-0", f"{NUMBER}-1"]
    match others:
        case "another size":
            claude.server.batches.plant("msgbatch_x", [*ours, f"{NUMBER}-2"])
        case "other names":
            claude.server.batches.plant("msgbatch_x", [f"{NUMBER}c-0", f"{NUMBER}c-1"])
        case "older":
            claude.server.batches.plant("msgbatch_x", ours, age=90)
        case _:
            claude.server.batches.plant("msgbatch_x", ours)

    assert await claude.find(2, sent=700 if others == "newer" else 0) is None


async def test_cancelled_by_somebody(claude: Stage) -> None:
    claude.server.batches.delay = 60
    provider_id = await claude.submit("uno")
    claude.server.batches.held[provider_id].cancelled_at = time.time()

    assert await claude.poll(provider_id, 1) == Running()
    claude.server.batches.end()
    assert await claude.outcomes(provider_id, 1) == {0: ItemFailure(ItemTrouble.CANCELED)}


# OpenAI


@pytest.mark.parametrize("behaviour", [html(), html(502), status(500), drop(), wrong_shape(), status(529)])
async def test_an_upload_that_fails_has_handed_nothing_in(openai: Stage, behaviour: Behaviour) -> None:
    openai.server.script(behaviour, on=UPLOAD)

    error = await failure_of(openai)

    assert not error.sent or error.status == 529
    assert openai.server.batches.created == 0


async def test_an_upload_that_hangs_has_handed_nothing_in(
    openai: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.providers.openai.batches.submit_seconds", lambda _: 0.3)
    openai.server.script(hang(), on=UPLOAD)

    error = await failure_of(openai)

    assert error.trouble is Trouble.TIMEOUT
    assert not error.sent


async def test_attachments_are_not_passed_over(openai: Stage) -> None:
    pdf = Pdf(name="a.pdf", data="JVBERi0xLjcK", pages=1)

    with pytest.raises(ProviderError) as caught:
        await openai.submit(call_of("uno", attachments=(pdf,)))

    assert not caught.value.sent
    assert openai.server.seen == []


async def test_a_file_that_failed_validation(openai: Stage) -> None:
    assert isinstance(openai.server, OpenAIServer)
    openai.server.batches.failed = True

    outcomes = await openai.outcomes(await openai.submit("uno", "due"), 2)

    assert outcomes == dict.fromkeys(range(2), ItemFailure(ItemTrouble.ERRORED))


@pytest.mark.parametrize("running", ["validating", "in_progress", "finalizing", "cancelling"])
async def test_it_is_at_work(openai: Stage, running: str) -> None:
    assert isinstance(openai.server, OpenAIServer)
    openai.server.batches.delay, openai.server.batches.running = 60, running  # type: ignore[assignment]

    assert await openai.poll(await openai.submit("uno"), 1) == Running()


@pytest.mark.parametrize(
    ("fate", "trouble"), [("expired", ItemTrouble.EXPIRED), ("canceled", ItemTrouble.CANCELED)]
)
@pytest.mark.parametrize("silent", [False, True])
async def test_what_was_not_done(openai: Stage, fate: str, trouble: ItemTrouble, silent: bool) -> None:
    assert isinstance(openai.server, OpenAIServer)
    openai.server.batches.silent = silent
    openai.server.batches.fates = {1: fate, 2: "errored"}  # type: ignore[dict-item]

    outcomes = await openai.outcomes(await openai.submit("uno", "due", "tre"), 3)

    assert isinstance(outcomes[0], ItemAnswer)
    assert outcomes[1] == ItemFailure(trouble)
    assert outcomes[2] == ItemFailure(ItemTrouble.ERRORED)


async def test_files_that_are_gone(openai: Stage) -> None:
    openai.server.batches.fates = {1: "errored"}
    provider_id = await openai.submit("uno", "due")

    openai.server.script(status(404), status(404), on=RESULTS["openai"])
    assert await openai.poll(provider_id, 2) == Gone()
    openai.server.script(status(404), on=RESULTS["openai"])
    assert await openai.outcomes(provider_id, 2) == {1: ItemFailure(ItemTrouble.ERRORED)}


async def test_nothing_is_deleted_there(openai: Stage) -> None:
    await openai.outcomes(await openai.submit("uno"), 1)

    assert {seen.method for seen in openai.server.seen} == {"GET", "POST"}


# Prova


async def test_it_outlives_the_process(prova: Stage) -> None:
    provider_id = await prova.submit("uno")

    prova.provider = Sandbox(prova.folder)

    assert await prova.find(1) == provider_id
    assert len(await prova.outcomes(provider_id, 1)) == 1


async def test_files_are_for_the_owner_and_not_for_ever(prova: Stage) -> None:
    await prova.submit("uno", number="prt_1")
    old = prova.folder / "prt_1.json"
    assert prova.folder.stat().st_mode & 0o777 == 0o700
    assert old.stat().st_mode & 0o777 == 0o600
    os.utime(old, (time.time() - KEPT_SECONDS - 1,) * 2)

    await prova.submit("uno", number="prt_2")

    assert [path.name for path in prova.folder.iterdir()] == ["prt_2.json"]


async def test_what_another_machine_may_hold_is_not_gone(prova: Stage) -> None:
    with pytest.raises(ProviderError) as caught:
        await prova.poll(f"prova_{NUMBER}_{int(time.time())}", 1)

    assert caught.value.trouble is Trouble.UNREACHABLE


async def test_without_a_folder_nothing_is_taken() -> None:
    with pytest.raises(ProviderError) as caught:
        await Sandbox().submit(NUMBER, [call_of("uno")], target_of("prova"))

    assert not caught.value.sent


async def test_a_folder_that_cannot_be_written(prova: Stage) -> None:
    prova.folder.write_text("un file")

    assert not (await failure_of(prova)).sent


async def test_words_for_waiting_and_trying_again_do_nothing(prova: Stage) -> None:
    text = "uno [[prova:lento:300]] [[prova:tentativi:2]]"

    outcomes = await prova.outcomes(await prova.submit(text), 1)

    assert isinstance(outcomes[0], ItemAnswer)
