"""The people of the panel: accounts, roles, passwords, second factors and the links that begin them.

Every change is audited; the last active owner can neither be demoted nor disabled.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from gateway.domain.operators import Account, Role
from gateway.storage import schema
from gateway.storage.audit import begin_change, record_change
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError, check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.tenants import Operator
    from gateway.storage.database import Database

LINK_LIFE = timedelta(hours=24)
LINK_BYTES = 32


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a login is checked against.

    Attributes:
        password: The argon2id hash; None until the set-up link was used.
        totp: The sealed secret of the second factor, or None.
        totp_step: The last time step that was used: none is taken twice.
        recovery: SHA-256 digests (hex) of the recovery codes that are left.

    """

    account: Account
    password: str | None
    totp: bytes | None
    totp_step: int | None
    recovery: tuple[str, ...]


class Operators:
    """Accounts in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- reading ----------------------------------------------------------------------------------------------------

    async def list_accounts(self) -> Sequence[Account]:
        """Give everybody, by address."""
        async with self._database.connect() as connection:
            rows = await connection.execute(select(schema.operators).order_by(schema.operators.c.email))
            return tuple(_account(row) for row in rows.mappings())

    async def get(self, account_id: int) -> Account:
        """Give one account. Raises `UnknownError`."""
        async with self._database.connect() as connection:
            return _account(await _row(connection, account_id))

    async def credentials(self, email: str) -> Credentials | None:
        """Give what a login under this address (in its normal form) is checked against; None if nobody has it."""
        table = schema.operators
        async with self._database.connect() as connection:
            rows = await connection.execute(select(table).where(table.c.email == email))
            row = rows.mappings().one_or_none()
            return None if row is None else _credentials(row)

    async def credentials_of(self, account_id: int) -> Credentials:
        """Give the same for an account. Raises `UnknownError`."""
        async with self._database.connect() as connection:
            return _credentials(await _row(connection, account_id))

    # --- changing ---------------------------------------------------------------------------------------------------

    async def add(
        self, email: str, role: Role, by: Operator, at: datetime, *, password: str | None = None
    ) -> Account:
        """Create an account; without a password hash it begins with a set-up link.

        Raises:
            DuplicateError: The address is taken.

        """
        row = {
            "email": email,
            "role": role.value,
            "active": True,
            "password": password,
            "recovery": (),
            "created_at": at,
        }
        check_sizes(schema.operators, row)

        async def work(connection: AsyncConnection) -> Account:
            await begin_change(connection)
            made = await connection.execute(insert(schema.operators).values(row))
            key = made.inserted_primary_key
            account = _account(await _row(connection, int(key[0]) if key else 0))
            await record_change(connection, by, at, "operator.add", email, after=account)
            return account

        try:
            return await self._database.transact(work)
        except IntegrityError:
            raise DuplicateError(f"{email} is an administrator already") from None

    async def change(
        self,
        account_id: int,
        by: Operator,
        at: datetime,
        *,
        role: Role | None = None,
        active: bool | None = None,
    ) -> Account:
        """Change role or activity; all sessions of the account end, whoever they were.

        Raises:
            UnknownError: No such account.
            RefusalError: Nobody would be left who may administer.

        """

        async def work(connection: AsyncConnection) -> Account:
            await begin_change(connection)
            before = _account(await _row(connection, account_id))
            after = msgspec.structs.replace(
                before,
                role=before.role if role is None else role,
                active=before.active if active is None else active,
            )
            if _rules(before) and not _rules(after):
                await _require_other_owner(connection, account_id)
            await _set(connection, account_id, role=after.role.value, active=after.active)
            await _end_access(connection, account_id)
            await record_change(connection, by, at, "operator.set", before.email, before=before, after=after)
            return after

        return await self._database.transact(work)

    async def remove(self, account_id: int, by: Operator, at: datetime) -> None:
        """Delete an account.

        Raises:
            UnknownError: No such account.
            RefusalError: It is the last owner.

        """

        async def work(connection: AsyncConnection) -> None:
            await begin_change(connection)
            before = _account(await _row(connection, account_id))
            if _rules(before):
                await _require_other_owner(connection, account_id)
            await _end_access(connection, account_id)
            await connection.execute(delete(schema.operators).where(schema.operators.c.id == account_id))
            await record_change(connection, by, at, "operator.remove", before.email, before=before)

        await self._database.transact(work)

    async def set_password(self, account_id: int, password: str, by: Operator, at: datetime) -> Account:
        """Keep another password's hash; every session and link of the account ends.

        Raises:
            UnknownError: No such account.

        """

        async def work(connection: AsyncConnection) -> Account:
            await begin_change(connection)
            account = _account(await _row(connection, account_id))
            await _set(connection, account_id, password=password)
            await _end_access(connection, account_id)
            await record_change(connection, by, at, "operator.password", account.email)
            return msgspec.structs.replace(account, has_password=True)

        return await self._database.transact(work)

    async def set_totp(
        self,
        account_id: int,
        sealed: bytes | None,
        recovery: Sequence[str],
        by: Operator,
        at: datetime,
        *,
        step: int | None = None,
    ) -> None:
        """Begin or end (None) the second factor; `recovery` are the digests of its recovery codes, `step` is used already.

        Raises:
            UnknownError: No such account.

        """

        async def work(connection: AsyncConnection) -> None:
            await begin_change(connection)
            account = _account(await _row(connection, account_id))
            await _set(connection, account_id, totp=sealed, totp_step=step, recovery=tuple(recovery))
            action = "operator.totp-on" if sealed else "operator.totp-off"
            await record_change(connection, by, at, action, account.email)

        await self._database.transact(work)

    async def use_totp_step(self, account_id: int, step: int) -> bool:
        """Take a time step of the second factor; False when it, or a later one, was used before."""
        table = schema.operators

        async def work(connection: AsyncConnection) -> bool:
            unused = (table.c.totp_step.is_(None)) | (table.c.totp_step < step)
            done = await connection.execute(
                update(table).where(table.c.id == account_id, unused).values(totp_step=step)
            )
            return done.rowcount > 0

        return await self._database.transact(work)

    async def use_recovery(self, account_id: int, digest: str) -> bool:
        """Take a recovery code; False when there is none of this digest."""
        table = schema.operators

        async def work(connection: AsyncConnection) -> bool:
            await begin_change(connection)  # so that two uses of one code follow each other
            left = _credentials(await _row(connection, account_id)).recovery
            if digest not in left:
                return False
            rest = tuple(one for one in left if one != digest)
            await connection.execute(update(table).where(table.c.id == account_id).values(recovery=rest))
            return True

        return await self._database.transact(work)

    async def note_login(self, account_id: int, at: datetime) -> None:
        """Note the last login; neither audit nor revision."""

        async def work(connection: AsyncConnection) -> None:
            await _set(connection, account_id, last_login=at)

        await self._database.transact(work)

    # --- set-up links -----------------------------------------------------------------------------------------------

    async def make_link(self, account_id: int, by: Operator, at: datetime) -> str:
        """Make the token of a link by which the account's password is chosen, within 24 hours, once; earlier ones end.

        Raises:
            UnknownError: No such account.

        """
        token = secrets.token_urlsafe(LINK_BYTES)
        table = schema.set_up_links

        async def work(connection: AsyncConnection) -> None:
            await begin_change(connection)
            account = _account(await _row(connection, account_id))
            await connection.execute(delete(table).where(table.c.operator == account_id))
            await record_change(connection, by, at, "operator.link", account.email)
            row = {"digest": link_digest(token), "operator": account_id, "expires_at": at + LINK_LIFE}
            await connection.execute(insert(table).values(row))

        await self._database.transact(work)
        return token

    async def link_account(self, token: str, at: datetime) -> Account | None:
        """Whose link this is; None when it was used, has expired or never was."""
        table, people = schema.set_up_links, schema.operators
        query = (
            select(people)
            .join(table, table.c.operator == people.c.id)
            .where(table.c.digest == link_digest(token), table.c.expires_at > at, people.c.active.is_(True))
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            return None if row is None else _account(row)

    async def use_link(
        self, token: str, password: str, by: Operator, at: datetime, *, email: str
    ) -> Account | None:
        """Keep the password's hash and the address that were chosen with a link, and end it; None if it is none (any more).

        Raises:
            DuplicateError: The address is somebody else's.

        """
        table = schema.set_up_links

        async def work(connection: AsyncConnection) -> Account | None:
            await begin_change(connection)
            live = (table.c.digest == link_digest(token), table.c.expires_at > at)
            account_id = await connection.scalar(select(table.c.operator).where(*live))
            if account_id is None:
                return None
            account = _account(await _row(connection, account_id))
            if not account.active:
                return None
            await _set(connection, account_id, password=password, email=email)
            await _end_access(connection, account_id)
            after = msgspec.structs.replace(account, has_password=True, email=email)
            await record_change(connection, by, at, "operator.set-up", email, before=account, after=after)
            return after

        try:
            return await self._database.transact(work)
        except IntegrityError:
            raise DuplicateError(f"{email} is an administrator already") from None


def link_digest(token: str) -> bytes:
    """What is kept of a link's token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _account(row: RowMapping) -> Account:
    return Account(
        id=row["id"],
        email=row["email"],
        role=Role(row["role"]),
        active=row["active"],
        has_password=row["password"] is not None,
        has_totp=row["totp"] is not None,
        created_at=row["created_at"],
        last_login=row["last_login"],
    )


