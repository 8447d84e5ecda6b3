"""What the database says: recipes and Pepper models that are named must exist, models have prices, providers keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.bootstrap.provider_keys import keys_in_force
from gateway.chain.pricing import models_of
from gateway.chain.snapshot import Snapshot
from gateway.cli.doctor.problem import Problem
from gateway.domain.catalog import BrainFallback, Level
from gateway.domain.operator_settings import ALERT_SECRET, MAIL_PASSWORD
from gateway.recipe_files import RecipeFileError, parse_variant
from gateway.storage.operator_settings import opened_keys
from gateway.storage.sealing import SealBrokenError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.domain.catalog import Recipe
    from gateway.domain.operator_settings import PanelSettings
    from gateway.settings import Settings
    from gateway.storage.configuration import ConfigurationRows
    from gateway.storage.sealing import Seal

KEY_VARIABLES = {"claude": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def configuration_problems(
    settings: Settings, rows: ConfigurationRows, files: Mapping[str, Recipe] | None, seal: Seal
) -> Iterator[Problem]:
    """Find what doesn't fit together.

    Args:
        settings: The environment, for the providers' keys; those that owners set in the panel count too.
        rows: What the database holds.
        files: The recipe files; None when they can't be read, which is told elsewhere.
        seal: Opens what is kept sealed.

    """
    if sum(brain.default for brain in rows.brains) != 1:
        yield Problem("nessun modello Pepper è il predefinito", "pepper model default NOME")
        return
    yield from _brain_problems(rows)
    if files is not None:
        yield from _recipe_problems(rows, files)
    snapshot = Snapshot(rows, files or {})
    yield from _price_problems(rows, snapshot)
    yield from _sealed_problems(rows.settings, seal)
    yield from _provider_problems(keys_in_force(settings, rows.settings, seal), snapshot)


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


def _sealed_problems(settings: PanelSettings, seal: Seal) -> Iterator[Problem]:
    """Find secrets of the panel that don't open: sealed under another `PEPPER_SECRET`, or damaged."""
    for provider, key in opened_keys(settings, seal).items():
        if key is None:
            yield Problem(
                f"la chiave di {provider} impostata nel pannello non si apre con questo segreto",
                "impostarla di nuovo nel pannello, in Impostazioni",
            )
    for what, purpose, sealed in (
        ("la password del server di posta impostata", MAIL_PASSWORD, settings.mail_password),
        ("il segreto che firma gli allarmi, creato", ALERT_SECRET, settings.alert_secret),
    ):
        try:
            if sealed is not None:
                seal.open(purpose, sealed)
        except SealBrokenError:
            yield Problem(
                f"{what} nel pannello non si apre con questo segreto",
                "impostare di nuovo il server, o l'indirizzo, nel pannello, in Impostazioni",
            )


def _provider_problems(keys: Mapping[str, str | None], snapshot: Snapshot) -> Iterator[Problem]:
    """Find providers without a key among those that projects would really reach."""
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
            f"impostare {KEY_VARIABLES[provider]}, o la chiave nel pannello, oppure pepper project set PROGETTO --sandbox",
        )
