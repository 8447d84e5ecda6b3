"""What a conversation remembers: the newest whole pairs that fit, of this project's conversation and no other."""

from __future__ import annotations

import re
import secrets
import string
from datetime import datetime, timedelta

import msgspec

from gateway.chain.current import Current
from gateway.chain.keeping import CutCall
from gateway.domain.completion import Turn
from gateway.domain.errors import UNKNOWN_CONVERSATION, Failure
from gateway.domain.operator_settings import CONVERSATION_DAYS
from gateway.domain.tenants import Scope
from gateway.storage.conversations import Conversations

NEW_CONVERSATION = "nuova"
RETENTION = timedelta(days=CONVERSATION_DAYS)
"""Unless an owner has set another in the panel."""
HISTORY_TOKENS = 100_000
CHARACTERS_PER_TOKEN = 3

_PREFIX = "cnv_"
_ALPHABET = string.ascii_lowercase + string.digits
_RANDOM_CHARACTERS = 16
_ID = re.compile(r"cnv_[a-z0-9]{1,60}")
"""What can be an id at all: a database may compare without case, accents or trailing blanks."""


class Recalled(msgspec.Struct, frozen=True):
    """A call's conversation: its id (None for a single call) and the turns before, oldest first.

    Attributes:
        replaces: The cut call whose pair this one's takes the place of.

    """

    conversation: str | None = None
    turns: tuple[Turn, ...] = ()
    replaces: str | None = None


class Memory:
    """The conversations, as the chain uses them."""

    def __init__(self, conversations: Conversations, current: Current) -> None:
        self._conversations = conversations
        self._current = current

    async def recall(
        self, scope: Scope, conversation: str | None, now: datetime, cut: CutCall | None = None
    ) -> Recalled:
        """Open a new conversation, or bring back one of this project's.

        Raises:
            Failure: 404, the same for an id that never was, has expired, or is another project's.

        """
        if conversation is None:
            return Recalled()
        replaces = cut.request_id if cut else None
        if conversation == NEW_CONVERSATION and cut is not None:
            return Recalled(cut.conversation, replaces=replaces)
        if conversation == NEW_CONVERSATION:
            return Recalled(_PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_CHARACTERS)))
        if not _ID.fullmatch(conversation):
            raise Failure(UNKNOWN_CONVERSATION)
        pairs = await self._conversations.history(
            scope.project.name,
            conversation,
            now - self._kept(),
            HISTORY_TOKENS * CHARACTERS_PER_TOKEN,
            without=replaces,
        )
        if pairs is None:
            raise Failure(UNKNOWN_CONVERSATION)
        turns: list[Turn] = []
        for pair in pairs:
            turns += (Turn("user", pair.question), Turn("assistant", pair.answer))
        return Recalled(conversation, tuple(turns), replaces)

    async def forget_old(self, now: datetime) -> int:
        """Delete what nobody has touched for the time of retention; how many conversations."""
        return await self._conversations.delete_older_than(now - self._kept())

    def _kept(self) -> timedelta:
        return timedelta(days=self._current.snapshot.settings.conversation_days)
