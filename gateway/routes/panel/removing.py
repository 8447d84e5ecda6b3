"""Removing a project for good: a page that says what goes and what stays, and asks for its name."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.core import Office
from gateway.domain.operators import Role
from gateway.domain.tenants import Project
from gateway.routes.panel.forms import read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.projects import PROJECTS
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.refusals import RefusalError, UnknownError

AnyRequest = Request[Any, Any, Any]


def removing_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""

    async def show(
        request: AnyRequest, project: Project, *, error: str = "", typed: str = "", status: int = 200
    ) -> Response[bytes]:
        context = {
            "project": project,
            "tab": "",
            "belongings": await office.reports.belongings(project.name),
            "typed": typed,
            "error": error,
        }
        return pages.page(request, "remove.html", context, status=status)

    @get("/projects/{name:str}/remove", opt={"role": Role.OWNER})
    async def show_removal(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        return await show(request, await office.tenants.get_project(name))

    @post("/projects/{name:str}/remove", opt={"role": Role.OWNER})
    async def remove_project(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        project = await office.tenants.get_project(name)
        typed = form.text("name")
        if typed != project.name:
            return await show(request, project, error=words("remove.wrong"), typed=typed, status=400)
        try:
            await office.removal.remove(name, visitor_of(request).operator)
        except UnknownError:
            raise
        except RefusalError:
            return await show(request, project, error=words("remove.internal"), status=409)
        return go(PROJECTS, done="removed")

    return [show_removal, remove_project]