def _credentials(row: RowMapping) -> Credentials:
    return Credentials(
        account=_account(row),
        password=row["password"],
        totp=row["totp"],
        totp_step=row["totp_step"],
        recovery=row["recovery"],
    )


def _rules(account: Account) -> bool:
    return account.role is Role.OWNER and account.active


async def _row(connection: AsyncConnection, account_id: int) -> RowMapping:
    table = schema.operators
    row = (await connection.execute(select(table).where(table.c.id == account_id))).mappings().one_or_none()
    if row is None:
        raise UnknownError("there is no such administrator")
    return row


async def _set(connection: AsyncConnection, account_id: int, **values: Any) -> None:
    await connection.execute(
        update(schema.operators).where(schema.operators.c.id == account_id).values(**values)
    )


async def _end_access(connection: AsyncConnection, account_id: int) -> None:
    for table in (schema.panel_sessions, schema.set_up_links):
        await connection.execute(delete(table).where(table.c.operator == account_id))


async def _require_other_owner(connection: AsyncConnection, account_id: int) -> None:
    table = schema.operators
    query = select(func.count()).where(
        table.c.id != account_id, table.c.role == Role.OWNER.value, table.c.active.is_(True)
    )
    if not await connection.scalar(query):
        raise RefusalError("the last owner can't be demoted, disabled or removed")
