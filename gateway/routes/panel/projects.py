"""Projects: who may call, how often, for how much money, with which permissions; and their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.core import Office
from gateway.domain.inputs import (
    read_budget,
    read_domains,
    read_label,
    read_per_hour,
    read_permissions,
    read_project,
)
from gateway.domain.money import dollars
from gateway.domain.operators import Role
from gateway.domain.secrets import key_digest, new_key
from gateway.domain.tenants import DEFAULT_HOURLY_LIMIT, Permission, Project
from gateway.routes.panel.forms import Form, read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.changes import ProjectChanges, changed
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError

PROJECTS = "/panel/projects"
FIRST_KEY_LABEL = "prima chiave"

AnyRequest = Request[Any, Any, Any]
Value = TypeVar("Value")


class ProjectForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a form says of a project, as typed, to be shown again; and which of its fields are wrong."""

    permissions: frozenset[str]
    per_hour: str
    budget: str
    brain: str
    domains: str
    sandbox: bool
    wrong: tuple[str, ...] = ()


def project_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    return [*_projects(office, pages), *_keys(office, pages)]


class ProjectPages:
    """The two pages, as they are shown after whatever was done."""

    def __init__(self, office: Office, pages: Pages) -> None:
        self._office = office
        self._pages = pages

    async def list(
        self, request: AnyRequest, form: ProjectForm, *, name: str = "", error: str = "", status: int = 200
    ) -> Response[bytes]:
        """All projects and the form of a new one."""
        context = {
            "projects": await self._office.tenants.list_projects(),
            "brains": await self._brains(),
            "permissions": list(Permission),
            "form": form,
            "name": name,
            "error": error,
        }
        return self._pages.page(request, "projects.html", context, status=status)

    async def one(
        self,
        request: AnyRequest,
        project: Project,
        *,
        form: ProjectForm | None = None,
        new_key: str = "",
        new_signing: str = "",
        notice_url: str | None = None,
        error: str = "",
        status: int = 200,
    ) -> Response[bytes]:
        """A project with its keys; `new_key` and `new_signing` are shown this once, `notice_url` is what was typed."""
        context = {
            "project": project,
            "keys": await self._office.tenants.list_keys(project.name),
            "brains": await self._brains(),
            "permissions": list(Permission),
            "form": form or told(project),
            "seen": state_of(project),
            "new_key": new_key,
            "new_signing": new_signing,
            "notice_url": (project.notice_url or "") if notice_url is None else notice_url,
            "notice_wrong": notice_url is not None,
            "error": error,
            "tab": "project",
        }
        return self._pages.page(request, "project.html", context, status=status)

    async def give_key(self, project: str, label: str, request: AnyRequest) -> str:
        """Make a key."""
        made, office = new_key(), self._office
        digest = key_digest(office.secret, made)
        await office.tenants.add_key(project, digest, label, visitor_of(request).operator, office.now())
        return made

    async def _brains(self) -> tuple[str, ...]:
        return tuple(one.name for one in await self._office.catalog.list_brains())


