"""Recipes: their texts with every earlier version, a project's variants, and what operators switch."""

from __future__ import annotations

import asyncio
import difflib
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.chain.snapshot import Snapshot
from gateway.core import Office
from gateway.domain.catalog import Level, Recipe
from gateway.domain.operators import Role
from gateway.recipe_files import MAX_FILE_BYTES, RecipeFileError, parse_variant
from gateway.routes.panel.forms import read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of
from gateway.storage.changes import SwitchChanges
from gateway.storage.configuration import read_configuration
from gateway.storage.refusals import UnknownError

RECIPES = "/panel/recipes"
SWITCH = {"on": True, "off": False, "file": None}
LINES_AROUND = 3
LINES_COMPARED = 2_000
"""Of longer texts each stands whole: comparing them could take minutes."""
TRIAL_VERSION = 2
"""For reading a text before it is kept; the store counts the versions."""

AnyRequest = Request[Any, Any, Any]


class Line(msgspec.Struct, frozen=True):
    """One line of a comparison; `kind` is same, ins, del or skip (then `text` says how many equal lines are left out)."""

    kind: str
    text: str


def recipe_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    desk = _Desk(office, pages)

    @get("/recipes", opt={"role": Role.VIEWER})
    async def show_recipes(request: AnyRequest) -> Response[bytes]:
        snapshot = await desk.snapshot()
        recipes = [snapshot.recipe("", name) or file for name, file in office.recipes.items()]
        return pages.page(request, "recipes.html", {"recipes": recipes})

    @get("/recipes/{name:path}", opt={"role": Role.VIEWER})
    async def show_recipe(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        return await desk.show(request, desk.file(name), _project(request.query_params.get("project", "")))

    @post("/recipe-switches", opt={"role": Role.EDITOR})
    async def set_switches(request: AnyRequest) -> Response[bytes]:
        form = await read_form(request)
        recipe = desk.file(form.text("recipe"))
        level = form.text("level")
        changes = SwitchChanges(
            level=Level(level) if level in set(Level) else None,
            internet=SWITCH.get(form.text("internet")),
            knowledge=SWITCH.get(form.text("knowledge")),
        )
        await office.catalog.set_switches(recipe.name, changes, visitor_of(request).operator, office.now())
        return go(f"{RECIPES}/{recipe.name}", done="saved")

    @post("/recipe-texts", opt={"role": Role.EDITOR})
    async def set_text(request: AnyRequest) -> Response[bytes]:
        form, by = await read_form(request), visitor_of(request).operator
        recipe, project = desk.file(form.text("recipe")), _project(form.text("project"))
        there = f"{RECIPES}/{recipe.name}?{urlencode({'project': project or '', 'done': 'saved'})}"
        match form.text("action"):
            case "withdraw":
                await office.catalog.withdraw_recipe(recipe.name, by, office.now(), project=project)
                return go(there)
            case "rollback":
                text = await desk.earlier(recipe, project, form.text("version"))
            case _:
                text = form.secret("text").replace("\r\n", "\n")
        try:
            desk.check(recipe, project, text)
        except RecipeFileError as error:
            return await desk.show(request, recipe, project, text=text, error=str(error), status=400)
        if form.text("action") == "preview":
            return await desk.show(request, recipe, project, text=text, preview=True)
        await office.catalog.add_recipe_version(recipe.name, text, by, office.now(), project=project)
        return go(there)

    return [show_recipes, show_recipe, set_switches, set_text]


class _Desk:
    """What the pages of one recipe need."""

    def __init__(self, office: Office, pages: Pages) -> None:
        self._office = office
        self._pages = pages

    async def snapshot(self) -> Snapshot:
        """The configuration as it is in the database now."""
        return Snapshot(await read_configuration(self._office.database), self._office.recipes)

    def file(self, name: str) -> Recipe:
        """A recipe's file. Raises `UnknownError`."""
        recipe = self._office.recipes.get(name.strip("/"))
        if recipe is None:
            raise UnknownError(f"there is no recipe {name}")
        return recipe

    def check(self, recipe: Recipe, project: str | None, text: str) -> Recipe:
        """Read a text as it would be in force. Raises `RecipeFileError`."""
        source = "testo"
        if len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
            raise RecipeFileError(source, f"more than {MAX_FILE_BYTES} bytes")
        return parse_variant(recipe, text, project or "", TRIAL_VERSION, source=source)

    async def earlier(self, recipe: Recipe, project: str | None, version: str) -> str:
        """An earlier text. Raises `UnknownError`."""
        for one in await self._office.catalog.recipe_history(recipe.name, project=project):
            if str(one.version) == version:
                return one.text
        raise UnknownError(f"recipe {recipe.name} has no version {version[:20]}")

    async def show(
        self,
        request: AnyRequest,
        recipe: Recipe,
        project: str | None,
        *,
        text: str | None = None,
        error: str = "",
        preview: bool = False,
        status: int = 200,
    ) -> Response[bytes]:
        """A recipe's page: for everybody, or a project's variant."""
        if project is not None:
            await self._office.tenants.get_project(project)
        rows = await read_configuration(self._office.database)
        in_force = Snapshot(rows, self._office.recipes).recipe(project or "", recipe.name) or recipe
        history = await self._office.catalog.recipe_history(recipe.name, project=project)
        live = next((one for one in history if one.live), None)
        shown = text if text is not None else (live.text if live else in_force.instructions)
        trial = self.check(recipe, project, shown) if preview else None
        switches = rows.switches.get(recipe.name)
        instructions = recipe.instructions, (trial or in_force).instructions
        difference = await asyncio.to_thread(differences, *instructions)
        context = {
            "recipe": in_force,
            "file": recipe,
            "project": project,
            "projects": [one for one in await self._office.tenants.list_projects() if not one.internal],
            "history": history,
            "live": live,
            "text": shown,
            "trial": trial,
            "difference": difference,
            "switches": switches,
            "levels": [one.value for one in Level],
            "error": error,
        }
        return self._pages.page(request, "recipe.html", context, status=status)


def differences(before: str, after: str) -> list[Line]:
    """Where two texts differ, with the lines around; empty when they don't."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > LINES_COMPARED:
        return [] if old == new else [Line("del", text) for text in old] + [Line("ins", text) for text in new]
    lines: list[Line] = []
    seen = 0
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(LINES_AROUND):
        if skipped := group[0][1] - seen:
            lines.append(Line("skip", str(skipped)))
        for kind, old_begin, old_end, new_begin, new_end in group:
            if kind == "equal":
                lines += [Line("same", text) for text in old[old_begin:old_end]]
                continue
            lines += [Line("del", text) for text in old[old_begin:old_end]]
            lines += [Line("ins", text) for text in new[new_begin:new_end]]
        seen = group[-1][2]
    if lines and len(old) > seen:
        lines.append(Line("skip", str(len(old) - seen)))
    return lines


def _project(text: str) -> str | None:
    return text or None
