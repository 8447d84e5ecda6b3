"""What the port `Provider` promises holds for every provider, asked for the whole or for pieces."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import pytest_asyncio

from gateway.domain.completion import Turn
from gateway.domain.events import Metered, Piece, Stop
from gateway.domain.usage import Usage
from gateway.ports import Trouble
from gateway.providers.claude import Claude
from gateway.providers.openai import OpenAI
from tests.fakes import (
    SAMPLE,
    Behaviour,
    answer,
    cut_after,
    drop,
    empty,
    error_event,
    hang,
    html,
    huge,
    huge_error,
    quiet_end,
    redirect,
    refuse,
    say,
    slow,
    split_bytes,
    status,
    think,
    truncate,
    until,
    wrong_shape,
)
from tests.unit.providers.stage import Stage, call_of, open_stage, open_transport, outcome_of, target_of

REMOTE = ["claude", "openai"]


@pytest_asyncio.fixture(params=REMOTE)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(request.param) as stage:
        yield stage


@pytest_asyncio.fixture(params=[*REMOTE, "prova"])
async def any_stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(request.param) as stage:
        yield stage


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def watched(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# Answers


async def test_an_answer_ends_with_its_end(any_stage: Stage, watched: bool) -> None:
    any_stage.server.script(say("Sono le tre in punto."))

    told = await any_stage.ask(watched=watched)

    assert told.error is None
    assert told.stop is Stop.END
    assert told.text
    assert len(told.pieces) > 1 if watched else len(told.pieces) == 1
    assert told.usage.input_tokens > 0
    assert told.usage.output_tokens > 0


async def test_the_pieces_are_the_whole(any_stage: Stage) -> None:
    any_stage.server.script(say(SAMPLE, pieces=9), say(SAMPLE))

    pieces = await any_stage.ask(watched=True)
    whole = await any_stage.ask(watched=False)

    assert pieces.text == whole.text
    assert pieces.usage == whole.usage


async def test_pieces_are_told_as_they_come(stage: Stage) -> None:
    stage.server.script(say("uno due tre", pieces=["uno ", "due ", "tre"], delay=0.1))

    async with aclosing(stage.provider.stream(call_of(watched=True), target_of(stage.name))) as events:
        times = [time.monotonic() async for event in events if isinstance(event, Piece)]

    assert len(times) == 3
    assert times[2] - times[0] > 0.15


async def test_bytes_may_be_split_anywhere(stage: Stage, watched: bool) -> None:
    stage.server.script(split_bytes(SAMPLE))

    assert (await stage.ask(watched=watched)).text == SAMPLE


async def test_counts_are_disjoint(stage: Stage, watched: bool) -> None:
    stage.server.script(say("ciao", input_tokens=11, output_tokens=7, cache_read=300, cache_write=40))

    told = await stage.ask(watched=watched)

    assert told.usage == Usage(11, 7, cache_read_tokens=300, cache_write_tokens=40)


async def test_thinking_is_never_told(stage: Stage, watched: bool) -> None:
    stage.server.script(answer(think("segreto"), "Eccomi."))

    told = await stage.ask(watched=watched)

    assert told.text == "Eccomi."


async def test_several_blocks_of_text_are_one_answer(stage: Stage, watched: bool) -> None:
    stage.server.script(answer("Prima. ", "Poi."))

    assert (await stage.ask(watched=watched)).text == "Prima. Poi."


async def test_leading_white_space_stays_with_the_text(stage: Stage, watched: bool) -> None:
    stage.server.script(say("\n\n  ciao ", pieces=["\n", "\n  ", "ciao", " "]))

    told = await stage.ask(watched=watched)

    assert told.text == "\n\n  ciao "
    assert told.pieces[0].strip()


async def test_a_long_line_is_read(stage: Stage, watched: bool) -> None:
    """Longer than the HTTP client's own limit on lines, and than one of its buffers."""
    stage.server.script(say("x" * 600_000, pieces=1))

    assert len((await stage.ask(watched=watched)).text) == 600_000