def _projects(office: Office, pages: Pages) -> list[Any]:
    shown = ProjectPages(office, pages)

    @get("/projects", opt={"role": Role.VIEWER})
    async def show_projects(request: AnyRequest) -> Response[bytes]:
        return await shown.list(request, FRESH)

    @post("/projects", opt={"role": Role.EDITOR})
    async def add_project(request: AnyRequest) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        typed, changes = read_changes(form)
        name = form.text("name")
        try:
            read_project(name)
        except ValueError:
            typed = msgspec.structs.replace(typed, wrong=("name", *typed.wrong))
        if typed.wrong:
            return await shown.list(request, typed, name=name, error=words("projects.wrong"), status=400)
        fresh = changed(Project(name=name, created_at=office.now()), changes)
        try:
            project = await office.tenants.add_project(fresh, visitor_of(request).operator)
        except UnknownError:
            typed = msgspec.structs.replace(typed, wrong=("brain",))
            return await shown.list(request, typed, name=name, error=words("projects.wrong"), status=400)
        except DuplicateError:
            return await shown.list(request, typed, name=name, error=words("projects.taken"), status=409)
        made = await shown.give_key(project.name, FIRST_KEY_LABEL, request)
        return await shown.one(request, project, new_key=made)

    @get("/projects/{name:str}", opt={"role": Role.VIEWER})
    async def show_project(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        return await shown.one(request, await office.tenants.get_project(name))

    @post("/projects/{name:str}", opt={"role": Role.EDITOR})
    async def change_project(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        project = await office.tenants.get_project(name)
        typed, changes = read_changes(form)
        if typed.wrong:
            return await shown.one(request, project, form=typed, error=words("projects.wrong"), status=400)
        if form.text("seen") not in {"", state_of(project)}:
            return await shown.one(request, project, form=typed, error=words("projects.changed"), status=409)
        try:
            await office.tenants.set_project(name, changes, visitor_of(request).operator, office.now())
        except RefusalError:
            typed = msgspec.structs.replace(typed, wrong=("brain",))
            return await shown.one(request, project, form=typed, error=words("projects.wrong"), status=400)
        return go(f"{PROJECTS}/{name}", done="saved")

    @post("/projects/{name:str}/active", opt={"role": Role.EDITOR})
    async def switch_project(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, by = await read_form(request), visitor_of(request).operator
        switch = office.tenants.enable_project if form.on("active") else office.tenants.disable_project
        await switch(name, by, office.now())
        return go(f"{PROJECTS}/{name}", done="saved")

    return [show_projects, add_project, show_project, change_project, switch_project]


def _keys(office: Office, pages: Pages) -> list[Any]:
    shown = ProjectPages(office, pages)

    @post("/projects/{name:str}/keys", opt={"role": Role.EDITOR})
    async def add_key(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        project = await office.tenants.get_project(name)
        try:
            made = await shown.give_key(name, read_label(form.text("label")), request)
        except ValueError:
            return await shown.one(request, project, error=words("projects.label_wrong"), status=400)
        except RefusalError:
            return await shown.one(request, project, error=words("projects.no_keys"), status=409)
        return await shown.one(request, project, new_key=made)

    @post("/projects/{name:str}/keys/{key:int}/revoke", opt={"role": Role.EDITOR})
    async def revoke_key(request: AnyRequest, name: FromPath[str], key: FromPath[int]) -> Response[bytes]:
        await office.tenants.get_project(name)
        if not await office.tenants.revoke_key(name, key, visitor_of(request).operator, office.now()):
            raise UnknownError("no such live key")
        return go(f"{PROJECTS}/{name}", done="revoked")

    return [add_key, revoke_key]


def read_changes(form: Form) -> tuple[ProjectForm, ProjectChanges]:
    """Read a project's form: as typed with the names of wrong fields, and as a change of what is right."""
    wrong: list[str] = []

    def read(field: str, reader: Callable[[str], Value], text: str) -> Value | msgspec.UnsetType:
        try:
            return reader(text)
        except ValueError:
            wrong.append(field)
            return msgspec.UNSET

    budget = form.text("budget").replace(",", ".")
    domains = ",".join(form.text("domains").replace(",", " ").split())
    changes = ProjectChanges(
        permissions=read("permissions", read_permissions, ",".join(form.texts("permissions"))),
        hourly_limit=read("per_hour", read_per_hour, form.text("per_hour")),
        daily_budget=read("budget", read_budget, budget or "none"),
        brain=form.text("brain") or None,
        domains=read("domains", read_domains, domains),
        sandbox=form.on("sandbox"),
    )
    typed = ProjectForm(
        permissions=frozenset(form.texts("permissions")),
        per_hour=form.text("per_hour"),
        budget=form.text("budget"),
        brain=form.text("brain"),
        domains=form.text("domains"),
        sandbox=form.on("sandbox"),
        wrong=tuple(wrong),
    )
    return typed, changes


def told(project: Project) -> ProjectForm:
    """A project as its form shows it."""
    return ProjectForm(
        permissions=frozenset(one.value for one in project.permissions),
        per_hour=str(project.hourly_limit),
        budget=""
        if project.daily_budget is None
        else f"{dollars(project.daily_budget):.6f}".rstrip("0").rstrip("."),
        brain=project.brain or "",
        domains="\n".join(project.domains),
        sandbox=project.sandbox,
    )


def state_of(project: Project) -> str:
    """A digest of a project's settings: a form that was filled in before somebody else's change is noticed by it."""
    told = msgspec.json.encode(project, order="deterministic")
    return hashlib.sha256(told).hexdigest()[:32]


FRESH = ProjectForm(
    permissions=frozenset(),
    per_hour=str(DEFAULT_HOURLY_LIMIT),
    budget="",
    brain="",
    domains="",
    sandbox=False,
)
"""What the form of a new project begins with."""
