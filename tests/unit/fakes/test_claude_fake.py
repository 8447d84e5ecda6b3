"""The Claude fake, driven by the real SDK: what it answers, what it refuses, and how it misbehaves."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import httpx2
import msgspec
import pytest

from tests.fakes import (
    SAMPLE,
    ClaudeServer,
    answer,
    call_tool,
    cite,
    cut_after,
    drop,
    empty,
    error_event,
    hang,
    html,
    huge,
    huge_error,
    pause,
    quiet_end,
    redirect,
    refuse,
    say,
    search,
    shape_instance,
    slow,
    split_bytes,
    status,
    text,
    think,
    truncate,
    until,
    wrong_shape,
)

SONNET, HAIKU = "claude-sonnet-5", "claude-haiku-4-5"
PDF = base64.b64encode(b"%PDF-1.7\n%%EOF\n").decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tipo": {"type": "string", "enum": ["fattura", "ricevuta"]},
        "righe": {"type": "array", "items": {"type": "string"}},
        "totale": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["tipo", "righe", "totale"],
    "additionalProperties": False,
}
SEARCH: dict[str, Any] = {"type": "web_search_20260318", "name": "web_search", "max_uses": 2}
TOOL: dict[str, Any] = {
    "name": "cerca",
    "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def server() -> Iterator[ClaudeServer]:
    with ClaudeServer() as running:
        yield running


@pytest.fixture
def claude(server: ClaudeServer) -> Iterator[ClaudeServer]:
    yield server
    refused = server.refused
    server.reset()
    assert refused == []


@pytest.fixture
async def client(claude: ClaudeServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=claude.url, api_key=claude.key, max_retries=0, timeout=5
    ) as sdk:
        yield sdk


def ask(**changes: Any) -> dict[str, Any]:
    return {"model": SONNET, "max_tokens": 4096, "messages": [{"role": "user", "content": "Ciao"}]} | changes


def user(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": list(blocks)}]


def document(**changes: Any) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    return {"type": "document", "source": source} | changes


async def stream(client: anthropic.AsyncAnthropic, **changes: Any) -> list[Any]:
    return [event async for event in await client.messages.create(**ask(stream=True, **changes))]


def told(events: list[Any]) -> str:
    return "".join(
        e.delta.text for e in events if e.type == "content_block_delta" and e.delta.type == "text_delta"
    )


class TestAnswers:
    async def test_whole(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(say(SAMPLE, input_tokens=7, cache_read=5, cache_write=3))
        message = await client.messages.create(**ask())
        assert message.content[0].type == "text"
        assert message.content[0].text == SAMPLE
        assert message.model == SONNET
        assert message.stop_reason == "end_turn"
        usage = message.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (
            7,
            5,
            3,
        )
        assert usage.output_tokens == len(SAMPLE) // 4 + 1
        (seen,) = claude.seen
        assert message._request_id == f"req_{seen.number:012d}"
        assert seen.finished
        assert seen.closed_at is None
        assert seen.body["messages"] == [{"role": "user", "content": "Ciao"}]

    async def test_streamed(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(say(SAMPLE, pieces=["Perché", SAMPLE[len("Perché") :]], output_tokens=42))
        events = await stream(client)
        assert [e.type for e in events if e.type != "ping"] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert told(events) == SAMPLE
        assert events[-2].usage.output_tokens == 42
        assert events[-2].delta.stop_reason == "end_turn"

    async def test_script_then_default(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.default = lambda seen: say(f"numero {len(seen.body['messages'])}")
        claude.script(say("primo"), say("secondo"))
        answers = [(await client.messages.create(**ask())).content[0] for _ in range(3)]
        assert [a.text for a in answers if a.type == "text"] == ["primo", "secondo", "numero 1"]

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_refusal_and_truncation(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool
    ) -> None:
        claude.script(refuse(category="cyber"), truncate("A metà"), empty())
        refused = await _message(client, streamed)
        assert refused.stop_reason == "refusal"
        assert refused.stop_details.category == "cyber"
        assert refused.content == []
        for _ in range(2):
            assert (await _message(client, streamed)).stop_reason == "max_tokens"

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_structured_output_by_default(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool
    ) -> None:
        output = {"format": {"type": "json_schema", "schema": SCHEMA}}
        if streamed:
            content = told(await stream(client, output_config=output))
        else:
            content = (await client.messages.create(**ask(output_config=output))).content[0].text
        assert msgspec.json.decode(content) == {"tipo": "fattura", "righe": ["valore"], "totale": 1}
        assert msgspec.json.decode(content) == shape_instance(SCHEMA)

    async def test_scripted_text_is_sent_as_it_is(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(truncate('{"tipo": "fat'))
        message = await client.messages.create(
            **ask(output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
        )
        assert message.content[0].text == '{"tipo": "fat'

    async def test_forced_tool_by_default(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        message = await client.messages.create(
            **ask(tools=[TOOL], tool_choice={"type": "tool", "name": "cerca"})
        )
        assert message.stop_reason == "tool_use"
        assert message.content[0].input == {"q": "valore"}

    async def test_tool_loop(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(answer(think("Cerco."), call_tool("cerca", q="città")), say("Trovato."))
        async with client.messages.stream(**ask(tools=[TOOL])) as events:
            first = await events.get_final_message()
        call = first.content[1]
        assert call.type == "tool_use"
        assert call.input == {"q": "città"}
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "ok"}
        history = [
            *ask()["messages"],
            {"role": "assistant", "content": [block.to_dict() for block in first.content]},
            {"role": "user", "content": [result]},
        ]
        second = await client.messages.create(**ask(tools=[TOOL], messages=history))
        assert second.content[0].text == "Trovato."

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_search_citations_and_pause(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool
    ) -> None:
        page = "https://example.org/meteo"
        claude.script(
            pause("Cerco ancora", 1),
            answer(
                search("meteo", [(page, "Meteo")]),
                text("Piove.", citations=[cite("pioggia", url=page, title="Meteo")]),
            ),
        )
        paused = await _message(client, streamed, tools=[SEARCH])
        assert paused.stop_reason == "pause_turn"
        history = [
            *ask()["messages"],
            {"role": "assistant", "content": [b.to_dict(exclude_none=True) for b in paused.content]},
        ]
        done = await _message(client, streamed, tools=[SEARCH], messages=history)
        assert [block.type for block in done.content] == ["server_tool_use", "web_search_tool_result", "text"]
        assert done.content[2].citations[0].url == page
        assert done.usage.server_tool_use.web_search_requests == 1

    async def test_searches_beyond_max_uses(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(pause("", 3))
        message = await client.messages.create(**ask(tools=[SEARCH | {"max_uses": 1}]))
        assert message.usage.server_tool_use is not None
        assert message.usage.server_tool_use.web_search_requests == 1
        results = [b for b in message.content if b.type == "web_search_tool_result"]
        assert results[-1].content.error_code == "max_uses_exceeded"

    @pytest.mark.parametrize("enabled", [True, False])
    async def test_document_citations_only_if_asked_for(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, enabled: bool
    ) -> None:
        claude.script(say("Totale 12 €.", citations=[cite("12", pages=(3, 4))]))
        blocks = user(
            document(title="Fattura", citations={"enabled": enabled}), {"type": "text", "text": "Quanto?"}
        )
        message = await client.messages.create(**ask(messages=blocks))
        citations = message.content[0].citations
        if not enabled:
            assert citations is None
            return
        (place,) = citations or []
        assert place.type == "page_location"
        assert (place.document_title, place.start_page_number) == ("Fattura", 3)


class TestBadManners:
    @pytest.mark.parametrize("reset", [True, False])
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_cut(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool, reset: bool
    ) -> None:
        claude.script(cut_after(1, reset=reset))
        got: list[Any] = []
        with pytest.raises((httpx2.HTTPError, anthropic.APIConnectionError)):
            await (_collect(client, got) if streamed else client.messages.create(**ask()))
        assert not streamed or 0 < len(told(got)) < len(SAMPLE)
        assert claude.seen[0].outcome == "cut"

    async def test_drop(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(drop())
        with pytest.raises(anthropic.APIConnectionError):
            await client.messages.create(**ask())

    async def test_quiet_end(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(quiet_end(2), quiet_end(2))
        events = await stream(client)
        assert events[-1].type == "content_block_delta"
        raw = await client.messages.with_raw_response.create(**ask())
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(raw.http_response.content)

    async def test_error_event(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(error_event(), error_event("rate_limit_error"))
        with pytest.raises(anthropic.APIStatusError) as caught:
            await stream(client)
        assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**ask())

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_split_bytes(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool
    ) -> None:
        claude.script(split_bytes(size=3))
        message = await _message(client, streamed)
        assert message.content[0].text == SAMPLE

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_slow(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool) -> None:
        claude.script(slow(seconds=0.3))
        started = time.monotonic()
        message = await _message(client, streamed)
        assert 0.25 < time.monotonic() - started < 2
        assert message.content[0].text == SAMPLE

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_hang_is_noticed_to_be_closed(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, streamed: bool
    ) -> None:
        claude.script(hang())
        task = asyncio.create_task(client.messages.create(**ask(stream=streamed)))
        await until(lambda: claude.open == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: claude.seen[0].closed_at, timeout=1)
        assert claude.open == 0
        assert claude.peak == 1

    async def test_a_stream_left_early_is_noticed(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(say(SAMPLE, pieces=20, delay=0.2))
        async with await client.messages.create(**ask(stream=True)) as events:
            async for event in events:
                if event.type == "content_block_delta":
                    break
        await until(lambda: claude.seen[0].closed_at, timeout=1)
        assert not claude.seen[0].finished

    async def test_an_answer_too_large_to_be_read_to_the_end(self, claude: ClaudeServer) -> None:
        claude.script(huge(40_000_000))
        async with (
            httpx2.AsyncClient(base_url=claude.url) as http,
            http.stream("POST", "/v1/messages", json=ask(), headers=_headers(claude)) as response,
        ):
            async for _ in response.aiter_bytes(65_536):
                break
        await until(lambda: claude.seen[0].closed_at, timeout=1)

    async def test_statuses(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(
            status(529, retry_after=3, message="Piano"), status(500), html(), html(502), huge_error(200_000)
        )
        with pytest.raises(anthropic.OverloadedError) as overloaded:
            await client.messages.create(**ask())
        assert overloaded.value.response.headers["retry-after"] == "3"
        assert overloaded.value.type == "overloaded_error"
        with pytest.raises(anthropic.InternalServerError):
            await client.messages.create(**ask())
        assert isinstance(await client.messages.create(**ask()), str)
        with pytest.raises(anthropic.InternalServerError):
            await client.messages.create(**ask())
        with pytest.raises(anthropic.InternalServerError) as large:
            await client.messages.create(**ask())
        assert len(large.value.response.content) > 200_000

    async def test_wrong_shape_and_huge(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(wrong_shape(), huge(3_000_000), huge(3_000_000))
        assert (await client.messages.create(**ask())).content is None
        assert len((await _message(client, False)).content[0].text) == 3_000_000
        assert len(told(await stream(client))) == 3_000_000

    async def test_redirect(self, claude: ClaudeServer) -> None:
        claude.script(redirect(f"{claude.root}/altrove"))
        async with httpx2.AsyncClient(base_url=claude.url) as http:
            response = await http.post("/v1/messages", json=ask(), headers=_headers(claude))
        assert response.status_code == 307
        assert response.headers["location"].endswith("/altrove")

    async def test_gone_and_back(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.stop()
        with pytest.raises(anthropic.APIConnectionError):
            await client.messages.create(**ask())
        claude.start()
        assert (await client.messages.create(**ask())).stop_reason == "end_turn"

    async def test_reset_drops_open_requests(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(hang())
        task = asyncio.create_task(client.messages.create(**ask()))
        await until(lambda: claude.open == 1)
        claude.reset()
        with pytest.raises(anthropic.APIConnectionError):
            await task
        assert claude.seen == []
        assert claude.open == 0


def _headers(claude: ClaudeServer, **changes: str) -> dict[str, str]:
    return {"authorization": f"Bearer {claude.key}", "anthropic-version": "2026-10-21"} | changes


def _search(**changes: Any) -> dict[str, Any]:
    return {"tools": [SEARCH | changes]}


def _shape(**schema: Any) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def _object(properties: dict[str, Any], **changes: Any) -> dict[str, Any]:
    shape = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return _shape(**(shape | changes))


def _text(content: str = "Ciao", **changes: Any) -> dict[str, Any]:
    return {"type": "text", "text": content} | changes


def _image(data: str, media: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "cerca", "input": {}}]}
STRING, NULLABLE = {"type": "string"}, {"type": ["string", "null"]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"colour": 1}, "Extra inputs are not permitted"),
    "no messages": ({"messages": []}, "at least 1 item"),
    "unknown model": ({"model": "claude-9"}, "model: claude-9"),
    "no room": ({"max_tokens": 0}, "greater than or equal to 1"),
    "too much": ({"max_tokens": 128_001}, "128001 > 128000"),
    "too much for haiku": ({"max_tokens": 64_001, "model": HAIKU}, "64001 > 64000"),
    "system role": ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
    "first assistant": ({"messages": [{"role": "assistant", "content": "x"}]}, 'must use the "user" role'),
    "prefill": ({"messages": [*ask()["messages"], {"role": "assistant", "content": "{"}]}, "prefill"),
    "blank text": ({"messages": user(_text(" \n"))}, "non-whitespace"),
    "empty content": ({"messages": user()}, "non-empty content"),
    "blank content": ({"messages": [{"role": "user", "content": ""}]}, "non-empty content"),
    "unknown block": ({"messages": user({"type": "video"})}, "messages.0.content.0.type"),
    "unknown block field": ({"messages": user(_text(colour=1))}, "messages.0.content.0.text.colour"),
    "blank system": ({"system": [_text("")]}, "non-whitespace"),
    "bad lifetime": ({"system": [_text(cache_control={"type": "ephemeral", "ttl": "1d"})]}, "ttl"),
    "five breakpoints": ({"messages": user(*[_text(**CACHED)] * 5)}, "maximum of 4 blocks"),
    "long title": ({"messages": user(document(title="x" * 501))}, "at most 500 characters"),
    "empty title": ({"messages": user(document(title=""))}, "at least 1 character"),
    "bad base64": (
        {"messages": user(document(source={"type": "base64", "media_type": "application/pdf", "data": "à"}))},
        "base64",
    ),
    "no pdf": (
        {"messages": user(document(source={"type": "base64", "media_type": "application/pdf", "data": PNG}))},
        "not valid",
    ),
    "http url": ({"messages": user(document(source={"type": "url", "url": "http://x.org/a.pdf"}))}, "HTTPS"),
    "some citations": ({"messages": user(document(citations={"enabled": True}), document())}, "Citations"),
    "bmp": ({"messages": user(_image(PNG, "image/bmp"))}, "media_type"),
    "lying image": ({"messages": user(_image(PNG, "image/jpeg"))}, "does not match"),
    "citations and shape": (
        {"messages": user(document(citations={"enabled": True}))} | _object({}),
        "Citations cannot be used",
    ),
    "effort on haiku": ({"model": HAIKU, "output_config": {"effort": "low"}}, "effort"),
    "adaptive on haiku": ({"model": HAIKU, "thinking": {"type": "adaptive"}}, "adaptive"),
    "enabled on sonnet": ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "not supported"),
    "small budget": ({"model": HAIKU, "thinking": {"type": "enabled", "budget_tokens": 1023}}, "1024"),
    "large budget": (
        {"model": HAIKU, "thinking": {"type": "enabled", "budget_tokens": 4096}},
        "must be greater",
    ),
    "temperature": ({"extra_body": {"temperature": 0.2}}, "temperature"),
    "no domains": (_search(allowed_domains=[]), "at least 1 item"),
    "both domains": (_search(allowed_domains=["a.it"], blocked_domains=["b.it"]), "Only one of"),
    "no uses": (_search(max_uses=0), "greater than or equal to 1"),
    "search on haiku": ({"model": HAIKU} | _search(), "programmatic tool calling"),
    "unknown tool": ({"tools": [{"type": "web_search_20270101", "name": "web_search"}]}, "tools.0.type"),
    "tool without schema": ({"tools": [{"name": "cerca"}]}, "input_schema: Field required"),
    "twice the tool": ({"tools": [TOOL, TOOL]}, "unique"),
    "call without result": (
        {"tools": [TOOL], "messages": [*ask()["messages"], CALL, *ask()["messages"]]},
        "without `tool_result` blocks",
    ),
    "result without call": (
        {"tools": [TOOL], "messages": user({"type": "tool_result", "tool_use_id": "toolu_1"})},
        "unexpected `tool_use_id`",
    ),
    "open object": (_object({}, additionalProperties=True), "additionalProperties"),
    "short string": (_object({"a": {"type": "string", "minLength": 1}}), "'minLength' is not supported"),
    "large number": (_object({"a": {"type": "number", "maximum": 9}}), "'maximum' is not supported"),
    "two items": (_object({"a": {"type": "array", "items": STRING, "minItems": 2}}), "minItems"),
    "lookahead": (_object({"a": {"type": "string", "pattern": "(?=a)"}}), "regex"),
    "recursive": (
        _object(
            {"a": {"$ref": "#/$defs/a"}},
            **{"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        ),
        "Recursive",
    ),
    "accented key": (_object({"città": STRING}), "Property keys should match"),
    "17 nullables": (_object({f"c{n}": NULLABLE for n in range(17)}), "limit: 16"),
    "25 optionals": (_object({f"c{n}": STRING for n in range(25)}, required=[]), "limit: 24"),
    "nullable enum": (_object({"a": NULLABLE | {"enum": ["x", None]}}), "does not match declared type"),
    "enum of objects": (_object({"a": {"enum": [{"b": 1}]}}), "Enum values"),
}


class TestRefusals:
    @pytest.mark.parametrize("case", REFUSED)
    async def test_refused(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, case: str) -> None:
        changes, expected = REFUSED[case]
        with pytest.raises((anthropic.BadRequestError, anthropic.NotFoundError)) as caught:
            await client.messages.create(**ask(extra_body=changes.get("extra_body", changes)))
        assert expected in str(caught.value.api_message)
        assert caught.value.request_id
        assert caught.value.type in ("invalid_request_error", "not_found_error")
        (refused,) = claude.take_refused()
        assert refused.message == caught.value.api_message

    @pytest.mark.parametrize(
        "changes",
        [
            {"model": HAIKU, "thinking": {"type": "enabled", "budget_tokens": 2048}},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
            {"model": HAIKU} | _search(allowed_callers=["direct"]),
            {"model": HAIKU, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            {"model": HAIKU, "temperature": 0.2},
            {"messages": user(*[_text(**CACHED)] * 4)},
            {"messages": user(document(title="x" * 500), _image(PNG, "image/png"))},
            {"system": [_text(cache_control={"type": "ephemeral", "ttl": "1h"})]},
            _object({f"c{n}": NULLABLE for n in range(16)}),
            _object({f"c{n}": STRING for n in range(50)}),
        ],
    )
    async def test_accepted(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic, changes: dict[str, Any]
    ) -> None:
        assert (await client.messages.create(**ask(extra_body=changes))).stop_reason == "end_turn"

    async def test_a_refused_request_uses_up_no_script(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(say("tenuto"))
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(**ask(messages=[]))
        assert claude.unused == 1
        assert claude.take_refused()

    async def test_a_failing_script_is_not_overlooked(
        self, claude: ClaudeServer, client: anthropic.AsyncAnthropic
    ) -> None:
        claude.script(lambda seen: say(seen.body["nothing"]))
        with pytest.raises(anthropic.InternalServerError):
            await client.messages.create(**ask())
        (refused,) = claude.take_refused()
        assert "KeyError('nothing')" in refused.message

    async def test_keys_versions_and_paths(self, claude: ClaudeServer) -> None:
        good = _headers(claude)
        async with httpx2.AsyncClient(base_url=claude.url) as http:
            for headers, code in (
                ({}, 401),
                (good | {"authorization": "Bearer other"}, 401),
                (good | {"x-api-key": "other"}, 401),
                ({"authorization": good["authorization"]}, 400),
                (good | {"anthropic-version": "2020-01-01"}, 400),
                ({"x-api-key": claude.key, "anthropic-version": "2023-06-01"}, 200),
            ):
                response = await http.post("/v1/messages", json=ask(), headers=headers)
                assert response.status_code == code
                assert response.headers["request-id"]
            assert (await http.post("/v1/complete", json=ask(), headers=good)).status_code == 404
            assert (await http.get("/v1/messages", headers=good)).status_code == 405
            plain = good | {"content-type": "text/plain"}
            assert (await http.post("/v1/messages", content=b"{}", headers=plain)).status_code == 400
            json = good | {"content-type": "application/json"}
            assert (await http.post("/v1/messages", content=b"{", headers=json)).status_code == 400
            large = await http.post("/v1/messages", content=b" " * (32 * 1024 * 1024 + 1), headers=json)
            assert large.status_code == 413
            assert large.json()["error"]["type"] == "request_too_large"
        assert len(claude.take_refused()) == 10

    async def test_a_tampered_signature(self, claude: ClaudeServer, client: anthropic.AsyncAnthropic) -> None:
        claude.script(answer(think("Penso."), "Ecco."))
        first = await client.messages.create(**ask())
        blocks = [block.to_dict(exclude_none=True) for block in first.content]
        history = [*ask()["messages"], {"role": "assistant", "content": blocks}, *ask()["messages"]]
        assert (await client.messages.create(**ask(messages=history))).stop_reason == "end_turn"
        blocks[0]["thinking"] = "Altro."
        with pytest.raises(anthropic.BadRequestError, match="signature"):
            await client.messages.create(**ask(messages=history))
        assert claude.take_refused()


async def _collect(client: anthropic.AsyncAnthropic, into: list[Any]) -> None:
    """Keeps what came before a failure."""
    async for event in await client.messages.create(**ask(stream=True)):
        into.append(event)  # noqa: PERF401 (a comprehension would lose them)


async def _message(client: anthropic.AsyncAnthropic, streamed: bool, **changes: Any) -> Any:
    if not streamed:
        return await client.messages.create(**ask(**changes))
    async with client.messages.stream(**ask(**changes)) as events:
        return await events.get_final_message()
