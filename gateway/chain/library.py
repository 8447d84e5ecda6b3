"""A project's own documents: taken in, listed, taken out, for a scope.

Two stores, one truth: passages are written under a version that nobody searches, then one commit makes it the live
one. Whatever fails before leaves the document as it was; what the index holds for nobody is forgotten, at the latest by
the hourly sweep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime

import msgspec

from gateway.chain.capabilities import knows
from gateway.chain.current import Current
from gateway.chain.embedders import Embedders, searchable, state_of, unready
from gateway.chain.leases import Leases
from gateway.chain.losses import lost_documents
from gateway.chain.plan import raise_triggered
from gateway.chain.reading import Reading
from gateway.chain.shelves import Shelves
from gateway.domain.clock import Clock
from gateway.domain.errors import (
    BUDGET_EXHAUSTED,
    CONTENT_TOO_LARGE,
    INVALID_REQUEST,
    KNOWLEDGE_NOT_ENABLED,
    KNOWLEDGE_WITHOUT_KEY,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    TOO_MANY_DOCUMENTS,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    UNKNOWN_DOCUMENT,
    Failure,
    StoreAwayError,
)
from gateway.domain.knowledge import MAX_DOCUMENTS, Document, KnowledgeState, Shelf, Uploaded
from gateway.domain.tenants import Operator, Scope
from gateway.knowledge.splitting import split
from gateway.ports import Embedder, Gate, VectorIndex
from gateway.storage.document_rows import Content, Draft, Full, Published, Stale
from gateway.storage.documents import Documents
from gateway.storage.refusals import UnknownError

ROUNDS = 3
"""How often a document is begun anew that was removed while it was replaced."""
LARGEST_ID = 2**63 - 1
TRIGGERED = {
    fault.code: fault
    for fault in (
        INVALID_REQUEST,
        UNAUTHORIZED,
        CONTENT_TOO_LARGE,
        TOO_MANY_REQUESTS,
        BUDGET_EXHAUSTED,
        PROVIDER_ERROR,
        PROVIDER_UNAVAILABLE,
        KNOWLEDGE_NOT_ENABLED,
        TOO_MANY_DOCUMENTS,
        KNOWLEDGE_WITHOUT_KEY,
    )
}
"""What a trigger word in a sandbox's document makes happen."""

log = logging.getLogger(__name__)


