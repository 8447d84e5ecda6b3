"""The projects' live documents as the database has them at this moment.

Each use asks the database for the version, so no process ever searches what another has replaced or removed; the rows
behind a version that is known are not read again.
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.domain.knowledge import Shelf
from gateway.storage.documents import Documents

MOST_SHELVES = 500
"""Projects whose documents' rows are remembered, the one asked for least lately goes first."""


class Shelves:
    """One process's view of all shelves."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: OrderedDict[str, Shelf] = OrderedDict()

    async def now(self, project: str) -> Shelf:
        """Give a project's live documents.

        Raises:
            StoreAwayError: The database does not answer.

        """
        known = self._known.get(project)
        if known is None or known.version != await self._documents.version(project):
            known = self._known[project] = await self._documents.shelf(project)
        self._known.move_to_end(project)
        if len(self._known) > MOST_SHELVES:
            self._known.popitem(last=False)
        return known
