"""An operator's look into a project's documents: the passages as they were cut, and what a question would find."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.chain.embedders import Embedders, searchable, unready
from gateway.chain.reading import Reading
from gateway.chain.shelves import Shelves
from gateway.domain.errors import UNKNOWN_DOCUMENT, Failure
from gateway.domain.knowledge import Document
from gateway.domain.tenants import Scope
from gateway.knowledge.retrieval import CANDIDATES, choose, search_floor
from gateway.ports import VectorIndex

MAX_QUESTION_CHARACTERS = 8_000


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that resembles a question. `given` says that it would stand before the question in a call."""

    document: Document
    passage: int
    similarity: float
    text: str
    given: bool


class Finding(msgspec.Struct, frozen=True):
    """What a question finds, the most similar first, and what asking has cost (micro-dollars)."""

    found: tuple[Found, ...]
    cost: int


class Looking:
    """Looks into documents for a scope; nothing is changed but the ledger."""

    def __init__(
        self, *, shelves: Shelves, embedders: Embedders, index: VectorIndex, reading: Reading
    ) -> None:
        self._shelves = shelves
        self._embedders = embedders
        self._index = index
        self._reading = reading

    async def passages(self, scope: Scope, document: int) -> tuple[Document, Sequence[str]]:
        """Give a live document and its passages as the index has them: fewer than it should, if it has lost some.

        Raises:
            Failure: 404, the project has no document of this id.
            StoreAwayError: A store is away.

        """
        project = scope.project.name
        for one in (await self._shelves.now(project)).documents:
            if one.id == document:
                return one, await self._index.passages(project, one.id, one.version)
        raise Failure(UNKNOWN_DOCUMENT)

    async def search(self, scope: Scope, question: str) -> Finding:
        """Find what a call with this question would find; its vector is paid and booked like an upload's.

        Raises:
            Failure: 503 the embedder has no key, 429 no room under the cap, 502 and 503 the embedder failed.
            StoreAwayError: A store is away.

        """
        embedder, project = self._embedders.of(scope.project), scope.project.name
        shelf = await self._shelves.now(project)
        live = searchable(shelf, embedder)
        if not live:
            return Finding((), 0)
        if not embedder.ready:
            raise unready(embedder)
        await self._index.ping()  # nothing is paid that could not be used
        async with self._reading.billed(scope, embedder, (question,)) as bill:
            vector = await bill.question()
        floor = search_floor(question, embedder.floor)
        matches = await self._index.search(project, live, vector, CANDIDATES, floor)
        given = {(match.document, match.passage) for match in choose(question, matches, embedder.floor)}
        documents = {document.id: document for document in shelf.documents}
        found = (
            Found(
                document=documents[match.document],
                passage=match.passage,
                similarity=match.similarity,
                text=match.text,
                given=(match.document, match.passage) in given,
            )
            for match in matches
        )
        return Finding(tuple(found), sum(attempt.cost for attempt in bill.attempts))
