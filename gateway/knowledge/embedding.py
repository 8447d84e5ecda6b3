"""OpenAI as an embedder: texts in requests that the API takes, replies believed only as far as they are checked."""

from __future__ import annotations

import asyncio
import binascii
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Protocol

import msgspec
import numpy as np

from gateway.knowledge.patience import Patience, ask
from gateway.knowledge.texts import beginning
from gateway.knowledge.vectors import Matrix, unit_vectors
from gateway.ports import Embedded, ProviderError, Trouble

DIMENSIONS = 1_536
MOST_TEXTS = 2_048
"""Of one request, says the API."""
MOST_TOKENS = 300_000
"""Of one request, says the API. Here bytes are counted: no token is less than one."""
MOST_TEXT_BYTES = 8_000
"""Of one text; the API takes 8,191 tokens."""
UPLOAD = Patience(attempts=3, attempt_seconds=60.0, seconds=300.0)
QUESTION = Patience(attempts=2, attempt_seconds=3.0, seconds=5.0)
_READ_IN_A_THREAD = 16
"""Vectors; reading more would hold up the event loop."""


class OpenAIApi(Protocol):
    """Who posts JSON to OpenAI's API: the provider of that name."""

    @property
    def ready(self) -> bool:
        """Whether there is a key."""
        ...

    async def post(self, path: str, body: bytes) -> bytes:
        """Post once to a path of the API and give the body of the 2xx reply.

        Raises:
            ProviderError: There was none.

        """
        ...


class _Request(msgspec.Struct, frozen=True):
    model: str
    input: Sequence[str]
    encoding_format: str = "base64"


class _Item(msgspec.Struct, frozen=True):
    index: int
    embedding: str


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]


class _Reply(msgspec.Struct, frozen=True):
    data: list[_Item]
    usage: _Usage


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Reply).decode


class OpenAIEmbedder:
    """The model text-embedding-3-small."""

    name = "openai:text-embedding-3-small"
    provider = "openai"
    model = "text-embedding-3-small"
    floor = 0.25

    def __init__(self, api: OpenAIApi, *, upload: Patience = UPLOAD, question: Patience = QUESTION) -> None:
        self._api = api
        self._upload = upload
        self._question = question

    @property
    def ready(self) -> bool:
        """Whether a key is configured."""
        return self._api.ready

    async def embed_passages(self, texts: Sequence[str]) -> Embedded:
        """Vectors of a document's passages.

        Raises:
            ProviderError: They could not be had; what was paid for some of them is said.

        """
        deadline = time.monotonic() + self._upload.seconds
        vectors: list[bytes] = []
        bill = _Bill()
        try:
            for batch in batches(texts):
                vectors += await ask(partial(self._embed, batch, bill), self._upload, deadline)
        except ProviderError as error:
            error.billed_tokens = bill.tokens
            raise
        return Embedded(tuple(vectors), bill.tokens)

    async def embed_question(self, text: str) -> Embedded:
        """The vector of one question, or of its beginning.

        Raises:
            ProviderError: It could not be had.

        """
        deadline = time.monotonic() + self._question.seconds
        bill = _Bill()
        texts = (beginning(text, MOST_TEXT_BYTES),)
        try:
            vectors = await ask(partial(self._embed, texts, bill), self._question, deadline)
        except ProviderError as error:
            error.billed_tokens = bill.tokens
            raise
        return Embedded(vectors, bill.tokens)

    async def _embed(self, texts: Sequence[str], bill: _Bill) -> tuple[bytes, ...]:
        """Make one attempt at one request."""
        body = await self._api.post("embeddings", _encode(_Request(self.model, texts)))
        if len(texts) < _READ_IN_A_THREAD:
            return _read(body, len(texts), bill)
        return await asyncio.to_thread(_read, body, len(texts), bill)


class _Bill:
    """Tokens of all replies, those that turned out to be unusable too."""

    def __init__(self) -> None:
        self.tokens = 0


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in their order, in as few requests as the API allows."""
    batch: list[str] = []
    held = 0
    for text in texts:
        size = len(text.encode())
        if batch and (len(batch) == MOST_TEXTS or held + size > MOST_TOKENS):
            yield batch
            batch, held = [], 0
        batch.append(text)
        held += size
    if batch:
        yield batch


def _read(body: bytes, count: int, bill: _Bill) -> tuple[bytes, ...]:
    """Take the vectors out of a reply.

    Raises:
        ProviderError: It is none, or not one vector of the right length for each text.

    """
    reply = _decoded(body)
    bill.tokens += reply.usage.prompt_tokens
    items = sorted(reply.data, key=lambda item: item.index)
    if [item.index for item in items] != list(range(count)):
        raise _faulty("a reply without one vector for each text")
    try:
        return unit_vectors(np.stack([_row(item.embedding) for item in items]))
    except ValueError:  # binascii.Error is one
        pass
    raise _faulty("a reply with a vector that is none")


def _row(packed: str) -> Matrix:
    """One vector out of its base64.

    Raises:
        ValueError: It is none.

    """
    row = np.frombuffer(binascii.a2b_base64(packed, strict_mode=True), "<f4")
    if len(row) != DIMENSIONS:
        raise ValueError("a vector of another length")
    return row


def _decoded(body: bytes) -> _Reply:
    try:
        return _decode(body)
    except msgspec.DecodeError:
        pass
    # Raised outside the handler: the decoder's words may quote the body.
    raise _faulty("a reply that holds no vectors")


def _faulty(what: str) -> ProviderError:
    return ProviderError(Trouble.FAULTY, what)
