"""Projects and their keys. Every change writes the audit and counts the configuration's revision, in one transaction."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING

from msgspec import UNSET
from sqlalchemy import and_, delete, or_, select, update

from gateway.storage import schema, tenant_rows
from gateway.storage.audit import begin_change, record_change
from gateway.storage.batch_rows import abandon, delete_settled
from gateway.storage.changes import ProjectChanges, changed
from gateway.storage.document_rows import abandon_documents
from gateway.storage.notices import withdraw
from gateway.storage.refusals import RefusalError, check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from gateway.domain.tenants import Operator, Project, ProjectKey
    from gateway.storage.database import Database

ROWS_AT_ONCE = 2_000
"""Ledger rows made anonymous in one transaction."""
REMOVED = "rimosso-"
"""What the name of a removed project begins with in the ledger; eight capital letters follow, which no name has."""


class Tenants:
    """Projects and keys in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- projects ---------------------------------------------------------------------------------------------------

    async def add_project(
        self, project: Project, by: Operator, *, notice_secret: bytes | None = None
    ) -> Project:
        """Create a project as given; with an address for notices also the sealed secret that signs them.

        Raises:
            DuplicateError: The name is taken.
            UnknownError: Its brain does not exist.
            RefusalError: The name is not one.

        """

        async def work(connection: AsyncConnection) -> Project:
            return await tenant_rows.add_project(connection, project, by, notice_secret=notice_secret)

        return await self._database.transact(work)

    async def set_project(
        self,
        name: str,
        changes: ProjectChanges,
        by: Operator,
        at: datetime,
        *,
        notice_secret: bytes | None = None,
    ) -> Project:
        """Change what is set in `changes`; gives the project as it is now.

        An address for notices comes with the sealed secret that signs them from now on, also one that was set before.
        Without an address what was still to be told is withdrawn.

        Raises:
            UnknownError: No such project, or no such brain.

        """

        async def work(connection: AsyncConnection) -> Project:
            await begin_change(connection)
            before = await tenant_rows.get_project(connection, name)
            after = changed(before, changes)
            await tenant_rows.check_brain(connection, after)
            table = schema.projects
            row = tenant_rows.project_row(after)
            check_sizes(table, row)
            if changes.notice_url is not UNSET:
                tenant_rows.check_notices(after, notice_secret)
                row["notice_secret"] = notice_secret
            await connection.execute(update(table).where(table.c.name == name).values(row))
            if changes.notice_url is None:
                await withdraw(connection, name)
            await record_change(connection, by, at, "project.set", name, before=before, after=after)
            return after

        return await self._database.transact(work)

    async def enable_project(self, name: str, by: Operator, at: datetime) -> Project:
        """Let the project call again. Raises `UnknownError`."""
        return await self.set_project(name, ProjectChanges(active=True), by, at)

    async def disable_project(self, name: str, by: Operator, at: datetime) -> Project:
        """Answer the project's keys as if they were unknown. Raises `UnknownError`."""
        return await self.set_project(name, ProjectChanges(active=False), by, at)

    async def remove_project(self, name: str, by: Operator, at: datetime) -> str:
        """Delete the project's rows in every table; gives the random label that stands for it in the ledger.

        The project is disabled first; after an interruption it is so, and removing it again goes on.

        Raises:
            UnknownError: No such project.
            RefusalError: It belongs to the gateway.

        """
        project = await self.get_project(name)
        if project.internal:
            raise RefusalError(f"project {name} belongs to the gateway and cannot be removed")
        if project.active:
            await self.disable_project(name, by, at)
        label = REMOVED + "".join(secrets.choice(string.ascii_uppercase) for _ in range(8))
        await self._anonymise(name, label)

        async def work(connection: AsyncConnection) -> None:
            await begin_change(connection)
            before = await tenant_rows.get_project(connection, name)
            await abandon_documents(connection, name)
            for table in (
                schema.pairs,
                schema.conversations,
                schema.reservations,
                schema.batches,
                schema.notices,
                schema.recipe_versions,
                schema.project_keys,
            ):
                await connection.execute(delete(table).where(table.c.project == name))
            await connection.execute(delete(schema.projects).where(schema.projects.c.name == name))
            await record_change(connection, by, at, "project.remove", name, before=before)

        await self._database.transact(work)
        return label

    async def anonymise_strays(self) -> int:
        """Do for calls that ended after their project's removal what the removal did; gives how many projects."""
        spending, projects = schema.spending, schema.projects
        query = (
            select(spending.c.project)
            .distinct()
            .where(~select(projects.c.name).where(projects.c.name == spending.c.project).exists())
        )
        async with self._database.connect() as connection:
            names = [name for name in await connection.scalars(query) if name == name.lower()]
        for name in names:
            await self._anonymise(
                name, REMOVED + "".join(secrets.choice(string.ascii_uppercase) for _ in range(8))
            )
        return len(names)

    async def list_projects(self) -> Sequence[Project]:
        """Give every project by name."""
        async with self._database.connect() as connection:
            rows = await connection.execute(select(schema.projects).order_by(schema.projects.c.name))
            return tuple(tenant_rows.read_project(row) for row in rows.mappings())

    async def get_project(self, name: str) -> Project:
        """Give a project. Raises `UnknownError`."""
        async with self._database.connect() as connection:
            return await tenant_rows.get_project(connection, name)

    # --- keys -------------------------------------------------------------------------------------------------------

    async def add_key(
        self, project: str, digest: bytes, label: str, by: Operator, at: datetime
    ) -> ProjectKey:
        """Give a project one more key, known by the digest.

        Raises:
            UnknownError: No such project.
            RefusalError: The project belongs to the gateway.
            DuplicateError: The digest is there already.

        """

        async def work(connection: AsyncConnection) -> ProjectKey:
            return await tenant_rows.add_key(connection, project, digest=digest, label=label, by=by, at=at)

        return await self._database.transact(work)

    async def revoke_key(self, project: str, key_id: int, by: Operator, at: datetime) -> bool:
        """End a key of the project; False when there is no such key, or it was revoked before."""

        async def work(connection: AsyncConnection) -> bool:
            await begin_change(connection)
            table = schema.project_keys
            mine = and_(table.c.project == project, table.c.id == key_id, table.c.revoked_at.is_(None))
            found = (await connection.execute(select(table).where(mine))).mappings().one_or_none()
            if found is None:
                return False
            await connection.execute(update(table).where(mine).values(revoked_at=at))
            await record_change(connection, by, at, "key.revoke", project, before=tenant_rows.read_key(found))
            return True

        return await self._database.transact(work)

    async def list_keys(self, project: str) -> Sequence[ProjectKey]:
        """Give the project's keys, revoked ones too, oldest first. Raises `UnknownError`."""
        table = schema.project_keys
        async with self._database.connect() as connection:
            await tenant_rows.get_project(connection, project)
            rows = await connection.execute(
                select(table).where(table.c.project == project).order_by(table.c.id)
            )
            return tuple(tenant_rows.read_key(row) for row in rows.mappings())

    async def find_key(self, digest: bytes) -> tuple[Project, int] | None:
        """Give the project and id of a live key; the project may be inactive."""
        keys = schema.project_keys
        query = (
            select(schema.projects, keys.c.id.label("key_id"))
            .join_from(keys, schema.projects)
            .where(keys.c.digest == digest, keys.c.revoked_at.is_(None))
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            return None if row is None else (tenant_rows.read_project(row), row["key_id"])

    async def touch_keys(self, ids: Sequence[int], at: datetime) -> None:
        """Note that keys were used, at the latest `at`; neither audit nor revision."""
        if not ids:
            return
        table = schema.project_keys
        unseen = or_(table.c.last_used.is_(None), table.c.last_used < at)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(
                update(table).where(table.c.id.in_(sorted(ids)), unseen).values(last_used=at)
            )

        await self._database.transact(work)

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _anonymise(self, name: str, label: str) -> None:
        """Put the label in the place of the project's name, in the spending, then in the ledger piece by piece.

        A row that is written under the name later brings a day's spending back with it, for `anonymise_strays`.
        """
        calls, spending, reservations = schema.calls, schema.spending, schema.reservations
        await delete_settled(self._database, schema.batches.c.project == name)

        async def totals(connection: AsyncConnection) -> None:
            await connection.execute(delete(reservations).where(reservations.c.project == name))
            await abandon(connection, name, label)
            # In this order: MySQL reckons a later value with the earlier ones' results.
            booked = update(spending).where(spending.c.project == name)
            booked = booked.ordered_values(
                (spending.c.settled, spending.c.settled + spending.c.batches),
                (spending.c.batches, 0),
                (spending.c.reserved, 0),
                (spending.c.project, label),
            )
            await connection.execute(booked)

        async def piece(connection: AsyncConnection) -> int:
            query = select(calls.c.request_id).where(calls.c.project == name).limit(ROWS_AT_ONCE)
            ids = (await connection.scalars(query)).all()
            if ids:
                rows = and_(calls.c.project == name, calls.c.request_id.in_(ids))
                await connection.execute(update(calls).where(rows).values(project=label))
            return len(ids)

        await self._database.transact(totals)
        while await self._database.transact(piece) == ROWS_AT_ONCE:
            pass
