"""The OpenAI fake, driven by the real SDK: what it answers, what it refuses, and how it misbehaves."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import msgspec
import openai
import pytest

from tests.fakes import (
    EMBEDDINGS,
    SAMPLE,
    OpenAIServer,
    answer,
    call_tool,
    cut_after,
    empty,
    error_event,
    hang,
    html,
    huge,
    quiet_end,
    refuse,
    say,
    slow,
    split_bytes,
    status,
    think,
    truncate,
    until,
)

MODEL, OLD, VECTORS = "gpt-6-luna", "gpt-4.1", "text-embedding-3-small"
PDF = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.7\n").decode()
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tipo": {"type": "string", "enum": ["fattura", "ricevuta"]},
        "voci": {"type": "array", "items": {"$ref": "#/$defs/voce"}},
        "nota": {"type": ["string", "null"]},
    },
    "required": ["tipo", "voci", "nota"],
    "additionalProperties": False,
    "$defs": {
        "voce": {
            "type": "object",
            "properties": {"quanti": {"type": "integer", "minimum": 3}},
            "required": ["quanti"],
            "additionalProperties": False,
        }
    },
}
INSTANCE = {"tipo": "fattura", "voci": [{"quanti": 3}], "nota": "valore"}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "cerca", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def fake(server: OpenAIServer) -> Iterator[OpenAIServer]:
    yield server
    refused = server.refused
    server.reset()
    assert refused == []


@pytest.fixture
async def client(fake: OpenAIServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=fake.url, api_key=fake.key, max_retries=0, timeout=5) as sdk:
        yield sdk


def ask(**changes: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "Ciao"}]} | changes


def shape(schema: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "forma", "strict": True, "schema": schema} | changes,
        }
    }


def object_of(properties: dict[str, Any], **changes: Any) -> dict[str, Any]:
    whole = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return shape(whole | changes)


def user(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


async def chunks(client: openai.AsyncOpenAI, **changes: Any) -> list[Any]:
    options = {"include_usage": True}
    stream = await client.chat.completions.create(**ask(stream=True, stream_options=options, **changes))
    return [chunk async for chunk in stream]


def told(events: list[Any], field: str = "content") -> str:
    return "".join(getattr(c.choices[0].delta, field) or "" for c in events if c.choices)


class TestAnswers:
    async def test_whole(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(answer(think("Penso."), SAMPLE, input_tokens=7, output_tokens=9, cache_read=5))
        completion = await client.chat.completions.create(**ask())
        assert completion.choices[0].message.content == SAMPLE
        assert completion.choices[0].finish_reason == "stop"
        assert completion.model == MODEL
        usage = completion.usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 9, 21)
        assert usage.prompt_tokens_details is not None
        assert usage.prompt_tokens_details.cached_tokens == 5
        assert fake.seen[0].finished

    async def test_streamed(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(say(SAMPLE, pieces=4))
        events = await chunks(client)
        assert told(events) == SAMPLE
        assert [c.usage is None for c in events] == [True] * (len(events) - 1) + [False]
        assert events[-1].choices == []
        assert events[-2].choices[0].finish_reason == "stop"
        assert events[-1].usage.completion_tokens == len(SAMPLE) // 4 + 1

    async def test_no_usage_unless_asked_for(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(**ask(stream=True))
        assert all(chunk.choices and chunk.usage is None for chunk in [c async for c in stream])

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_refusals_and_truncation(
        self, fake: OpenAIServer, client: openai.AsyncOpenAI, streamed: bool
    ) -> None:
        fake.script(refuse("No."), refuse("Part", how="filter"), truncate("A metà"), empty())
        expected = [
            ("", "No.", "stop"),
            ("Part", "", "content_filter"),
            ("A metà", "", "length"),
            ("", "", "length"),
        ]
        for content, refusal, finish in expected:
            if streamed:
                events = await chunks(client)
                got = (told(events), told(events, "refusal"), events[-2].choices[0].finish_reason)
            else:
                choice = (await client.chat.completions.create(**ask())).choices[0]
                got = (choice.message.content or "", choice.message.refusal or "", choice.finish_reason)
            assert got == (content, refusal, finish)

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_structured_output_by_default(
        self, fake: OpenAIServer, client: openai.AsyncOpenAI, streamed: bool
    ) -> None:
        if streamed:
            content: str | None = told(await chunks(client, **shape(SCHEMA)))
        else:
            content = (
                (await client.chat.completions.create(**ask(**shape(SCHEMA)))).choices[0].message.content
            )
        assert msgspec.json.decode(content or "") == INSTANCE

    async def test_tool_loop(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(call_tool("cerca", q="città"), say("Trovato."))
        events = await chunks(client, tools=[TOOL])
        calls = [
            c.choices[0].delta.tool_calls[0] for c in events if c.choices and c.choices[0].delta.tool_calls
        ]
        arguments = "".join(call.function.arguments for call in calls)
        assert msgspec.json.decode(arguments) == {"q": "città"}
        call = {"id": calls[0].id, "type": "function", "function": {"name": "cerca", "arguments": arguments}}
        history = [
            *ask()["messages"],
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": calls[0].id, "content": "ok"},
        ]
        done = await client.chat.completions.create(**ask(tools=[TOOL], messages=history))
        assert done.choices[0].message.content == "Trovato."

    async def test_forced_tool_by_default(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        done = await client.chat.completions.create(**ask(tools=[TOOL], tool_choice="required"))
        assert done.choices[0].finish_reason == "tool_calls"


class TestEmbeddings:
    @pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}])
    async def test_deterministic_unit_vectors(
        self, fake: OpenAIServer, client: openai.AsyncOpenAI, encoding: Any
    ) -> None:
        texts = ["Le ferie si chiedono in anticipo", "giorni di ferie", "Il gatto dorme"]
        first = await client.embeddings.create(model=VECTORS, input=texts, **encoding)
        again = await client.embeddings.create(model=VECTORS, input=texts[0], **encoding)
        vectors = [item.embedding for item in first.data]
        assert [len(v) for v in vectors] == [1536] * 3
        assert vectors[0] == again.data[0].embedding
        assert abs(_dot(vectors[0], vectors[0]) - 1) < 1e-5
        assert _dot(vectors[0], vectors[1]) > 0.2 > _dot(vectors[0], vectors[2])
        assert first.usage.total_tokens == sum(len(t) // 4 + 1 for t in texts)

    async def test_dimensions(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        done = await client.embeddings.create(model=VECTORS, input="x", dimensions=256)
        assert len(done.data[0].embedding) == 256

    async def test_a_script_of_their_own(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(say("per la chat"))
        fake.script(status(500), cut_after(1), on=EMBEDDINGS)
        with pytest.raises(openai.InternalServerError):
            await client.embeddings.create(model=VECTORS, input="x")
        with pytest.raises((openai.APIConnectionError, httpx2.HTTPError)):
            await client.embeddings.create(model=VECTORS, input="x")
        assert fake.unused == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"input": ""},
            {"input": []},
            {"input": ["x"] * 2049},
            {"input": "x" * 40_000},
            {"input": ["x" * 30_000] * 45},
            {"dimensions": 2000},
            {"model": MODEL},
            {"encoding_format": "hex"},
        ],
    )
    async def test_refused(self, fake: OpenAIServer, client: openai.AsyncOpenAI, changes: Any) -> None:
        body = {"model": VECTORS, "input": "x", "encoding_format": "float"} | changes
        with pytest.raises((openai.BadRequestError, openai.PermissionDeniedError)):
            await client.embeddings.create(**body)
        assert fake.take_refused()


class TestBadManners:
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_cut(self, fake: OpenAIServer, client: openai.AsyncOpenAI, streamed: bool) -> None:
        fake.script(cut_after(1))
        with pytest.raises((openai.APIConnectionError, httpx2.HTTPError)):
            await (chunks(client) if streamed else client.chat.completions.create(**ask()))
        assert fake.seen[0].outcome == "cut"

    async def test_quiet_end(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(quiet_end(2))
        events = await chunks(client)
        assert 0 < len(told(events)) < len(SAMPLE)
        assert all(chunk.usage is None for chunk in events)

    async def test_error_event(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(error_event("server_error", message="Rotto"), error_event("server_error"))
        with pytest.raises(openai.APIError, match="Rotto"):
            await chunks(client)
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(**ask())

    async def test_split_slow_and_huge(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(split_bytes(size=5), slow(seconds=0.2), huge(2_000_000))
        assert told(await chunks(client)) == SAMPLE
        assert told(await chunks(client)) == SAMPLE
        assert len(told(await chunks(client))) == 2_000_000

    async def test_statuses(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(status(429, retry_after=2), status(503), html(500))
        with pytest.raises(openai.RateLimitError) as limited:
            await client.chat.completions.create(**ask())
        assert limited.value.code == "rate_limit_exceeded"
        assert limited.value.response.headers["retry-after"] == "2"
        for _ in range(2):
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(**ask())

    async def test_hang_is_noticed_to_be_closed(self, fake: OpenAIServer, client: openai.AsyncOpenAI) -> None:
        fake.script(hang())
        task = asyncio.create_task(client.chat.completions.create(**ask()))
        await until(lambda: fake.open == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: fake.seen[0].closed_at, timeout=1)


STRING: dict[str, Any] = {"type": "string"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "cerca", "arguments": "{}"}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"colour": 1}, "Unknown parameter: 'colour'"),
    "unknown model": ({"model": "gpt-9"}, "does not exist"),
    "shut down model": ({"model": "gpt-4-turbo"}, "does not exist"),
    "max_tokens": ({"max_tokens": 9}, "max_completion_tokens"),
    "effort": ({"reasoning_effort": "extreme"}, "Supported values"),
    "effort on an old model": ({"model": OLD, "reasoning_effort": "low"}, "Unrecognized"),
    "temperature": ({"temperature": 0.2}, "Only the default (1) value"),
    "top_p": ({"top_p": 0.5}, "Unsupported parameter: 'top_p'"),
    "usage without stream": ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
    "no messages": ({"messages": []}, "messages"),
    "unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "Supported values"),
    "unknown part": (user({"type": "video"}), "Invalid value: 'video'"),
    "file by url": (user({"type": "file", "file": {"url": "https://x.org"}}), "Unknown parameter"),
    "file without name": (user({"type": "file", "file": {"file_data": PDF}}), "filename"),
    "no image": (
        user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        "unsupported image",
    ),
    "unanswered call": (
        {"tools": [TOOL], "messages": [{"role": "assistant", "tool_calls": [CALL]}, *ask()["messages"]]},
        "must be followed by tool messages",
    ),
    "result without call": (
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]},
        "preceeding",
    ),
    "bad name": (shape(SCHEMA, name="la forma"), "pattern"),
    "optional property": (object_of({"a": STRING}, required=[]), "Missing 'a'"),
    "open object": (object_of({}, additionalProperties=True), "additionalProperties"),
    "unknown keyword": (object_of({"a": {"type": "string", "minLength": 1}}), "'minLength' is not permitted"),
    "root union": (shape({"anyOf": [SCHEMA]}), 'type: "object"'),
    "1001 values": (object_of({"a": {"enum": [str(n) for n in range(1001)]}}), "1000 enum values"),
    "long enum": (object_of({"a": {"enum": [f"{n:060d}" for n in range(251)]}}), "15000 characters"),
    "quote": (object_of({"a": {"enum": ['un "caso"']}}), "not allowed in string literals"),
    "newline": (object_of({"a": {"const": "a\nb"}}), "not allowed in string literals"),
    "enum of another type": (object_of({"a": STRING | {"enum": [1]}}), "does not validate"),
    "lost reference": (object_of({"a": {"$ref": "#/$defs/b"}}), "was not found"),
    "too many": (object_of({f"c{n}": STRING for n in range(5001)}), "5000 properties"),
}


class TestRefusals:
    @pytest.mark.parametrize("case", REFUSED)
    async def test_refused(self, fake: OpenAIServer, client: openai.AsyncOpenAI, case: str) -> None:
        changes, expected = REFUSED[case]
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as caught:
            await client.chat.completions.create(**ask(extra_body=changes))
        assert expected in caught.value.message
        assert caught.value.request_id
        assert fake.take_refused()

    @pytest.mark.parametrize(
        "changes",
        [
            {"max_completion_tokens": 100, "reasoning_effort": "none", "temperature": 1, "verbosity": "low"},
            {"model": OLD, "max_tokens": 100, "temperature": 0.2},
            user({"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}),
            {"messages": [{"role": "developer", "content": "Sii breve."}, *ask()["messages"]]},
            object_of({f"c{n}": {"type": ["string", "null"]} for n in range(50)}),
        ],
    )
    async def test_accepted(
        self, fake: OpenAIServer, client: openai.AsyncOpenAI, changes: dict[str, Any]
    ) -> None:
        completion = await client.chat.completions.create(**ask(extra_body=changes))
        assert completion.choices[0].finish_reason == "stop"

    async def test_keys_and_paths(self, fake: OpenAIServer) -> None:
        async with httpx2.AsyncClient(base_url=fake.root) as http:
            for headers in ({}, {"authorization": "Bearer other"}):
                response = await http.post("/v1/chat/completions", json=ask(), headers=headers)
                assert response.status_code == 401
                assert response.headers["x-request-id"]
                assert set(response.json()["error"]) == {"message", "type", "param", "code"}
            good = {"authorization": f"Bearer {fake.key}"}
            assert (await http.post("/chat/completions", json=ask(), headers=good)).status_code == 404
        assert len(fake.take_refused()) == 3


def _dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