async def test_a_conversation_is_asked(stage: Stage, watched: bool) -> None:
    before = (Turn("user", "Ciao"), Turn("assistant", "Ciao a te"))

    assert (await stage.ask(watched=watched, before=before, parameters="Rispondi in inglese.")).error is None


async def test_a_cut_by_tokens_is_told(any_stage: Stage, watched: bool) -> None:
    any_stage.server.script(truncate("Metà di una"))

    told = await any_stage.ask("Ciao a tutti [[prova:troncata]]", watched=watched)

    assert told.stop is Stop.TRUNCATED
    assert told.text


async def test_a_full_context_is_a_cut(watched: bool) -> None:
    async with open_stage("claude") as stage:
        stage.server.script(say("Metà", stop="model_context_window_exceeded"))

        assert (await stage.ask(watched=watched)).stop is Stop.TRUNCATED


@pytest.mark.parametrize("how", ["refusal", "filter"])
@pytest.mark.parametrize("begun", ["", "Ecco"])
async def test_a_refusal_is_told(any_stage: Stage, watched: bool, how: str, begun: str) -> None:
    any_stage.server.script(refuse(begun, how=how))  # type: ignore[arg-type]

    told = await any_stage.ask("[[prova:richiesta_rifiutata]]", watched=watched)

    assert told.error is None
    assert told.stop is Stop.REFUSED
    assert told.usage.input_tokens > 0


async def test_a_pause_is_no_answer(watched: bool) -> None:
    async with open_stage("claude") as stage:
        stage.server.script(say("Un momento", stop="pause_turn"))

        assert (await stage.ask(watched=watched)).trouble is Trouble.FAULTY


# No answers


NO_ANSWERS: dict[str, tuple[Behaviour, Trouble | set[Trouble]]] = {
    "html": (html(), Trouble.FAULTY),
    "html 502": (html(502), Trouble.FAULTY),
    "wrong shape": (wrong_shape(), Trouble.FAULTY),
    "quiet end": (quiet_end(2), Trouble.FAULTY),
    "quiet end after all pieces": (quiet_end(2, "ab"), Trouble.FAULTY),
    "cut": (cut_after(2), Trouble.UNREACHABLE),
    "cut without a reset": (cut_after(2, reset=False), Trouble.UNREACHABLE),
    "cut at once": (cut_after(0), Trouble.UNREACHABLE),
    "dropped": (drop(), Trouble.UNREACHABLE),
    "empty": (empty(), Trouble.FAULTY),
    "empty without thinking": (empty(thinking="", stop="end_turn"), Trouble.FAULTY),
    "blank": (say(" \n "), Trouble.FAULTY),
    "empty body": (status(200, body=b""), Trouble.FAULTY),
    "empty object": (status(200, body=b"{}"), Trouble.FAULTY),
    "null": (status(200, body=b"null"), Trouble.FAULTY),
    "no content": (status(204, body=b""), Trouble.FAULTY),
    "an error with status 200": (status(200, body={"error": {"type": "api_error"}}), Trouble.FAULTY),
    "broken compression": (
        status(200, body=b"\x1f\x8bnonsense", headers={"content-encoding": "gzip"}),
        {Trouble.FAULTY, Trouble.UNREACHABLE},
    ),
    "error in mid-stream": (error_event("overloaded_error", after=1), Trouble.OVERLOADED),
    "rate limit in mid-stream": (error_event("rate_limit_error", after=1), Trouble.OVERLOADED),
    "fault in mid-stream": (error_event("api_error", after=0), Trouble.FAULTY),
}


@pytest.mark.parametrize("case", NO_ANSWERS)
async def test_what_is_no_answer(stage: Stage, watched: bool, case: str) -> None:
    behaviour, trouble = NO_ANSWERS[case]
    stage.server.script(behaviour)

    told = await stage.ask(watched=watched)

    assert told.error is not None, told.events
    assert told.trouble in (trouble if isinstance(trouble, set) else {trouble})
    # The connection is not spoiled for the next one.
    assert (await stage.ask(watched=watched)).error is None


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("timeout_error", Trouble.TIMEOUT),
        ("invalid_request_error", Trouble.REJECTED),
        ("something_new", Trouble.REJECTED),
    ],
)
async def test_errors_in_the_stream_are_told_apart(stage: Stage, kind: str, trouble: Trouble) -> None:
    stage.server.script(error_event(kind, after=1))

    told = await stage.ask(watched=True)

    assert told.trouble is trouble
    assert told.text


