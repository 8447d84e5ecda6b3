"""Administrators: who may come in and what they may do. Owners decide."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.core import Office
from gateway.domain.operators import Account, Role, normal_email
from gateway.routes.panel.forms import read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.refusals import DuplicateError, RefusalError, UnknownError

PEOPLE = "/panel/people"
OWN_BUSINESS = frozenset({"link", "totp-off"})
"""Of one's own access these are changed on the page that asks for the password."""

AnyRequest = Request[Any, Any, Any]


def people_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""

    async def show(
        request: AnyRequest, *, error: str = "", link: str = "", about: str = "", status: int = 200
    ) -> Response[bytes]:
        context = {
            "people": await office.operators.list_accounts(),
            "roles": list(Role),
            "error": error,
            "link": link,
            "about": about,
        }
        return pages.page(request, "people.html", context, status=status)

    async def link_for(request: AnyRequest, account: Account) -> str:
        """A path: the page makes it whole with its own address, so that no Host header can name another."""
        token = await office.operators.make_link(account.id, visitor_of(request).operator, office.now())
        return f"/panel/set-up/{token}"

    @get("/people", opt={"role": Role.OWNER})
    async def show_people(request: AnyRequest) -> Response[bytes]:
        return await show(request)

    @post("/people", opt={"role": Role.OWNER})
    async def add_person(request: AnyRequest) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        email, role = normal_email(form.text("email")), form.text("role")
        if email is None or role not in set(Role):
            return await show(request, error=words("login.email_wrong"), status=400)
        try:
            account = await office.operators.add(
                email, Role(role), visitor_of(request).operator, office.now()
            )
        except DuplicateError:
            return await show(request, error=words("login.email_taken"), status=409)
        return await show(request, link=await link_for(request, account), about=account.email)

    @post("/people/{person:int}", opt={"role": Role.OWNER})
    async def change_person(request: AnyRequest, person: FromPath[int]) -> Response[bytes]:
        form, words, by = await read_form(request), pages.words(request), visitor_of(request).operator
        action = form.text("action")
        if action in OWN_BUSINESS and person == visitor_of(request).account.id:
            return await show(request, error=words("people.own"), status=409)
        try:
            match action:
                case "role" if form.text("role") in set(Role):
                    role = Role(form.text("role"))
                    await office.operators.change(person, by, office.now(), role=role)
                case "disable" | "enable":
                    await office.operators.change(person, by, office.now(), active=action == "enable")
                case "remove":
                    await office.operators.remove(person, by, office.now())
                case "totp-off":
                    await office.operators.set_totp(person, None, (), by, office.now())
                case "link":
                    account = await office.operators.get(person)
                    return await show(request, link=await link_for(request, account), about=account.email)
                case _:
                    return await show(request, error=words("trouble.refused"), status=400)
        except UnknownError:
            raise
        except RefusalError:
            return await show(request, error=words("people.last_owner"), status=409)
        return go(PEOPLE, done="saved")

    return [show_people, add_person, change_person]
