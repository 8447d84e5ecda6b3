"""OpenAI as an embedder: what is sent, what is believed of the replies, how often it is asked, what it cost."""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio

from gateway.knowledge import embedding, patience
from gateway.knowledge.embedding import DIMENSIONS, MOST_TEXTS, MOST_TOKENS, OpenAIEmbedder, batches
from gateway.knowledge.patience import Patience
from gateway.knowledge.texts import beginning
from gateway.ports import ProviderError, Trouble
from gateway.providers.openai import OpenAI
from tests.fakes import OpenAIServer, drop, hang, html, redirect, say, status, wrong_shape
from tests.fakes.openai_server import EMBEDDINGS
from tests.unit.providers.stage import open_transport

SHORT = Patience(attempts=2, attempt_seconds=0.3, seconds=1.0)


@pytest.fixture
def fake() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BACKOFF_SECONDS", (0.01, 0.02))


@pytest_asyncio.fixture
async def embedder(fake: OpenAIServer) -> AsyncIterator[OpenAIEmbedder]:
    async with AsyncExitStack() as held:
        transport = await held.enter_async_context(open_transport())
        yield OpenAIEmbedder(OpenAI(transport, fake.key, fake.url))


class Api:
    """Somebody who answers every request with the same bytes."""

    ready = True

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.asked = 0

    async def post(self, path: str, body: bytes) -> bytes:
        self.asked += 1
        return self._body


def packed(*values: float, dimensions: int = DIMENSIONS) -> str:
    row = [*values, *[0.0] * (dimensions - len(values))]
    return base64.b64encode(array("f", row).tobytes()).decode()


def reply(*items: dict[str, Any], tokens: Any = 7, **more: Any) -> bytes:
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return msgspec.json.encode({"object": "list", "data": items} | usage | more)


