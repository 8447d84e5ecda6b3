"""Sessions of the panel and the brakes of its login, on the server's side: a cookie holds nothing but a random name."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import delete, func, insert, select, update

from gateway.domain.operators import Account, Role
from gateway.storage import schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.storage.database import Database

IDLE = timedelta(hours=1)
ABSOLUTE = timedelta(hours=12)
SEEN_EVERY = timedelta(minutes=1)
"""A session's last use is written at most so often."""
FAILURES_KEPT = timedelta(hours=1)


class Session(msgspec.Struct, frozen=True):
    """Somebody who is logged in. `token` is the cookie's value."""

    token: str
    account: Account


class PanelSessions:
    """Sessions and failed logins in the database."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        self._secret = secret

    async def begin(self, account: Account, at: datetime) -> Session:
        """Begin a session under a new random name; those that have ended meanwhile are forgotten."""
        token = secrets.token_urlsafe(32)
        table = schema.panel_sessions

        async def work(connection: AsyncConnection) -> None:
            over = (table.c.seen_at < at - IDLE) | (table.c.created_at < at - ABSOLUTE)
            await connection.execute(delete(table).where(over))
            row = {"digest": _digest(token), "operator": account.id, "created_at": at, "seen_at": at}
            await connection.execute(insert(table).values(row))

        await self._database.transact(work)
        return Session(token, account)

    async def find(self, token: str, at: datetime) -> Session | None:
        """Whose session this is; None when it has ended, by idleness, by age or otherwise."""
        table, people = schema.panel_sessions, schema.operators
        query = (
            select(people, table.c.seen_at)
            .join(table, table.c.operator == people.c.id)
            .where(
                table.c.digest == _digest(token),
                table.c.seen_at >= at - IDLE,
                table.c.created_at >= at - ABSOLUTE,
                people.c.active.is_(True),
            )
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            return None
        if at - row["seen_at"] >= SEEN_EVERY:
            await self._touch(token, at)
        account = Account(
            id=row["id"],
            email=row["email"],
            role=Role(row["role"]),
            has_password=row["password"] is not None,
            has_totp=row["totp"] is not None,
            created_at=row["created_at"],
            last_login=row["last_login"],
        )
        return Session(token, account)

    async def end(self, token: str) -> None:
        """End a session; nothing happens if there is none."""
        table = schema.panel_sessions

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(table).where(table.c.digest == _digest(token)))

        await self._database.transact(work)

    async def end_others(self, session: Session) -> None:
        """End every other session of the account."""
        table = schema.panel_sessions
        others = (table.c.operator == session.account.id, table.c.digest != _digest(session.token))

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(table).where(*others))

        await self._database.transact(work)

    # --- brakes -----------------------------------------------------------------------------------------------------

    async def count_attempt(self, subjects: Sequence[str], at: datetime) -> tuple[int, ...]:
        """Count an attempt to log in against each subject (an address, an account); gives its rows, for `forget_attempt`."""
        table = schema.login_failures

        async def work(connection: AsyncConnection) -> tuple[int, ...]:
            await connection.execute(delete(table).where(table.c.at < at - FAILURES_KEPT))
            rows = []
            for subject in subjects:
                made = await connection.execute(insert(table).values(subject=self._subject(subject), at=at))
                key = made.inserted_primary_key
                rows.append(int(key[0]) if key else 0)
            return tuple(rows)

        return await self._database.transact(work)

    async def attempts(self, subjects: Sequence[str], since: datetime) -> tuple[int, ...]:
        """How many attempts count against each subject since then, this one included."""
        table = schema.login_failures
        async with self._database.connect() as connection:
            counts = [
                await connection.scalar(
                    select(func.count()).where(table.c.subject == self._subject(subject), table.c.at > since)
                )
                for subject in subjects
            ]
        return tuple(int(count or 0) for count in counts)

    async def forget_attempt(self, rows: Sequence[int]) -> None:
        """Let an attempt count no more: it was none, or it was right."""
        table = schema.login_failures

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(table).where(table.c.id.in_(rows)))

        await self._database.transact(work)

    async def forget_failures(self, subject: str) -> None:
        """Forget what counts against a subject: it has logged in."""
        table = schema.login_failures

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(table).where(table.c.subject == self._subject(subject)))

        await self._database.transact(work)

    def _subject(self, subject: str) -> bytes:
        return hmac.digest(self._secret, b"pepper login\0" + subject.encode(), hashlib.sha256)

    async def _touch(self, token: str, at: datetime) -> None:
        table = schema.panel_sessions

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(update(table).where(table.c.digest == _digest(token)).values(seen_at=at))

        await self._database.transact(work)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