async def test_what_was_consumed_is_told_even_of_no_answer(stage: Stage, watched: bool) -> None:
    stage.server.script(empty(output_tokens=900))

    told = await stage.ask(watched=watched)

    assert told.trouble is Trouble.FAULTY
    assert told.usage.output_tokens == 900
    assert isinstance(told.events[-1], Metered)


async def test_an_answer_beyond_32_mib_is_none(stage: Stage, watched: bool) -> None:
    stage.server.script(huge(33 * 1024 * 1024), say("ciao"))

    assert (await stage.ask(watched=watched)).trouble is Trouble.FAULTY
    assert (await stage.ask(watched=watched)).text == "ciao"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        *(
            (code, Trouble.REJECTED)
            for code in (300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 413, 422)
        ),
        *((code, Trouble.OVERLOADED) for code in (408, 409, 429, 503, 529)),
        *((code, Trouble.FAULTY) for code in (500, 501, 502, 520, 599)),
        (504, Trouble.TIMEOUT),
    ],
)
async def test_statuses(stage: Stage, watched: bool, code: int, trouble: Trouble) -> None:
    stage.server.script(status(code))

    told = await stage.ask(watched=watched)

    assert told.error is not None
    assert told.error.trouble is trouble
    assert told.error.status == code
    assert told.events == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)}, 3_600.0),
        ({"retry-after": format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "presto"}, None),
        ({}, None),
    ],
)
async def test_the_wait_a_provider_asks_for(
    stage: Stage, headers: dict[str, str], seconds: float | None
) -> None:
    stage.server.script(status(429, headers=headers))

    error = (await stage.ask()).error

    assert error is not None
    assert error.retry_after == (
        None if seconds is None else pytest.approx(seconds, abs=90 if seconds > 60 else 0)
    )


async def test_a_redirect_is_not_followed(stage: Stage, watched: bool) -> None:
    stage.server.script(redirect(f"{stage.server.url}/altrove"))

    assert (await stage.ask(watched=watched)).trouble is Trouble.REJECTED
    assert len(stage.server.seen) == 1


async def test_nobody_there(stage: Stage, watched: bool) -> None:
    stage.server.stop()

    assert (await stage.ask(watched=watched)).trouble is Trouble.UNREACHABLE


async def test_it_heals_when_the_provider_is_back(stage: Stage, watched: bool) -> None:
    assert (await stage.ask(watched=watched)).error is None
    stage.server.stop()
    assert (await stage.ask(watched=watched)).error is not None
    stage.server.start()

    assert (await stage.ask(watched=watched)).error is None


# Letting go


@pytest.mark.parametrize("when", ["before the head", "between pieces"])
async def test_who_stops_listening_closes_the_connection(stage: Stage, watched: bool, when: str) -> None:
    scripted = hang() if when == "before the head" else slow(SAMPLE, 60)
    stage.server.script(scripted)
    task = asyncio.create_task(stage.ask(watched=watched))
    await until(lambda: len(stage.server.seen) == 1)
    await asyncio.sleep(0.05)

    task.cancel()
    closed_from = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task

    seen = stage.server.seen[0]
    await until(lambda: seen.closed_at is not None)
    assert seen.closed_at is not None
    assert seen.closed_at - closed_from < 1


async def test_who_has_heard_enough_closes_the_connection(stage: Stage) -> None:
    stage.server.script(slow(SAMPLE, 60))

    async with aclosing(stage.provider.stream(call_of(watched=True), target_of(stage.name))) as events:
        async for event in events:
            if isinstance(event, Piece):
                break

    await until(lambda: stage.server.seen[0].closed_at is not None, timeout=1)