class Library:
    """Documents for a scope."""

    def __init__(
        self,
        *,
        current: Current,
        reading: Reading,
        leases: Leases,
        gate: Gate,
        documents: Documents,
        shelves: Shelves,
        embedders: Embedders,
        index: VectorIndex,
        now: Clock,
    ) -> None:
        self._current = current
        self._reading = reading
        self._leases = leases
        self._gate = gate
        self._documents = documents
        self._shelves = shelves
        self._embedders = embedders
        self._index = index
        self._now = now

    # --- for a scope ------------------------------------------------------------------------------------------------

    async def add(self, scope: Scope, name: str, text: str, *, by: Operator | None = None) -> Uploaded:
        """Take a document in; one of the same name is replaced and keeps its id.

        Args:
            by: The operator whose change it is, for the audit.

        Raises:
            Failure: 403 knowledge is off, 503 the embedder has no key, 429 too many documents or no room under the
                cap, 502 and 503 the embedder failed. The earlier document goes on answering.
            StoreAwayError: A store is away; the same.

        """
        _require_leave(scope)
        if scope.project.sandbox:
            raise_triggered(f"{name}\n{text}", TRIGGERED)
        self._current.require_database()
        published = await self._take_in(scope, name, text, at=self._now(), by=by)
        if published is None:
            raise StoreAwayError("a document was removed again and again while it was replaced")
        return published.uploaded

    async def shelf(self, scope: Scope) -> Shelf:
        """Give the project's documents.

        Raises:
            Failure: 403 knowledge is off.
            StoreAwayError: The database does not answer.

        """
        _require_leave(scope)
        self._current.require_database()
        return await self._shelves.now(scope.project.name)

    async def remove(self, scope: Scope, document: int, *, by: Operator | None = None) -> None:
        """Take a document out: its row, its passages and the project's cached answers, all before it returns.

        Raises:
            Failure: 403 knowledge is off; 404, the same for an id that never was and for another project's.
            StoreAwayError: A store is away: done in part or not at all, and a repeat completes it.

        """
        _require_leave(scope)
        self._current.require_database()
        project = scope.project.name
        if not (0 < document <= LARGEST_ID and await self._documents.knows(project, document)):
            raise Failure(UNKNOWN_DOCUMENT)
        await self._index.ping()
        await self._forget_answers(project)
        removed = await self._documents.remove(project, document, self._now(), by=by)
        if removed is None:
            raise Failure(UNKNOWN_DOCUMENT)
        for stale in removed.stale:
            await self._forget(stale)
        await self._forget_answers(project)

    async def state(self, scope: Scope) -> KnowledgeState:
        """Tell what the project's knowledge is now."""
        shelf = await self._shelves.now(scope.project.name)
        return state_of(shelf, self._embedders.of(scope.project), await self._lost(scope, shelf))

    async def outdated(self, scope: Scope, shelf: Shelf) -> Sequence[Document]:
        """Give the documents of a shelf that are not searched: another embedder has read them, or the index lost them."""
        searched = searchable(shelf, self._embedders.of(scope.project)).keys() - await self._lost(
            scope, shelf
        )
        return tuple(document for document in shelf.documents if document.id not in searched)

    async def reindex(self, scope: Scope, *, by: Operator) -> Sequence[str]:
        """Read anew every document that another embedder has read, or that the index has lost; gives their names.

        Raises:
            Failure, StoreAwayError: As `add`; what was done stays done.

        """
        project = scope.project
        shelf = await self._shelves.now(project.name)
        comparable = searchable(shelf, self._embedders.of(project))
        done: list[str] = []
        for document in shelf.documents:
            if document.id in comparable and await self._indexed(project.name, document):
                continue
            kept = await self._documents.text(project.name, document.id)
            if kept is None:
                continue
            found, text = kept
            one = Scope(scope.caller, f"{scope.request_id}-{len(done) + 1}")
            published = await self._take_in(
                one, found.name, text, at=found.uploaded_at, by=by, instead_of=found.version
            )
            if published is not None:
                done.append(found.name)
        return done

    # --- for the whole gateway --------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End what is being read: the server is going down."""
        self._reading.cut()

    async def sweep(self) -> None:
        """Forget what the index has held for nobody for an hour: uploads whose process died, removals cut short."""
        while stale := await self._documents.stale():
            for one in stale:
                await self._forget(one)

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _take_in(
        self,
        scope: Scope,
        name: str,
        text: str,
        *,
        at: datetime,
        by: Operator | None,
        instead_of: int | None = None,
    ) -> Published | None:
        """Read a text and put it in place; None when it was removed or replaced meanwhile, in every round."""
        project, embedder = scope.project.name, self._ready_embedder(scope)
        self._leases.require_gate()
        await self._gate.ping()
        await self._index.ping()  # nothing is paid that could not be kept
        writing = _Writing(await self._begin(scope, name, at))
        try:
            passages = await asyncio.to_thread(split, text)
            content = Content(
                name=name, text=text, passages=len(passages), embedder=embedder.name, uploaded_at=at
            )
            async with self._reading.billed(scope, embedder, passages) as bill:
                vectors = await bill.vectors()
                for _ in range(ROUNDS if instead_of is None else 1):
                    draft = writing.draft or await self._begin(scope, name, at)
                    writing.draft = draft
                    if passages:  # of a text that nobody can see there are none
                        await self._index.write(project, draft.document, draft.version, passages, vectors)
                    await self._forget_answers(project)
                    published = await self._publish(writing, draft, content, instead_of=instead_of, by=by)
                    if published is not None:
                        return published
        finally:
            if writing.draft is not None:
                await asyncio.shield(self._forget_later(writing.draft))
        return None

    async def _publish(
        self,
        writing: _Writing,
        draft: Draft,
        content: Content,
        *,
        instead_of: int | None,
        by: Operator | None,
    ) -> Published | None:
        """Flip; None when the document is not there any more as it was."""
        writing.draft = None  # whatever happens now, only the sweep may say that nobody names its passages
        try:
            verdict = await self._documents.publish(
                draft, content, MAX_DOCUMENTS, instead_of=instead_of, by=by
            )
        except UnknownError:
            await self._forget_later(draft)
            raise Failure(UNAUTHORIZED) from None
        if isinstance(verdict, Published):
            await self._forget_answers(draft.project)
            if verdict.stale is not None:
                await self._forget_later(verdict.stale)
            return verdict
        await self._forget_later(draft)
        if isinstance(verdict, Full):
            raise Failure(TOO_MANY_DOCUMENTS)
        return None

    async def _begin(self, scope: Scope, name: str, at: datetime) -> Draft:
        try:
            begun = await self._documents.begin(scope.project.name, name, MAX_DOCUMENTS, at)
        except UnknownError:  # disabled or removed meanwhile
            raise Failure(UNAUTHORIZED) from None
        if isinstance(begun, Full):
            raise Failure(TOO_MANY_DOCUMENTS)
        return begun

    async def _lost(self, scope: Scope, shelf: Shelf) -> frozenset[int]:
        """What the index has lost; of one that does not answer nothing is said."""
        project = scope.project
        try:
            return await lost_documents(
                project.name, shelf, self._embedders.of(project), shelves=self._shelves, index=self._index
            )
        except StoreAwayError:
            return frozenset()

    async def _indexed(self, project: str, document: Document) -> bool:
        """Whether the index still has a document's passages; one that is away altogether is noticed when it is written."""
        try:
            found = await self._index.passages(project, document.id, document.version)
        except StoreAwayError:
            return False
        return len(found) == document.passages

    def _ready_embedder(self, scope: Scope) -> Embedder:
        embedder = self._embedders.of(scope.project)
        if not embedder.ready:
            raise unready(embedder)
        return embedder

    async def _forget_answers(self, project: str) -> None:
        try:
            self._leases.require_gate()
            await self._gate.forget_answers(project)
        except StoreAwayError:
            await self._leases.gate_lost()
            raise

    async def _forget(self, stale: Stale | Draft) -> None:
        await self._index.forget(stale.project, stale.document, stale.version)
        await self._documents.forgotten(stale)

    async def _forget_later(self, stale: Stale | Draft) -> None:
        """Forget now, or leave it to the sweep: nobody searches it."""
        try:
            await self._forget(stale)
        except StoreAwayError as error:
            log.warning("passages that nobody names are forgotten later: %s", error)


class _Writing(msgspec.Struct):
    """An upload's version as long as nobody can name it: it is forgotten when the upload ends so."""

    draft: Draft | None


def _require_leave(scope: Scope) -> None:
    """An operator may prepare documents before the knowledge is switched on; a partner may not."""
    if scope.caller.by is None and not knows(scope.project):
        raise Failure(KNOWLEDGE_NOT_ENABLED)
