"""Rows of projects and keys, and what creates them in an open transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from gateway.domain.tenants import PROJECT_NAME, Operator, Permission, Project, ProjectKey
from gateway.storage import schema
from gateway.storage.audit import begin_change, record_change
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError, check_sizes

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection


async def add_project(
    connection: AsyncConnection, project: Project, by: Operator, *, notice_secret: bytes | None = None
) -> Project:
    """Create a project; see `Tenants.add_project`."""
    check_notices(project, notice_secret)
    if not PROJECT_NAME.fullmatch(project.name):
        raise RefusalError(f"{project.name!r} is not a project name: lower-case letters, digits, - and _")
    check_sizes(schema.projects, project_row(project))
    await begin_change(connection)
    if await _find_project(connection, project.name) is not None:
        raise DuplicateError(f"project {project.name} exists already")
    await check_brain(connection, project)
    row = project_row(project) | {"notice_secret": notice_secret}
    await connection.execute(insert(schema.projects).values(row))
    await record_change(connection, by, project.created_at, "project.add", project.name, after=project)
    return project


async def add_key(
    connection: AsyncConnection, project: str, *, digest: bytes, label: str, by: Operator, at: datetime
) -> ProjectKey:
    """Create a key; see `Tenants.add_key`."""
    await begin_change(connection)
    if (await get_project(connection, project)).internal:
        raise RefusalError(f"project {project} belongs to the gateway and has no keys")
    row = {"project": project, "digest": digest, "label": label, "created_at": at}
    check_sizes(schema.project_keys, row)
    try:
        inserted = await connection.execute(insert(schema.project_keys).values(row))
    except IntegrityError as error:
        raise DuplicateError("this key exists already") from error
    key_id = inserted.inserted_primary_key
    key = ProjectKey(id=key_id[0] if key_id else 0, project=project, label=label, created_at=at)
    await record_change(connection, by, at, "key.add", project, after=key)
    return key


def read_project(row: RowMapping) -> Project:
    """Make the noun of a row."""
    return Project(
        name=row["name"],
        active=row["active"],
        permissions=frozenset(Permission(name) for name in row["permissions"]),
        hourly_limit=row["hourly_limit"],
        daily_budget=row["daily_budget"],
        brain=row["brain"],
        domains=row["domains"],
        sandbox=row["sandbox"],
        internal=row["internal"],
        notice_url=row["notice_url"],
        created_at=row["created_at"],
    )


def project_row(project: Project) -> dict[str, Any]:
    """Make the row of a noun."""
    return {
        "name": project.name,
        "active": project.active,
        "permissions": sorted(project.permissions),
        "hourly_limit": project.hourly_limit,
        "daily_budget": project.daily_budget,
        "brain": project.brain,
        "domains": project.domains,
        "sandbox": project.sandbox,
        "internal": project.internal,
        "notice_url": project.notice_url,
        "created_at": project.created_at,
    }


def read_key(row: RowMapping) -> ProjectKey:
    """Make the noun of a row."""
    return ProjectKey(
        id=row["id"],
        project=row["project"],
        label=row["label"],
        created_at=row["created_at"],
        last_used=row["last_used"],
        revoked_at=row["revoked_at"],
    )


async def _find_project(connection: AsyncConnection, name: str) -> Project | None:
    rows = await connection.execute(select(schema.projects).where(schema.projects.c.name == name))
    row = rows.mappings().one_or_none()
    return None if row is None else read_project(row)


async def get_project(connection: AsyncConnection, name: str) -> Project:
    """Give a project. Raises `UnknownError`."""
    project = await _find_project(connection, name)
    if project is None:
        raise UnknownError(f"there is no project {name}")
    return project


def check_notices(project: Project, secret: bytes | None) -> None:
    """Refuse an address for notices without a secret to sign them with. Raises `ValueError`: a fault of ours."""
    if project.notice_url is not None and secret is None:
        raise ValueError("notices are signed: an address comes with a secret")


async def check_brain(connection: AsyncConnection, project: Project) -> None:
    """Refuse a project whose brain does not exist. Raises `UnknownError`."""
    if project.brain is None:
        return
    query = select(func.count()).where(schema.brains.c.name == project.brain)
    if not await connection.scalar(query):
        raise UnknownError(f"there is no model {project.brain!r}")
