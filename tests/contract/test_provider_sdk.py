"""What an SDK would send, asked in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from gateway.ports import ProviderError, Trouble
from gateway.providers import sdk_process
from gateway.providers.claude import Claude
from gateway.providers.claude import sdk as claude_sdk
from gateway.providers.openai import OpenAI
from gateway.providers.openai import sdk as openai_sdk
from gateway.providers.sdk_process import Question, Sent
from gateway.providers.transport import Transport

SDKS = {"gateway.providers.claude.sdk": claude_sdk, "gateway.providers.openai.sdk": openai_sdk}
in_a_process = sdk_process.ask
"""Before anything puts the SDKs into this process."""


@pytest.mark.parametrize("module", SDKS)
@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/altrove"])
async def test_the_process_tells_what_the_sdk_sends(module: str, base_url: str | None) -> None:
    question = Question("una-chiave", base_url)
    told = await in_a_process(module, question)
    assert told == await SDKS[module].observe(question)
    assert told.url is not None
    assert told.url.startswith(base_url or "https://api.")
    assert told.headers["authorization"] == "Bearer una-chiave"


@pytest.mark.parametrize("module", SDKS)
async def test_a_variable_set_to_nothing_is_none(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = await in_a_process(module, Question("k", None))
    for name in (
        "ANTHROPIC_BASE_URL",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_ORG_ID",
    ):
        monkeypatch.setenv(name, "")
    assert await in_a_process(module, Question("k", None)) == usual


async def test_the_process_gets_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}
    start = asyncio.create_subprocess_exec

    async def noting(*command: str, **options: Any) -> asyncio.subprocess.Process:
        given.update(options["env"])
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noting)
    for name in ("PEPPER_SECRET", "PEPPER_DATABASE_URL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "segretissimo")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    told = await in_a_process("gateway.providers.openai.sdk", Question("k", None))
    assert "segretissimo" not in repr(given)
    assert told.headers["openai-organization"] == "org-1", "what else the environment says is the SDK's"


KEYS = (
    "sk-ant-api03-Aa_9-zZ",
    "sk-ant-oat01-Aa_9-zZ",
    "sk-ant-admin01-x",
    "sk-proj-Aa_9-zZ",
    "sk-svcacct-x",
    "eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
    "k",
    "con spazi dentro",
    'virgolette" e {graffe}',
)


@pytest.mark.parametrize("kind", [Claude, OpenAI])
@pytest.mark.parametrize("key", KEYS)
async def test_what_is_sent_with_a_key_is_what_the_sdk_sends_with_it(
    kind: type[Claude | OpenAI], key: str
) -> None:
    told = await SDKS[f"gateway.providers.{kind.__name__.lower()}.sdk"].observe(Question(key, None))
    ours = await kind(Transport(), key)._upstream.outgoing()
    assert {**ours.headers, "content-length": "2"} == told.headers
    assert str(ours.url) == told.url


async def test_the_key_is_no_word_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[object, ...]] = []
    start = asyncio.create_subprocess_exec

    async def noting(*command: str, **options: Any) -> asyncio.subprocess.Process:
        commands.append(command)
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noting)
    await in_a_process("gateway.providers.openai.sdk", Question("segretissima", None))
    assert len(commands) == 1
    assert "segretissima" not in repr(commands)


async def test_a_process_that_fails_says_why_and_the_key_is_not_in_it() -> None:
    with pytest.raises(ProviderError) as caught:
        await in_a_process("gateway.providers.not_there", Question("segretissima", None))
    assert caught.value.trouble is Trouble.UNREACHABLE
    assert not caught.value.sent
    assert "not_there" in caught.value.reason
    assert "segretissima" not in caught.value.reason


async def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noting(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*command, **options))
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noting)
    monkeypatch.setattr(sdk_process, "SECONDS", 0.1)
    with pytest.raises(ProviderError):
        await in_a_process("gateway.providers.claude.sdk", Question("k", None))
    assert started[0].returncode is not None


@pytest.mark.parametrize("kind", [Claude, OpenAI])
async def test_all_who_wait_share_one_question_and_one_who_leaves_ends_it_for_nobody(
    kind: type[Claude | OpenAI], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    may_answer = asyncio.Event()

    async def slow(_: str, question: Question) -> Sent:
        nonlocal asked
        asked += 1
        await may_answer.wait()
        return Sent("http://127.0.0.1:9/v1/messages", {"authorization": question.key})

    monkeypatch.setattr(sdk_process, "ask", slow)
    upstream = kind(Transport(), "chiave")._upstream
    waiting = [asyncio.create_task(upstream.outgoing()) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    may_answer.set()
    assert {(await task).headers["authorization"] for task in waiting[1:]} == {"chiave"}
    await upstream.outgoing()
    assert asked == 1


async def test_a_question_that_failed_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Sent | ProviderError] = [
        ProviderError(Trouble.UNREACHABLE, "no process", sent=False),
        Sent("http://127.0.0.1:9/v1/messages"),
    ]

    async def ask(*_: object) -> Sent:
        answer = answers.pop(0)
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    monkeypatch.setattr(sdk_process, "ask", ask)
    upstream = Claude(Transport(), "chiave")._upstream
    with pytest.raises(ProviderError):
        await upstream.outgoing()
    assert (await upstream.outgoing()).url.path == "/v1/messages"


def test_the_gateway_itself_loads_no_sdk() -> None:
    program = (
        "import sys, gateway.app, gateway.providers.claude, gateway.providers.openai\n"
        "import json; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = msgspec.json.decode(done.stdout, type=set[str])
    assert not loaded & {"anthropic", "openai", "pydantic", "mcp", "alembic", "pypdf", "httpx2"}
