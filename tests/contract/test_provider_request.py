"""A hot call leaves exactly as the provider's own SDK would send it: address, headers and body."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import pytest_asyncio

from gateway.domain.catalog import THINKING_ALLOWANCE, Reasoning
from gateway.domain.completion import Choice, Fields, Shape, Turn
from gateway.providers.shapes import form_of
from tests.fakes import Seen, say
from tests.unit.providers.stage import Stage, open_stage

BEFORE = (Turn("user", "Ciao, come va?"), Turn("assistant", "Bene, grazie."))
SHAPES: list[Shape | None] = [None, Fields(("nome", "data di nascita")), Choice(("sì", "no"))]
TIMEOUT = httpx2.Timeout(300.0, connect=5.0)

Send = Callable[[Stage, dict[str, Any]], Awaitable[object]]


@pytest_asyncio.fixture(params=["claude", "openai"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(request.param) as stage:
        stage.server.default = say("sì")
        yield stage


def wire_of(seen: Seen) -> dict[str, Any]:
    # The length follows from the body, and the order of its fields is nobody's business.
    headers = {name: value for name, value in seen.headers.items() if name != "content-length"}
    return {
        "method": seen.method,
        "path": seen.path,
        "query": seen.query,
        "headers": headers,
        "body": seen.body,
    }


async def sdk_sends(stage: Stage, **fields: Any) -> None:
    """Ask the same through the public method of the SDK, on the client it recommends."""
    if stage.name == "claude":
        async with anthropic.AsyncAnthropic(
            api_key=stage.server.key,
            base_url=stage.server.url,
            max_retries=0,
            timeout=TIMEOUT,
            http_client=anthropic.DefaultAioHttpClient(),
        ) as claude:
            await read(await claude.messages.create(**fields))
        return
    async with openai.AsyncOpenAI(
        api_key=stage.server.key,
        base_url=stage.server.url,
        max_retries=0,
        timeout=TIMEOUT,
        http_client=openai.DefaultAioHttpClient(),
    ) as chat:
        await read(await chat.chat.completions.create(**fields))


async def read(told: Any) -> None:
    if isinstance(told, anthropic.AsyncStream | openai.AsyncStream):
        async for _ in told:
            pass


@pytest.mark.parametrize("shape", SHAPES, ids=["free", "fields", "choice"])
@pytest.mark.parametrize("reasoning", list(Reasoning))
@pytest.mark.parametrize("watched", [False, True], ids=["whole", "pieces"])
async def test_it_is_the_sdks_request(
    stage: Stage, watched: bool, reasoning: Reasoning, shape: Shape | None
) -> None:
    how: dict[str, Any] = {
        "before": BEFORE,
        "parameters": "In inglese.",
        "shape": shape,
        "answer_tokens": 700,
    }
    await stage.ask("Vero?", watched=watched, reasoning=reasoning, **how)
    form = form_of(shape)
    fields = claude_fields(reasoning) if stage.name == "claude" else openai_fields(reasoning)
    if form is not None and stage.name == "claude":
        fields.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": form.schema}
    elif form is not None:
        schema = {"name": "risposta", "strict": True, "schema": form.schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if watched:
        fields["stream"] = True
        if stage.name == "openai":
            fields["stream_options"] = {"include_usage": True}

    await sdk_sends(stage, **fields)

    ours, theirs = stage.server.seen
    assert wire_of(ours) == wire_of(theirs)


def claude_fields(reasoning: Reasoning) -> dict[str, Any]:
    breakpoint_ = {"type": "ephemeral"}
    fields: dict[str, Any] = {
        "model": "claude-opus-5",
        "max_tokens": 700 + THINKING_ALLOWANCE[reasoning],
        "system": [
            {"type": "text", "text": "Rispondi in breve.", "cache_control": breakpoint_},
            {"type": "text", "text": "In inglese."},
        ],
        "messages": [
            {"role": "user", "content": "Ciao, come va?"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "Bene, grazie.", "cache_control": breakpoint_}],
            },
            {"role": "user", "content": "Vero?"},
        ],
    }
    if reasoning is not Reasoning.OFF:
        fields["thinking"] = {"type": "adaptive"}
        fields["output_config"] = {"effort": reasoning.value}
    return fields


def openai_fields(reasoning: Reasoning) -> dict[str, Any]:
    return {
        "model": "gpt-5.5",
        "max_completion_tokens": 700 + THINKING_ALLOWANCE[reasoning],
        "reasoning_effort": "none" if reasoning is Reasoning.OFF else reasoning.value,
        "messages": [
            {"role": "system", "content": "Rispondi in breve.\n\nIn inglese."},
            {"role": "user", "content": "Ciao, come va?"},
            {"role": "assistant", "content": "Bene, grazie."},
            {"role": "user", "content": "Vero?"},
        ],
    }


async def test_what_the_environment_tells_the_sdk_is_sent_too(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = "ANTHROPIC" if stage.name == "claude" else "OPENAI"
    monkeypatch.setenv(f"{prefix}_CUSTOM_HEADERS", "x-reparto: contabilità-3".replace("à", "a"))

    await stage.ask()

    assert stage.server.seen[0].headers["x-reparto"] == "contabilita-3"


async def test_the_base_url_of_the_environment_is_the_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.providers.claude import Claude
    from gateway.providers.openai import OpenAI
    from tests.unit.providers.stage import call_of, outcome_of, target_of

    for name, variable in (("claude", "ANTHROPIC_BASE_URL"), ("openai", "OPENAI_BASE_URL")):
        async with open_stage(name) as stage:
            monkeypatch.setenv(variable, stage.server.url)
            make = Claude if name == "claude" else OpenAI
            provider = make(stage.transport, stage.server.key)

            assert (await outcome_of(provider, call_of(), target_of(name))).error is None


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-sonnet-4-5"])
async def test_older_claudes_think_within_a_budget(model: str) -> None:
    async with open_stage("claude") as stage:
        assert (await stage.ask(model=model, reasoning=Reasoning.LOW)).error is None

        body = stage.server.seen[0].body
        assert body["thinking"] == {"type": "enabled", "budget_tokens": 4_096}
        assert body["max_tokens"] == 2_000 + 4_096
        assert "output_config" not in body


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("claude-haiku-4-5", 64_000),
        ("claude-sonnet-4-5-20250929", 64_000),
        ("claude-opus-4-5", 64_000),
        ("claude-opus-4-6", 128_000),
        ("claude-opus-5", 128_000),
        ("claude-haiku-5-5", 128_000),
    ],
)
@pytest.mark.parametrize("reasoning", [Reasoning.OFF, Reasoning.HIGH])
async def test_no_model_is_asked_for_more_than_it_can_write(
    model: str, most: int, reasoning: Reasoning
) -> None:
    async with open_stage("claude") as stage:
        for wanted in (most - 1_000, most, most + 500_000):
            told = await stage.ask(model=model, reasoning=reasoning, answer_tokens=wanted)

            assert told.error is None
            body = stage.server.seen[-1].body
            assert body["max_tokens"] == min(wanted + THINKING_ALLOWANCE[reasoning], most)
            assert body.get("thinking", {}).get("budget_tokens", 0) < body["max_tokens"]


@pytest.mark.parametrize(
    "model", ["claude-opus-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-opus-4-6", "claude-sonnet-4-6"]
)
@pytest.mark.parametrize("reasoning", list(Reasoning))
async def test_newer_claudes_decide_by_themselves(model: str, reasoning: Reasoning) -> None:
    async with open_stage("claude") as stage:
        assert (await stage.ask(model=model, reasoning=reasoning)).error is None

        assert ("thinking" in stage.server.seen[0].body) == (reasoning is not Reasoning.OFF)


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("gpt-5.5", "none"),
        ("gpt-5.1-mini", "none"),
        ("gpt-6-sol", "none"),
        ("gpt-6.2-astra", "none"),
        ("gpt-5", None),
        ("gpt-5-mini", None),
        ("gpt-5.3-chat-latest", None),
        ("gpt-4.1", None),
    ],
)
async def test_only_openais_newer_models_are_told_not_to_think(model: str, effort: str | None) -> None:
    async with open_stage("openai") as stage:
        assert (await stage.ask(model=model)).error is None

        assert stage.server.seen[0].body.get("reasoning_effort") == effort


async def test_the_content_is_sent_as_it_is(stage: Stage) -> None:
    content = '  «"\\ \u2028 🌶\n\t{"a": 1}  '

    await stage.ask(content)

    body = stage.server.seen[0].body
    assert body["messages"][-1] == {"role": "user", "content": content}


async def test_a_megabyte_is_sent(stage: Stage) -> None:
    content = "è" * 1_200_000

    assert (await stage.ask(content)).error is None
    assert stage.server.seen[0].body["messages"][-1]["content"] == content