async def test_a_deadline_closes_the_connection(stage: Stage, watched: bool) -> None:
    stage.server.script(hang())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await stage.ask(watched=watched)

    await until(lambda: stage.server.seen[0].closed_at is not None, timeout=1)


async def test_a_sequence_never_begun_asks_nobody(stage: Stage, watched: bool) -> None:
    await stage.provider.stream(call_of(watched=watched), target_of(stage.name)).aclose()

    assert stage.server.seen == []


# Keys


@pytest.mark.parametrize("key", [None, "", "  ", "chiave\ncon a capo", "chiàve"])
async def test_without_a_usable_key_nobody_is_asked(key: str | None, watched: bool) -> None:
    async with open_transport() as transport:
        for provider in (
            Claude(transport, key, "http://127.0.0.1:9"),
            OpenAI(transport, key, "http://127.0.0.1:9/v1"),
        ):
            assert not provider.ready

            told = await outcome_of(provider, call_of(watched=watched), target_of(provider.name))

            assert told.error is not None
            assert told.error.trouble is Trouble.REJECTED
            variable = "ANTHROPIC_API_KEY" if provider.name == "claude" else "OPENAI_API_KEY"
            assert variable in told.error.reason
            if key and key.strip():
                assert key not in told.error.reason


async def test_a_key_is_taken_without_the_white_space_around_it() -> None:
    async with open_stage("claude") as stage:
        provider = Claude(stage.transport, f" {stage.server.key}\n", stage.server.url)

        assert (await outcome_of(provider, call_of(), target_of("claude"))).error is None


async def test_the_environment_gives_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "altra")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "altra")
    monkeypatch.setenv("OPENAI_API_KEY", "altra")
    for name in REMOTE:
        async with open_stage(name) as stage:
            assert (await stage.ask()).error is None
            assert "altra" not in str(stage.server.seen[0].headers)


@pytest.mark.parametrize("base", ["nessuno", "http://", "ftp://example.org", "http://127.0.0.1:99999", "::"])
async def test_a_base_url_that_is_none(base: str) -> None:
    async with open_transport() as transport:
        for provider in (Claude(transport, "k", base), OpenAI(transport, "k", base)):
            told = await outcome_of(provider, call_of(), target_of(provider.name))

            assert told.error is not None
            assert told.error.trouble is Trouble.REJECTED
            assert "BASE_URL" in told.error.reason


SECRET = "contenuto-riservato"


@pytest.mark.parametrize(
    "behaviour",
    [
        status(401, message=f"la chiave {SECRET} non va", kind="authentication_error"),
        status(400, message=SECRET, kind=SECRET),
        status(500, body=SECRET),
        status(200, body=f'{{"type": "message", "content": "{SECRET}"}}'),
        status(200, body=f'data: {{"type": "{SECRET}\n\n'),
        error_event(SECRET, after=1, message=SECRET),
        cut_after(1, SECRET),
        quiet_end(1, SECRET),
        drop(),
    ],
)
async def test_neither_key_nor_content_is_in_what_is_said_of_a_failure(
    stage: Stage, watched: bool, behaviour: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage.server.script(behaviour)  # type: ignore[arg-type]

    told = await stage.ask(SECRET, watched=watched)

    error: BaseException | None = told.error
    assert error is not None
    while error is not None:
        said = f"{error!s} {error!r} {vars(error)} {error.__notes__ if hasattr(error, '__notes__') else ''}"
        assert SECRET not in said
        assert stage.server.key not in said
        error = error.__cause__ or error.__context__
    assert SECRET not in caplog.text
    assert stage.server.key not in caplog.text


async def test_a_huge_error_body_is_not_read_to_its_end(stage: Stage, watched: bool) -> None:
    stage.server.script(huge_error(64 * 1024 * 1024))

    told = await stage.ask(watched=watched)

    assert told.trouble is Trouble.FAULTY
    await until(lambda: stage.server.seen[0].closed_at is not None)
