"""The present configuration: a snapshot that is replaced within two seconds of a change.

While the database is away the last snapshot stays, so that a valid key is never answered 401; `healthy` tells that
new work has to be refused.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from gateway.chain.snapshot import Snapshot
from gateway.domain.catalog import Recipe
from gateway.domain.errors import StoreAwayError
from gateway.domain.operator_settings import PanelSettings
from gateway.domain.tenants import Project
from gateway.storage.configuration import Installation, read_configuration, read_revision
from gateway.storage.database import Database

log = logging.getLogger(__name__)


class Current:
    """Holds the snapshot."""

    def __init__(
        self,
        database: Database,
        files: Mapping[str, Recipe],
        objection: Callable[[], Awaitable[str | None]],
        adopt: Callable[[PanelSettings], None] | None = None,
    ) -> None:
        """Hold nothing yet.

        Args:
            objection: Says, once the database answers, why it must not be used (None: nothing).
            adopt: Told what owners have set in the panel, with each new snapshot.

        """
        self._objection = objection
        self._adopt = adopt
        self._database = database
        self._files = files
        self._snapshot: Snapshot | None = None
        self.healthy = False

    @property
    def snapshot(self) -> Snapshot:
        """The newest one.

        Raises:
            StoreAwayError: None was ever read.

        """
        if self._snapshot is None:
            raise StoreAwayError("the configuration has not been read yet")
        return self._snapshot

    def require_database(self) -> None:
        """Refuse new work while the database is known to be away.

        Raises:
            StoreAwayError: It is.

        """
        if not self.healthy:
            raise StoreAwayError("the database does not answer")

    def lost(self) -> None:
        """The database did not answer somebody else: new work is refused until it answers again."""
        self.healthy = False

    async def snapshot_for(self, project: Project) -> Snapshot:
        """The newest snapshot; read anew if the project talks to a brain that it doesn't know yet."""
        if project.brain is not None and project.brain not in self.snapshot.brains:
            await self.refresh()
        return self.snapshot

    async def refresh(self) -> Installation | None:
        """Look whether something changed; None while the database is away. Called every second."""
        try:
            installation = await read_revision(self._database)
            if self._snapshot is None and (problem := await self._objection()):
                log.error("%s", problem)
                return None
            if self._snapshot is None or self._snapshot.revision != installation.revision:
                rows = await read_configuration(self._database)
                if self._adopt is not None:
                    self._adopt(rows.settings)
                self._snapshot = Snapshot(rows, self._files)
        except StoreAwayError as error:
            if self.healthy or self._snapshot is None:
                log.warning("the database does not answer: %s", error)
            self.healthy = False
            return None
        self.healthy = True
        return installation
