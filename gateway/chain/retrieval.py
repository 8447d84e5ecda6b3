"""One call's look into the project's documents, after it was let in: what stands before its question, and what that cost.

It never refuses: whatever is away, the call goes on without documents and says so.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from gateway.chain.embedders import PAID_PROVIDERS, Embedders, attempt_of, price_of, searchable
from gateway.chain.losses import expected, lost_documents
from gateway.chain.shelves import Shelves
from gateway.chain.snapshot import Snapshot
from gateway.domain.calls import Attempt
from gateway.domain.catalog import Recipe
from gateway.domain.errors import Failure, StoreAwayError
from gateway.domain.knowledge import Passage, Source
from gateway.domain.tenants import Permission, Project, Scope
from gateway.domain.usage import Price
from gateway.knowledge.questions import QuestionCache
from gateway.knowledge.retrieval import CANDIDATES, choose, passages_block, search_floor
from gateway.ports import Embedder, Match, ProviderError, VectorIndex

RETRIEVAL_SECONDS = 5.0
MOST_BLOCK_BYTES = 16_000
"""What the passages of a call may weigh, with the words around them; those that resemble least are left out beyond."""

log = logging.getLogger(__name__)


class Consultation(msgspec.Struct, frozen=True):
    """That a call is answered with the project's documents, as planned.

    Attributes:
        version: Of the knowledge when the call was planned.
        embedder: Name of the one who reads the question.
        filled: There are documents to look into.
        comparable: Some of them were read by this embedder.
        worst_case: Micro-dollars that reading the question can cost at most.

    """

    version: int
    embedder: str
    filled: bool
    comparable: bool
    worst_case: int

    @property
    def block_bytes(self) -> int:
        """What the passages may weigh."""
        return MOST_BLOCK_BYTES if self.comparable else 0


class Consulting:
    """The knowledge base, as calls use it."""

    def __init__(
        self, shelves: Shelves, embedders: Embedders, index: VectorIndex, questions: QuestionCache
    ) -> None:
        self._shelves = shelves
        self._embedders = embedders
        self._index = index
        self._questions = questions

    async def plan(
        self, scope: Scope, recipe: Recipe, question: str, snapshot: Snapshot
    ) -> Consultation | None:
        """Say whether a call looks into the documents; of calls that don't, nothing is read.

        Raises:
            StoreAwayError: The database does not answer.

        """
        project = scope.project
        if not (recipe.knowledge and project.may(Permission.KNOWLEDGE)):
            return None
        shelf = await self._shelves.now(project.name)
        embedder = self._embedders.of(project)
        price = _price(snapshot, embedder)
        comparable = bool(searchable(shelf, embedder))
        worst_case = price.worst_case(len(question.encode()), 0) if comparable and price else 0
        return Consultation(shelf.version, embedder.name, bool(shelf.documents), comparable, worst_case)

    def begin(
        self, scope: Scope, question: str, planned: Consultation | None, snapshot: Snapshot
    ) -> Retrieval | None:
        """Give the look that was planned; None when there is nothing to look into."""
        if planned is None or not planned.filled:
            return None
        embedder = self._embedders.of(scope.project)
        parts = _Parts(self._shelves, embedder, self._index, self._questions, _price(snapshot, embedder))
        return Retrieval(parts, scope.project, question, planned, scope.request_id)


class _Parts(msgspec.Struct, frozen=True):
    """Who is asked for a look, and at which price."""

    shelves: Shelves
    embedder: Embedder
    index: VectorIndex
    questions: QuestionCache
    price: Price | None


class Retrieval:
    """One look.

    After (or in the middle of) it, the attributes tell what became of it; they are right also when it is cut.
    """

    def __init__(
        self, parts: _Parts, project: Project, question: str, planned: Consultation, request_id: str
    ) -> None:
        self._parts = parts
        self._project = project
        self._question = question
        self._planned = planned
        self._request_id = request_id
        self.sources: tuple[Source, ...] = ()
        """Where the passages are from, in the order of their block."""
        self.unavailable = False
        """Something that was needed is away: the answer is given without documents."""
        self.changed = False
        """The documents have changed since the call was planned: its answer is not kept for others."""
        self.incomplete = False
        """The index has lost documents: likewise."""
        self.attempts: list[Attempt] = []
        """That the embedder was asked, if it was."""

    async def block(self) -> str:
        """Give what stands before the question; empty when there is nothing to say."""
        try:
            async with asyncio.timeout(RETRIEVAL_SECONDS):
                return await self._look()
        except (ProviderError, StoreAwayError, TimeoutError) as error:
            log.warning(
                "answering without documents: %s",
                str(error) or "no answer in time",
                extra={"request": self._request_id},
            )
            self.unavailable = True
            return ""

    async def _look(self) -> str:
        parts, project = self._parts, self._project
        if not self._planned.comparable:
            raise StoreAwayError("the documents were read by another embedder (pepper knowledge reindex)")
        vector = await self._vector()
        shelf = await parts.shelves.now(project.name)  # as they are now, however long the embedder took
        self.changed = shelf.version != self._planned.version
        names = {document.id: document.name for document in shelf.documents}
        floor = parts.embedder.floor
        matches, lost = await asyncio.gather(
            parts.index.search(
                project.name,
                searchable(shelf, parts.embedder),
                vector,
                CANDIDATES,
                search_floor(self._question, floor),
            ),
            lost_documents(project.name, shelf, parts.embedder, shelves=parts.shelves, index=parts.index),
        )
        if lost:
            self.incomplete = True
            log.warning(
                "the index has lost %d documents of project %s (pepper knowledge reindex)",
                len(lost),
                project.name,
                extra={"request": self._request_id},
            )
            if lost >= expected(shelf, parts.embedder).keys():
                raise StoreAwayError("none of the documents could be searched")
        passages = [
            _passage(match, names[match.document]) for match in choose(self._question, matches, floor)
        ]
        block = passages_block(passages)
        while passages and len(block.encode()) > MOST_BLOCK_BYTES:
            passages.pop()
            block = passages_block(passages)
        self.sources = tuple(passage.source for passage in passages)
        return block

    async def _vector(self) -> bytes:
        """The question's vector, remembered for the same question of the same project."""
        questions, embedder, project = self._parts.questions, self._parts.embedder, self._project.name
        kept = questions.get(project, embedder.name, self._question)
        if kept is not None:
            return kept
        if not embedder.ready:
            raise StoreAwayError(f"the embedder {embedder.name} can't be asked")
        if self._parts.price is None and embedder.provider in PAID_PROVIDERS:
            raise StoreAwayError(f"model {embedder.model} has no price")
        started, outcome, tokens = time.monotonic(), "interrotta", 0
        try:
            embedded = await embedder.embed_question(self._question)
            outcome, tokens = "ok", embedded.tokens
        except ProviderError as error:
            outcome, tokens = error.trouble.value, error.billed_tokens
            raise
        finally:
            seconds = time.monotonic() - started
            self.attempts.append(
                attempt_of(embedder, self._parts.price, outcome, tokens=tokens, seconds=seconds)
            )
        questions.put(project, embedder.name, self._question, embedded.vectors[0])
        return embedded.vectors[0]


def _passage(match: Match, document: str) -> Passage:
    return Passage(Source(document, match.passage, match.similarity), match.text)


def _price(snapshot: Snapshot, embedder: Embedder) -> Price | None:
    """The price, if there is one: a call goes on without documents rather than not at all."""
    try:
        return price_of(snapshot, embedder)
    except Failure:
        return None
