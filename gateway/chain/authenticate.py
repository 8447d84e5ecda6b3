"""From a key to a caller; and callers on behalf of a project, for the gateway's own front doors."""

from __future__ import annotations

from gateway.chain.current import Current
from gateway.domain.clock import Clock
from gateway.domain.errors import UNAUTHORIZED, Failure
from gateway.domain.secrets import key_digest
from gateway.domain.tenants import Caller
from gateway.storage.tenants import Tenants

LONGEST_KEY_CHARACTERS = 200


class Authenticator:
    """Knows keys by the snapshot; asks the database once for one that the snapshot does not know yet."""

    def __init__(self, secret: bytes, current: Current, tenants: Tenants, now: Clock) -> None:
        self._secret = secret
        self._current = current
        self._tenants = tenants
        self._now = now
        self._used: set[int] = set()

    async def caller(self, key: str) -> Caller:
        """Who shows this key.

        Raises:
            Failure: 401, the same for an unknown and a revoked key.
            StoreAwayError: The snapshot does not know it and the database cannot be asked.

        """
        if len(key) > LONGEST_KEY_CHARACTERS:
            raise Failure(UNAUTHORIZED)
        digest = key_digest(self._secret, key)
        found = self._current.snapshot.key_owner(digest) or await self._tenants.find_key(digest)
        if found is None:
            raise Failure(UNAUTHORIZED)
        project, key_id = found
        self._used.add(key_id)
        return Caller(project, key_id)

    def on_behalf(self, project: str, by: str) -> Caller:
        """A caller without a key: a first-party front door, or an operator trying a project out.

        Raises:
            Failure: 401, no such project.

        """
        found = self._current.snapshot.projects.get(project)
        if found is None:
            raise Failure(UNAUTHORIZED)
        return Caller(found, by=by)

    async def write_uses(self) -> None:
        """Write down when keys were last used, all since the last time in one go."""
        used, self._used = self._used, set()
        if used:
            await self._tenants.touch_keys(sorted(used), self._now())
