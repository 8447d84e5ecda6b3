"""Where a project is told that its deferred work has ended: an address, and a secret that is shown once."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, post
from litestar.params import FromPath

from gateway.core import Office
from gateway.domain.notices import read_public_url, secret_purpose
from gateway.domain.operators import Role
from gateway.domain.secrets import new_signing_secret
from gateway.routes.panel.forms import read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.projects import PROJECTS, ProjectPages
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.changes import ProjectChanges

AnyRequest = Request[Any, Any, Any]


def notice_routes(office: Office, pages: Pages) -> list[Any]:
    """The route."""
    shown = ProjectPages(office, pages)

    @post("/projects/{name:str}/notices", opt={"role": Role.EDITOR})
    async def set_address(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        project = await office.tenants.get_project(name)
        if form.text("action") == "remove":
            await office.tenants.set_project(name, ProjectChanges(notice_url=None), by, office.now())
            return go(f"{PROJECTS}/{name}", done="saved")
        typed = form.text("url")
        try:
            url = read_public_url(typed, private=office.private_addresses)
        except ValueError:
            error = words("notices.wrong")
            return await shown.one(request, project, error=error, notice_url=typed, status=400)
        secret = new_signing_secret()
        sealed = office.seal.close(secret_purpose(name), secret)
        changes = ProjectChanges(notice_url=url)
        project = await office.tenants.set_project(name, changes, by, office.now(), notice_secret=sealed)
        return await shown.one(request, project, new_signing=secret)

    return [set_address]
