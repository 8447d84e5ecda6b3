"""What is configured, as this process sees it: projects, keys, brains, prices and recipes, merged and frozen.

A snapshot never changes; a newer one replaces it within two seconds of a change (`chain/current.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from gateway.domain.catalog import Brain, BrainFallback, Level, ModelFallback, Reasoning, Recipe, Target
from gateway.domain.sandbox import SANDBOX_PROVIDER
from gateway.domain.tenants import Project
from gateway.domain.usage import Price
from gateway.recipe_files import RecipeFileError, parse_variant
from gateway.storage.catalog import RecipeVersion
from gateway.storage.changes import RecipeSwitches
from gateway.storage.configuration import ConfigurationRows
from gateway.storage.prices import bundled_price, bundled_window

log = logging.getLogger(__name__)


class Snapshot:
    """One consistent view of the configuration. Looking things up never fails and never waits."""

    def __init__(self, rows: ConfigurationRows, files: Mapping[str, Recipe]) -> None:
        self.revision = rows.revision
        self.settings = rows.settings
        self.projects = rows.projects
        self.keys = rows.keys
        self.brains = {brain.name: brain for brain in rows.brains}
        self.notified = tuple(one.name for one in rows.projects.values() if one.active and one.notice_url)
        self._overrides = rows.prices
        self._bundled: dict[tuple[str, str], Price | None] = {}
        self._default = next(brain for brain in rows.brains if brain.default)
        self._recipes, self._variants = _merge(rows, files)

    def key_owner(self, digest: bytes) -> tuple[Project, int] | None:
        """Whose key this is, and its id."""
        found = self.keys.get(digest)
        if found is None:
            return None
        project = self.projects.get(found[0])
        return (project, found[1]) if project else None

    def recipe(self, project: str, name: str) -> Recipe | None:
        """The recipe as this project gets it: its own variant if it has one."""
        return self._variants.get((project, name)) or self._recipes.get(name)

    def partner_recipes(self, project: str) -> tuple[Recipe, ...]:
        """Every recipe that a partner project can name, in the files' order."""
        found = (self.recipe(project, name) for name in self._recipes)
        return tuple(recipe for recipe in found if recipe and recipe.partner)

    def brain_of(self, project: Project) -> Brain:
        """The brain a project talks to: its own choice, else the default."""
        return self.brains.get(project.brain or "") or self._default

    def targets(self, project: Project, brain: Brain, level: Level) -> tuple[Target, ...]:
        """Whom a call of this level asks, in order: one first choice and at most one fallback."""
        first = Target(brain.provider, brain.model(level), brain.name, brain.reasoning)
        if project.sandbox:
            return (Target(SANDBOX_PROVIDER, first.model, first.brain, Reasoning.OFF),)
        second = self._fallback(brain, level)
        if second is None or (second.provider, second.model) == (first.provider, first.model):
            return (first,)
        return (first, second)

    def level_of(self, target: Target) -> Level:
        """Whether a target is its brain's principal model or the economy one."""
        brain = self.brains.get(target.brain)
        return (
            Level.ECONOMY if brain and target.model == brain.economy != brain.principal else Level.PRINCIPAL
        )

    def price(self, provider: str, model: str) -> Price | None:
        """What a model costs: the operator's word, else the bundled table's; None when nobody knows, and for the sandbox."""
        if provider == SANDBOX_PROVIDER:
            return None
        if model in self._overrides:
            return self._overrides[model]
        if (provider, model) not in self._bundled:
            self._bundled[provider, model] = bundled_price(provider, model)
        return self._bundled[provider, model]

    def context_window(self, target: Target) -> int | None:
        """Tokens that a model holds, input and answer together; None when the bundled table does not say."""
        return bundled_window(target.provider, target.model)

    def _fallback(self, brain: Brain, level: Level) -> Target | None:
        match brain.fallback:
            case ModelFallback(model):
                return Target(brain.provider, model, brain.name, brain.reasoning, str(brain.fallback))
            case BrainFallback(name) if name in self.brains:
                other = self.brains[name]
                return Target(
                    other.provider, other.model(level), other.name, other.reasoning, str(brain.fallback)
                )
            case _:
                return None


def _merge(
    rows: ConfigurationRows, files: Mapping[str, Recipe]
) -> tuple[dict[str, Recipe], dict[tuple[str, str], Recipe]]:
    """Lay the operators' texts and switches over the files; variants by (project, recipe).

    A stored text that is no recipe any more (its file has changed under it) is left aside, and said in the log.
    """
    recipes = {}
    for name, file in files.items():
        everybodys = rows.versions.get((name, ""))
        recipe = _version(file, everybodys) if everybodys else file
        recipes[name] = _switched(recipe, rows.switches.get(name))
    variants = {}
    for (name, project), version in rows.versions.items():
        if project and name in recipes:
            variant = _version(recipes[name], version)
            variants[project, name] = _switched(variant, rows.switches.get(name))
    return recipes, variants


def _version(base: Recipe, version: RecipeVersion) -> Recipe:
    try:
        recipe = parse_variant(base, version.text, version.project, version.version)
    except RecipeFileError as error:
        log.error("a stored version of a recipe can't be used: %s", error)  # noqa: TRY400 - the sentence says it all
        return base
    return msgspec.structs.replace(recipe, variant_of=version.project or None)


def _switched(recipe: Recipe, switches: RecipeSwitches | None) -> Recipe:
    if switches is None:
        return recipe
    return msgspec.structs.replace(
        recipe,
        level=recipe.level if switches.level is None else switches.level,
        internet=recipe.internet if switches.internet is None else switches.internet,
        knowledge=recipe.knowledge if switches.knowledge is None else switches.knowledge,
    )
