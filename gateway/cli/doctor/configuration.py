"""What the database says: recipes and Pepper models that are named must exist, models have prices, providers keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.chain.pricing import models_of
from gateway.chain.snapshot import Snapshot
from gateway.cli.doctor.problem import Problem
from gateway.domain.catalog import BrainFallback, Level
from gateway.recipe_files import RecipeFileError, parse_variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.domain.catalog import Recipe
    from gateway.settings import Settings
    from gateway.storage.configuration import ConfigurationRows

KEY_VARIABLES = {"claude": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def configuration_problems(
    settings: Settings, rows: ConfigurationRows, files: Mapping[str, Recipe] | None
) -> Iterator[Problem]:
    """Find what doesn't fit together.

    Args:
        settings: The environment, for the providers' keys.
        rows: What the database holds.
        files: The recipe files; None when they can't be read, which is told elsewhere.

    """
    if sum(brain.default for brain in rows.brains) != 1:
        yield Problem("nessun modello Pepper è il predefinito", "pepper model default NOME")
        return
    yield from _brain_problems(rows)
    if files is not None:
        yield from _recipe_problems(rows, files)
    snapshot = Snapshot(rows, files or {})
    yield from _price_problems(rows, snapshot)
    yield from _provider_problems(settings, snapshot)


def _brain_problems(rows: ConfigurationRows) -> Iterator[Problem]:
    names = {brain.name for brain in rows.brains}
    for project in rows.projects.values():
        if project.brain is not None and project.brain not in names:
            yield Problem(
                f"il progetto {project.name} parla con il modello {project.brain}, che non esiste",
                f'pepper project set {project.name} --model default, oppure pepper model add "{project.brain}" ...',
            )
    for brain in rows.brains:
        if isinstance(brain.fallback, BrainFallback) and brain.fallback.brain not in names:
            yield Problem(
                f"il modello {brain.name} ripiega su {brain.fallback.brain}, che non esiste",
                f'pepper model set "{brain.name}" --fallback none',
            )


def _recipe_problems(rows: ConfigurationRows, files: Mapping[str, Recipe]) -> Iterator[Problem]:
    for name in sorted(rows.switches.keys() - files.keys()):
        yield Problem(
            f"ci sono interruttori per la ricetta {name}, di cui non c'è il file",
            f"rimettere {name}.md nella cartella delle ricette; altrimenti gli interruttori restano senza effetto",
        )
    for (name, project), version in sorted(rows.versions.items()):
        whose = (
            f"la variante di {name} del progetto {project}"
            if project
            else f"il testo di {name} valido per tutti"
        )
        if name not in files:
            yield Problem(
                f"{whose} non vale: della ricetta non c'è il file",
                f"rimettere {name}.md nella cartella delle ricette"
                + (f", oppure pepper recipe variant {name} --project {project} --remove" if project else ""),
            )
            continue
        try:
            parse_variant(files[name], version.text, project, version.version)
        except RecipeFileError as error:
            yield Problem(
                f"{whose} non vale: {error.problem}",
                f"pepper recipe variant {name} --project {project} --file F"
                if project
                else "scriverlo di nuovo",
            )


def _price_problems(rows: ConfigurationRows, snapshot: Snapshot) -> Iterator[Problem]:
    for used in models_of(rows, snapshot):
        if used.price is None:
            yield Problem(
                f"il modello {used.model} non ha un prezzo e non si può usare (serve a {', '.join(used.brains)})",
                f"pepper price set {used.model} --input USD --output USD",
            )


def _provider_problems(settings: Settings, snapshot: Snapshot) -> Iterator[Problem]:
    """Find providers without a key among those that projects would really reach."""
    keys = {"claude": settings.anthropic_key, "openai": settings.openai_key}
    missing: dict[str, dict[str, None]] = {}
    for project in snapshot.projects.values():
        if not project.active or project.sandbox or project.internal:
            continue
        brain = snapshot.brain_of(project)
        for level in Level:
            for target in snapshot.targets(project, brain, level):
                if target.provider in keys and not keys[target.provider]:
                    missing.setdefault(target.provider, {})[project.name] = None
    for provider, projects in sorted(missing.items()):
        yield Problem(
            f"manca la chiave del fornitore {provider}, che serve ai progetti {', '.join(projects)}",
            f"impostare {KEY_VARIABLES[provider]}, oppure pepper project set PROGETTO --sandbox",
        )
