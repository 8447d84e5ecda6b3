"""Documents that the index has lost: the database calls them live, and nobody finds them until they are made anew."""

from __future__ import annotations

from gateway.chain.shelves import Shelves
from gateway.domain.knowledge import Shelf
from gateway.ports import Embedder, VectorIndex


def expected(shelf: Shelf, embedder: Embedder) -> dict[int, int]:
    """The live versions that the index has passages of, by document, if it has lost none."""
    return {
        document.id: document.version
        for document in shelf.documents
        if document.passages and document.embedder == embedder.name
    }


async def lost_documents(
    project: str, shelf: Shelf, embedder: Embedder, *, shelves: Shelves, index: VectorIndex
) -> frozenset[int]:
    """Give the documents of a shelf that the index has lost, of those whose vectors could be compared.

    Raises:
        StoreAwayError: A store does not answer.

    """
    live = expected(shelf, embedder)
    missing = live.keys() - await index.held(project, live)
    if not missing:
        return frozenset()
    # What was replaced or taken out since the shelf was read is not lost.
    now = expected(await shelves.now(project), embedder)
    return frozenset(document for document in missing if now.get(document) == live[document])
