"""One suite over all embedders: OpenAI (behind its fake), the local model, the sandbox's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import numpy as np
import numpy.typing as npt
import pytest
import pytest_asyncio

from gateway.knowledge.embedding import OpenAIEmbedder
from gateway.knowledge.lexical import LexicalEmbedder
from gateway.knowledge.local import LocalEmbedder
from gateway.ports import Embedder
from gateway.providers.openai import OpenAI
from tests.fakes import OpenAIServer
from tests.unit.providers.stage import open_transport

PASSAGES = (
    "Le ferie si chiedono al responsabile con dieci giorni di anticipo, sul portale del personale.",
    "La caldaia va controllata ogni anno da un tecnico abilitato, che pulisce il bruciatore.",
    "I libri della biblioteca si prendono in prestito per trenta giorni e si restituiscono al banco.",
)
ASKED = (
    "Con quanti giorni di anticipo si chiedono le ferie?",
    "Ogni quanto un tecnico controlla la caldaia?",
    "Per quanti giorni si prendono in prestito i libri?",
)
HOSTILE = (
    "\0",
    "a\0b",
    ".",
    "il la di",
    "…!?",
    "x" * 1_200,
    "👩‍👩‍👧‍👦" * 150,
    "\u202eabc\u202c",
    "<script>alert('ciao')</script>",
    "漢字かな交じり文",
    "e" + "\u0301" * 1_000,
    "\u200d" * 50,
    "12 57",
)


@pytest.fixture(scope="module")
def fake() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["openai", "locale", "prova"])
async def embedder(request: pytest.FixtureRequest, fake: OpenAIServer) -> AsyncIterator[Embedder]:
    async with AsyncExitStack() as held:
        if request.param == "openai":
            transport = await held.enter_async_context(open_transport())
            yield OpenAIEmbedder(OpenAI(transport, fake.key, fake.url))
        elif request.param == "prova":
            yield LexicalEmbedder()
        else:
            # The machine of a test may be busy: the port's 5 seconds are tried with a model that is.
            local = LocalEmbedder(question_seconds=60)
            held.push_async_callback(local.aclose)
            yield local
    assert not fake.take_refused()


pytestmark = pytest.mark.asyncio(loop_scope="module")


def numbers(vector: bytes) -> npt.NDArray[np.float32]:
    return np.frombuffer(vector, "<f4")


async def question(embedder: Embedder, text: str) -> npt.NDArray[np.float32]:
    embedded = await embedder.embed_question(text)
    assert len(embedded.vectors) == 1
    return numbers(embedded.vectors[0])


async def test_it_says_who_it_is(embedder: Embedder) -> None:
    assert embedder.ready
    assert embedder.name.startswith(f"{embedder.provider}:")
    assert embedder.model in embedder.name
    assert 0 < embedder.floor < 1


async def test_vectors_have_unit_length_and_the_order_of_the_texts(embedder: Embedder) -> None:
    embedded = await embedder.embed_passages(PASSAGES)
    assert len(embedded.vectors) == len(PASSAGES)
    assert len({len(vector) for vector in embedded.vectors}) == 1
    for passage, vector in zip(PASSAGES, embedded.vectors, strict=True):
        assert abs(np.linalg.norm(numbers(vector)) - 1) < 1e-5
        alone = (await embedder.embed_passages((passage,))).vectors[0]
        assert np.allclose(numbers(alone), numbers(vector), atol=1e-5)
    assert (embedded.tokens > 0) is (embedder.provider == "openai")


async def test_a_question_is_nearest_to_what_answers_it(embedder: Embedder) -> None:
    vectors = np.stack([numbers(vector) for vector in (await embedder.embed_passages(PASSAGES)).vectors])
    for place, text in enumerate(ASKED):
        similarities = vectors @ await question(embedder, text)
        assert similarities.argmax() == place
        assert similarities[place] >= embedder.floor
    assert (vectors @ await question(embedder, "Wer malte das Bild?")).max() < embedder.floor


async def test_nothing_to_read(embedder: Embedder) -> None:
    assert (await embedder.embed_passages(())).vectors == ()
    assert (await embedder.embed_passages(())).tokens == 0


async def test_hostile_texts_have_vectors_too(embedder: Embedder) -> None:
    embedded = await embedder.embed_passages(HOSTILE)
    asked = [(await embedder.embed_question(text)).vectors[0] for text in HOSTILE]
    for vector in (*embedded.vectors, *asked):
        assert np.isfinite(numbers(vector)).all()
        assert abs(np.linalg.norm(numbers(vector)) - 1) < 1e-5


async def test_a_long_question_is_judged_by_its_beginning(embedder: Embedder) -> None:
    beginning = "Quanti giorni di ferie spettano? È così 👍. " * 300
    long, longer = beginning + "caldaia " * 4_000, beginning + "biblioteca " * 6_000
    assert np.array_equal(await question(embedder, long), await question(embedder, longer))


async def test_many_at_once_are_answered_as_one_alone(embedder: Embedder) -> None:
    alone = [await question(embedder, text) for text in ASKED]
    reading = asyncio.create_task(embedder.embed_passages(PASSAGES * 3))
    together = await asyncio.gather(*(question(embedder, text) for text in ASKED * 4))
    for place, vector in enumerate(together):
        assert np.allclose(vector, alone[place % len(ASKED)], atol=1e-5)
    vectors = (await reading).vectors
    assert vectors[: len(PASSAGES)] == vectors[-len(PASSAGES) :]


async def test_names_differ(fake: OpenAIServer) -> None:
    async with open_transport() as transport:
        openai = OpenAIEmbedder(OpenAI(transport, None))
        assert not openai.ready
        names = {openai.name, LocalEmbedder().name, LexicalEmbedder().name}
    assert len(names) == 3
