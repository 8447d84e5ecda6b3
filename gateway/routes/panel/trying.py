"""Trying a project out: a real call on its behalf, through the whole chain and in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.chain.answer import Chain
from gateway.core import Office
from gateway.domain.completion import CompletionRequest
from gateway.domain.errors import Failure
from gateway.domain.events import collect
from gateway.domain.operators import Role
from gateway.domain.tenants import Caller, Project, Scope
from gateway.routes.exchange import new_request_id
from gateway.routes.panel.forms import read_form
from gateway.routes.panel.pages import Pages
from gateway.routes.panel.visitors import visitor_of

MAX_CONTENT = 100_000
EMPTY_EXTRA = "{}"
NOTHING: Mapping[str, object] = {}

AnyRequest = Request[Any, Any, Any]


def trying_routes(office: Office, pages: Pages, chain: Chain) -> list[Any]:
    """The routes."""

    async def show(
        request: AnyRequest, project: Project, more: Mapping[str, object] = NOTHING, status: int = 200
    ) -> Response[bytes]:
        scope = Scope(Caller(project, by=visitor_of(request).operator.name), new_request_id())
        recipes = [one.name for one in (await chain.capabilities(scope)).recipes]
        context = {
            "project": project,
            "tab": "try",
            "recipes": recipes,
            "recipe": "",
            "content": "",
            "extra": EMPTY_EXTRA,
            "answer": None,
            "row": None,
            "sent": "",
            **more,
        }
        return pages.page(request, "try.html", context, status=status)

    @get("/projects/{name:str}/try", opt={"role": Role.EDITOR})
    async def show_try(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        return await show(request, await office.tenants.get_project(name))

    @post("/projects/{name:str}/try", opt={"role": Role.EDITOR})
    async def try_out(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        project = await office.tenants.get_project(name)
        recipe, content, extra = form.text("recipe"), form.text("content"), form.text("extra") or EMPTY_EXTRA
        typed = {"recipe": recipe, "content": content, "extra": extra}
        try:
            extras = msgspec.json.decode(extra, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return await show(request, project, {**typed, "error": words("try.extra_wrong")}, 400)
        if not content or len(content) > MAX_CONTENT:
            return await show(request, project, {**typed, "error": words("try.content_wrong")}, 400)
        sent = {
            "progetto": name,
            "encode": recipe,
            "contenuto": content,
            **({"extra": extras} if extras else {}),
        }
        told = {**typed, "sent": msgspec.json.format(msgspec.json.encode(sent), indent=2).decode()}
        request_id = new_request_id()
        await office.audit.note(by, office.now(), "project.try", name, request_id)
        scope = Scope(Caller(project, by=by.name), request_id)
        wanted = CompletionRequest(project=name, recipe=recipe, content=content, extra=extras)
        try:
            answer = await collect(await chain.answer(scope, wanted))
        except Failure as failure:
            error = f"{failure.fault.status} {failure.fault.code}: {failure.message}"
            row = await office.reports.call(request_id)
            return await show(request, project, {**told, "error": error, "row": row})
        return await show(
            request, project, {**told, "answer": answer, "row": await office.reports.call(request_id)}
        )

    return [show_try, try_out]
