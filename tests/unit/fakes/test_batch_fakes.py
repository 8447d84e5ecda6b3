"""The batches of both fakes, driven by the real SDKs: how they go on, what they refuse, and how they misbehave."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import pytest_asyncio

from tests.fakes import (
    CLAUDE_BATCHES,
    OPENAI_BATCHES,
    OPENAI_FILES,
    ClaudeServer,
    OpenAIServer,
    cut_after,
    drop,
    html,
    refuse,
    status,
)
from tests.fakes.multipart import parts_of
from tests.fakes.seen import RefusalError, Seen

SONNET, GPT = "claude-sonnet-5", "gpt-5.5"


@pytest.fixture
def claude() -> Iterator[ClaudeServer]:
    with ClaudeServer() as server:
        yield server
        assert server.refused == []


@pytest.fixture
def gpt() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server
        assert server.refused == []


@pytest_asyncio.fixture
async def anthropic_sdk(claude: ClaudeServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=claude.url, api_key=claude.key, max_retries=0) as client:
        yield client


@pytest_asyncio.fixture
async def openai_sdk(gpt: OpenAIServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=gpt.url, api_key=gpt.key, max_retries=0) as client:
        yield client


def params(**changes: Any) -> dict[str, Any]:
    return {
        "model": SONNET,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Ciao"}],
    } | changes


def requests(count: int) -> Any:
    return [{"custom_id": f"a-{n}", "params": params()} for n in range(count)]


def line(number: int = 0, **changes: Any) -> dict[str, Any]:
    body = {"model": GPT, "messages": [{"role": "user", "content": "Ciao"}]}
    return {
        "custom_id": f"a-{number}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": body,
    } | changes


async def upload(sdk: openai.AsyncOpenAI, *lines: Any, name: str = "a.jsonl") -> str:
    content = "\n".join(json.dumps(one) for one in lines)
    return (await sdk.files.create(file=(name, content.encode()), purpose="batch")).id


async def order(sdk: openai.AsyncOpenAI, *lines: Any, **changes: Any) -> Any:
    how = {"endpoint": "/v1/chat/completions", "completion_window": "24h"} | changes
    return await sdk.batches.create(input_file_id=await upload(sdk, *lines), **how)


class TestClaude:
    async def test_a_batch_from_beginning_to_end(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic
    ) -> None:
        claude.batches.delay = 0.2
        claude.batches.shuffled = True
        claude.batches.fates = {1: "errored", 2: "expired"}
        claude.batches.answers = {3: refuse()}
        batches = anthropic_sdk.messages.batches
        created = await batches.create(requests=requests(4))
        assert created.processing_status == "in_progress"
        assert created.request_counts.processing == 4
        assert created.results_url is None
        time.sleep(0.25)  # noqa: ASYNC251 - nothing else runs
        ended = await batches.retrieve(created.id)
        assert ended.processing_status == "ended"
        assert ended.request_counts.model_dump() == {
            "processing": 0,
            "succeeded": 2,
            "errored": 1,
            "expired": 1,
            "canceled": 0,
        }
        results = [result async for result in await batches.results(created.id)]
        assert [result.custom_id for result in results] != [f"a-{n}" for n in range(4)]
        kinds = {result.custom_id: result.result.type for result in results}
        assert kinds == {"a-0": "succeeded", "a-1": "errored", "a-2": "expired", "a-3": "succeeded"}
        messages = {r.custom_id: r.result.message for r in results if r.result.type == "succeeded"}
        assert messages["a-0"].usage.service_tier == "batch"
        assert messages["a-3"].stop_reason == "refusal"
        assert claude.batches.created == 1

    async def test_the_list_has_pages(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic
    ) -> None:
        names = [(await anthropic_sdk.messages.batches.create(requests=requests(1))).id for _ in range(5)]
        listed = [batch.id async for batch in anthropic_sdk.messages.batches.list(limit=2)]
        assert listed == names[::-1]
        assert len([seen for seen in claude.seen if seen.method == "GET"]) == 3

    async def test_cancelling(self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic) -> None:
        claude.batches.delay = 60
        batches = anthropic_sdk.messages.batches
        created = await batches.create(requests=requests(1))
        assert (await batches.cancel(created.id)).processing_status == "canceling"
        claude.batches.end()
        assert [r.result.type async for r in await batches.results(created.id)] == ["canceled"]

    async def test_duplicates_and_strangers(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic
    ) -> None:
        claude.batches.doubled = claude.batches.strange = True
        created = await anthropic_sdk.messages.batches.create(requests=requests(2))
        results = [r.custom_id async for r in await anthropic_sdk.messages.batches.results(created.id)]
        assert results == ["altro-0", "a-0", "a-1", "a-0", "a-1"]

    async def test_forgotten(self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic) -> None:
        created = await anthropic_sdk.messages.batches.create(requests=requests(1))
        claude.batches.forget(created.id)
        with pytest.raises(anthropic.NotFoundError):
            await anthropic_sdk.messages.batches.retrieve(created.id)

    async def test_accepted_but_the_reply_is_lost(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(claude.batches.lost(drop()), on=f"POST {CLAUDE_BATCHES}")
        with pytest.raises(anthropic.APIConnectionError):
            await anthropic_sdk.messages.batches.create(requests=requests(1))
        assert claude.batches.created == 1
        assert len([batch async for batch in anthropic_sdk.messages.batches.list()]) == 1

    @pytest.mark.parametrize("on", ["POST {}", "GET {}", "GET {}/x", "GET {}/x/results", "POST {}/x/cancel"])
    async def test_every_address_has_its_script(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic, on: str
    ) -> None:
        created = await anthropic_sdk.messages.batches.create(requests=requests(2))
        method, path = on.format(CLAUDE_BATCHES).replace("/x", f"/{created.id}").split()
        claude.script(status(503), html(), cut_after(1), on=f"{method} {path}")
        if path.endswith("cancel"):
            claude.batches.held[created.id].ends_at = time.monotonic() + 60
        headers = {"authorization": f"Bearer {claude.key}", "anthropic-version": "2026-10-21"}
        body = {"requests": requests(1)} if on == "POST {}" else None
        async with httpx2.AsyncClient(base_url=claude.url, headers=headers) as client:
            assert (await client.request(method, path, json=body)).status_code == 503
            assert "<html>" in (await client.request(method, path, json=body)).text
            with pytest.raises(httpx2.HTTPError):
                await client.request(method, path, json=body)
            assert (await client.request(method, path, json=body)).status_code == 200

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"requests": []}, "at least 1"),
            ({"requests": requests(1), "model": SONNET}, "model: Extra inputs"),
            ({"requests": requests(1) * 2}, "Duplicate custom_id"),
            ({"requests": [{"custom_id": "è", "params": params()}]}, "should match pattern"),
            ({"requests": [{"custom_id": "a" * 65, "params": params()}]}, "should match pattern"),
            ({"requests": [{"custom_id": "a"}]}, "requests.0.params: Field required"),
            ({"requests": [{"custom_id": "a", "params": params(stream=False)}]}, "stream"),
            ({"requests": [{"custom_id": "a", "params": params(max_tokens=0)}]}, "requests.0.params: max_"),
            ({"requests": [{"custom_id": "a", "params": params(), "x": 1}]}, "requests.0.x: Extra"),
        ],
    )
    async def test_what_is_refused(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic, body: Any, message: str
    ) -> None:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await anthropic_sdk.post(CLAUDE_BATCHES, body=body, cast_to=object)
        assert message in str(caught.value)
        assert len(claude.take_refused()) == 1
        assert claude.batches.created == 0

    async def test_what_was_never_there_is_a_fault(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic
    ) -> None:
        batches = anthropic_sdk.messages.batches
        with pytest.raises(anthropic.NotFoundError):
            await batches.retrieve("msgbatch_mai")
        with pytest.raises(anthropic.BadRequestError):
            await batches.list(limit=1_001)
        with pytest.raises(anthropic.BadRequestError):
            await batches.list(extra_query={"order": "asc"})
        claude.batches.delay = 60
        created = await batches.create(requests=requests(1))
        with pytest.raises(anthropic.BadRequestError):
            await anthropic_sdk.get(f"{CLAUDE_BATCHES}/{created.id}/results", cast_to=object)
        assert len(claude.take_refused()) == 4

    async def test_a_reset_clears_the_shelf(
        self, claude: ClaudeServer, anthropic_sdk: anthropic.AsyncAnthropic
    ) -> None:
        await anthropic_sdk.messages.batches.create(requests=requests(1))
        claude.batches.delay = 3
        claude.reset()
        assert (claude.batches.created, claude.batches.held, claude.batches.delay) == (0, {}, 0)


class TestOpenAI:
    async def test_a_batch_from_beginning_to_end(
        self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI
    ) -> None:
        gpt.batches.delay = 0.2
        gpt.batches.running = "validating"
        gpt.batches.fates = {1: "errored"}
        created = await order(openai_sdk, line(0), line(1), line(2), metadata={"pepper": "prt_1"})
        assert created.status == "validating"
        assert created.output_file_id is None
        assert created.metadata == {"pepper": "prt_1"}
        time.sleep(0.25)  # noqa: ASYNC251 - nothing else runs
        ended = await openai_sdk.batches.retrieve(created.id)
        assert ended.status == "completed"
        assert ended.request_counts is not None
        assert ended.request_counts.model_dump() == {"total": 3, "completed": 2, "failed": 1}
        assert ended.output_file_id is not None
        assert ended.error_file_id is not None
        output = [json.loads(one) for one in await _lines(openai_sdk, ended.output_file_id)]
        errors = [json.loads(one) for one in await _lines(openai_sdk, ended.error_file_id)]
        assert [one["custom_id"] for one in output] == ["a-0", "a-2"]
        assert output[0]["response"]["body"]["choices"][0]["message"]["content"] == "Fatto il numero 0."
        assert [one["response"]["status_code"] for one in errors] == [500]
        assert gpt.batches.created == 1

    async def test_forty_two_of_a_hundred(self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI) -> None:
        gpt.batches.done = 42
        created = await order(openai_sdk, *map(line, range(100)))
        assert created.status == "expired"
        assert len(await _lines(openai_sdk, created.output_file_id)) == 42
        errors = await _lines(openai_sdk, created.error_file_id)
        assert {json.loads(one)["error"]["code"] for one in errors} == {"batch_expired"}

    async def test_a_validation_that_fails(self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI) -> None:
        gpt.batches.failed = True
        created = await order(openai_sdk, line())
        assert created.status == "failed"
        assert created.errors.data[0].code == "invalid_json_line"
        assert created.output_file_id is created.error_file_id is None

    async def test_the_list_has_pages(self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI) -> None:
        names = [(await order(openai_sdk, line())).id for _ in range(5)]
        assert [batch.id async for batch in openai_sdk.batches.list(limit=2)] == names[::-1]

    async def test_accepted_but_the_reply_is_lost(
        self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI
    ) -> None:
        gpt.script(gpt.batches.lost(drop()), on=f"POST {OPENAI_BATCHES}")
        with pytest.raises(openai.APIConnectionError):
            await order(openai_sdk, line())
        assert gpt.batches.created == 1

    async def test_forgotten(self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI) -> None:
        created = await order(openai_sdk, line())
        gpt.batches.forget(created.id)
        with pytest.raises(openai.NotFoundError):
            await openai_sdk.batches.retrieve(created.id)
        with pytest.raises(openai.NotFoundError):
            await openai_sdk.files.content(created.output_file_id)

    @pytest.mark.parametrize(
        ("lines", "changes", "message"),
        [
            ([line(), line()], {}, "duplicate custom_id"),
            ([line(url="/v1/responses")], {}, "Invalid value"),
            ([line(method="GET")], {}, "Invalid value"),
            ([line(x=1)], {}, "Unknown parameter: 'x'"),
            ([line(body={"model": GPT})], {}, "messages"),
            ([line(0), line(1, body={**line()["body"], "model": "gpt-5.4"})], {}, "one model"),
            ([line(body={**line()["body"], "stream": True})], {}, "streaming"),
            ([line()], {"completion_window": "1h"}, "Invalid value"),
            ([line()], {"endpoint": "/v1/altro"}, "Invalid value"),
            ([line()], {"metadata": {"a": "x" * 513}}, "512"),
            ([line()], {"metadata": {"a" * 65: "x"}}, "64"),
            ([line()], {"metadata": {str(n): "x" for n in range(17)}}, "16"),
            ([line()], {"extra_body": {"altro": 1}}, "Unknown parameter: 'altro'"),
        ],
    )
    async def test_what_is_refused(
        self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI, lines: Any, changes: Any, message: str
    ) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            await order(openai_sdk, *lines, **changes)
        assert message in str(caught.value)
        assert len(gpt.take_refused()) == 1
        assert gpt.batches.created == 0

    @pytest.mark.parametrize(
        ("name", "purpose", "content"),
        [("a.txt", "batch", b"{}"), ("a.jsonl", "user_data", b"{}"), ("a.jsonl", "batch", b" ")],
    )
    async def test_a_file_that_is_refused(
        self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI, name: str, purpose: Any, content: bytes
    ) -> None:
        with pytest.raises(openai.BadRequestError):
            await openai_sdk.files.create(file=(name, content), purpose=purpose)
        assert len(gpt.take_refused()) == 1

    async def test_a_file_that_is_not_there(self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError):
            await openai_sdk.files.content("file-mai")
        with pytest.raises(openai.BadRequestError):
            await openai_sdk.batches.create(
                input_file_id="file-mai", endpoint="/v1/chat/completions", completion_window="24h"
            )
        assert len(gpt.take_refused()) == 2

    async def test_every_address_has_its_script(
        self, gpt: OpenAIServer, openai_sdk: openai.AsyncOpenAI
    ) -> None:
        created = await order(openai_sdk, line())
        for on in (f"GET {OPENAI_BATCHES}", f"GET {OPENAI_BATCHES}/x", f"GET {OPENAI_FILES}/x/content"):
            gpt.script(status(500), on=on)
        gpt.script(status(500), on=f"POST {OPENAI_FILES}")
        with pytest.raises(openai.InternalServerError):
            await openai_sdk.batches.list()
        with pytest.raises(openai.InternalServerError):
            await openai_sdk.batches.retrieve(created.id)
        with pytest.raises(openai.InternalServerError):
            await openai_sdk.files.content(created.output_file_id)
        with pytest.raises(openai.InternalServerError):
            await upload(openai_sdk, line())
        assert gpt.unused == 0


async def _lines(sdk: openai.AsyncOpenAI, file: str) -> list[str]:
    return (await sdk.files.content(file)).text.splitlines()


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"prima--x\r\n\r\n--x--"),
        ("multipart/form-data; boundary=x", b'--x\r\ncontent-disposition: form-data; name="a"\r\n\r\nuno'),
        ("multipart/form-data; boundary=x", b"--x\r\ncontent-type: a/b\r\n\r\nuno\r\n--x--"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n' * 2 + b"--x--",
        ),
    ],
)
def test_what_is_no_form(kind: str, raw: bytes) -> None:
    seen = Seen(number=1, method="POST", path="/", query="", headers={"content-type": kind}, raw=raw)
    with pytest.raises(RefusalError):
        parts_of(seen)