def item(index: int = 0, *values: float, **more: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": packed(*(values or (1.0,)))} | more


class TestRequests:
    async def test_what_is_sent(self, fake: OpenAIServer, embedder: OpenAIEmbedder) -> None:
        await embedder.embed_passages(["Uno", "Due"])
        await embedder.embed_question("Tre?")
        assert [seen.body for seen in fake.seen] == [
            {"model": "text-embedding-3-small", "input": texts, "encoding_format": "base64"}
            for texts in (["Uno", "Due"], ["Tre?"])
        ]

    async def test_a_question_is_cut_between_characters(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder
    ) -> None:
        await embedder.embed_question("a" + "è" * 100_000)
        [sent] = fake.seen[0].body["input"]
        assert sent == "a" + "è" * 3_999

    async def test_batches_keep_within_the_limits_of_the_api(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder
    ) -> None:
        texts = [f"{number} " + "漢" * 1_190 for number in range(200)]
        embedded = await embedder.embed_passages(texts)
        assert len(embedded.vectors) == len(texts)
        sent = [seen.body["input"] for seen in fake.seen]
        assert list(chain.from_iterable(sent)) == texts
        assert all(sum(len(text.encode()) for text in batch) <= MOST_TOKENS for batch in sent)
        assert len(sent) == 3
        assert embedded.tokens == sum(len(text) // 4 + 1 for text in texts)

    def test_many_short_texts_are_batches_too(self) -> None:
        assert [len(batch) for batch in batches(["x"] * (2 * MOST_TEXTS + 1))] == [MOST_TEXTS, MOST_TEXTS, 1]

    def test_no_text_is_no_batch(self) -> None:
        assert list(batches(())) == []

    @pytest.mark.parametrize("text", ["", "abc", "àèì", "👩‍👩‍👧‍👦", "a👍b"])
    def test_a_beginning_is_as_long_as_allowed_and_whole(self, text: str) -> None:
        for most in range(30):
            cut = beginning(text, most)
            assert text.startswith(cut)
            assert len(cut.encode()) <= most
            assert cut == text or len(text[: len(cut) + 1].encode()) > most


class TestReplies:
    @pytest.mark.parametrize(
        "body",
        [
            b"<html>",
            b"",
            b"[]",
            b"{}",
            reply(item(), tokens=None),
            reply(item(), tokens=-1),
            reply(item(), tokens="7"),
            reply(),
            reply(item(), item(1)),
            reply(item(1)),
            reply(item(), item()),
            reply(item(embedding=packed(1.0, dimensions=DIMENSIONS - 1))),
            reply(item(embedding=packed(1.0, dimensions=DIMENSIONS + 1))),
            reply(item(embedding=packed(1.0, dimensions=2 * DIMENSIONS))),
            reply(item(embedding="")),
            reply(item(embedding="è" + packed(1.0)[1:])),
            reply(item(embedding=packed(1.0)[:-1])),
            reply(item(embedding=[1.0] * DIMENSIONS)),
            reply(item(0, 0.0)),
            reply(item(0, math.nan)),
            reply(item(0, math.inf)),
            reply(item(0, -math.inf, 1.0)),
            reply(item(0, 1e-30)),
            reply(item() | {"index": "0"}),
        ],
    )
    async def test_what_is_no_answer_is_not_believed(self, body: bytes) -> None:
        api = Api(body)
        embedder = OpenAIEmbedder(api)
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_question("Che cosa?")
        assert caught.value.trouble is Trouble.FAULTY
        assert api.asked == embedding.QUESTION.attempts

    async def test_the_order_is_the_indexes(self) -> None:
        api = Api(reply(item(1, 0.0, 1.0), item(0, 1.0)))
        vectors = (await OpenAIEmbedder(api).embed_passages(["uno", "due"])).vectors
        assert [int(np.frombuffer(vector, "<f4").argmax()) for vector in vectors] == [0, 1]

    @pytest.mark.parametrize("value", [1e-3, 0.5, 3.0, 3e38])
    async def test_length_is_made_one(self, value: float) -> None:
        [vector] = (await OpenAIEmbedder(Api(reply(item(0, value, value)))).embed_question("x")).vectors
        assert np.linalg.norm(np.frombuffer(vector, "<f4")) == pytest.approx(1)

    async def test_unknown_fields_are_none_of_our_business(self) -> None:
        api = Api(reply(item(0, 1.0, neu=1), model="altro", neu=[]))
        assert (await OpenAIEmbedder(api).embed_question("x")).tokens == 7

    async def test_what_was_paid_for_nothing_is_said(self) -> None:
        with pytest.raises(ProviderError) as caught:
            await OpenAIEmbedder(Api(reply(item(0, 0.0)))).embed_passages(["x"])
        assert caught.value.billed_tokens == 7 * embedding.UPLOAD.attempts


class TestPatience:
    @pytest.mark.parametrize(
        "trouble", [status(429), status(500), status(503), status(529), html(), wrong_shape(), drop()]
    )
    async def test_an_upload_is_tried_three_times(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder, trouble: Any
    ) -> None:
        fake.script(trouble, trouble, say(""), on=EMBEDDINGS)
        assert len((await embedder.embed_passages(["Uno"])).vectors) == 1
        assert len(fake.seen) == 3
        fake.script(trouble, trouble, trouble, on=EMBEDDINGS)
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_passages(["Uno"])
        assert caught.value.trouble.repeatable
        assert fake.unused == 0

    async def test_a_question_is_tried_twice(self, fake: OpenAIServer, embedder: OpenAIEmbedder) -> None:
        fake.script(status(500), say(""), status(500), status(500), on=EMBEDDINGS)
        await embedder.embed_question("Uno?")
        with pytest.raises(ProviderError):
            await embedder.embed_question("Due?")
        assert fake.unused == 0

    @pytest.mark.parametrize("code", [400, 401, 403, 404])
    async def test_a_refusal_is_not_tried_again(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder, code: int
    ) -> None:
        fake.script(status(code, message="la chiave segreta"), on=EMBEDDINGS)
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_passages(["Uno"])
        assert caught.value.trouble is Trouble.REJECTED
        assert "segreta" not in caught.value.reason
        assert len(fake.seen) == 1

    async def test_no_redirect_is_followed(self, fake: OpenAIServer, embedder: OpenAIEmbedder) -> None:
        fake.script(redirect(f"{fake.url}/embeddings"), on=EMBEDDINGS)
        with pytest.raises(ProviderError):
            await embedder.embed_passages(["Uno"])
        assert len(fake.seen) == 1

    async def test_the_wait_asked_for_is_kept_if_it_is_short(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder
    ) -> None:
        fake.script(status(429, headers={"retry-after-ms": "20"}), say(""), on=EMBEDDINGS)
        await embedder.embed_passages(["Uno"])
        fake.script(status(429, retry_after=21), on=EMBEDDINGS)
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_passages(["Uno"])
        assert caught.value.retry_after == 21
        assert fake.unused == 0

    async def test_a_question_has_no_time_for_a_long_wait(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder
    ) -> None:
        fake.script(status(429, retry_after=6), on=EMBEDDINGS)
        with pytest.raises(ProviderError):
            await embedder.embed_question("Uno?")
        assert len(fake.seen) == 1

    async def test_silence_ends(self, fake: OpenAIServer) -> None:
        fake.script(hang(), hang(), on=EMBEDDINGS)
        async with open_transport() as transport:
            embedder = OpenAIEmbedder(OpenAI(transport, fake.key, fake.url), question=SHORT)
            with pytest.raises(ProviderError) as caught:
                await embedder.embed_question("Uno?")
        assert caught.value.trouble is Trouble.TIMEOUT
        assert len(fake.seen) == 2

    async def test_without_a_key_nobody_is_asked(self, fake: OpenAIServer) -> None:
        async with open_transport() as transport:
            embedder = OpenAIEmbedder(OpenAI(transport, " ", fake.url))
            assert not embedder.ready
            with pytest.raises(ProviderError) as caught:
                await embedder.embed_question("Uno?")
        assert caught.value.trouble is Trouble.REJECTED
        assert fake.seen == []

    async def test_a_failure_in_the_middle_tells_what_was_paid(
        self, fake: OpenAIServer, embedder: OpenAIEmbedder
    ) -> None:
        texts = ["漢" * 1_200] * 100
        fake.script(say("", input_tokens=1_000), status(400), on=EMBEDDINGS)
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_passages(texts)
        assert caught.value.billed_tokens == 1_000

    def test_an_upload_has_the_patience_of_a_call_and_a_question_five_seconds(self) -> None:
        assert embedding.UPLOAD.attempts == 3
        assert embedding.UPLOAD.seconds == 300
        assert embedding.QUESTION.attempts == 2
        assert embedding.QUESTION.seconds == 5
