"""Pictures of the panel for the documentation: `python -m tests.screenshots` writes docs/images.

`--all FOLDER` takes every page in every look instead, to be looked at.
"""

from __future__ import annotations

import asyncio
import io
import random
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from PIL import Image
from playwright.async_api import Browser
from sqlalchemy import insert

from gateway.domain.calls import Attempt, CallRecord, Outcome
from gateway.domain.operators import Role
from gateway.domain.tenants import Operator, Permission
from gateway.domain.usage import UnitPrice, Usage
from gateway.storage import schema
from gateway.storage.calls import ledger_row
from gateway.storage.operators import Operators
from tests.e2e.browsing import DESK_DARK, DESK_LIGHT, PHONE, Look, browsing, visitor
from tests.e2e.harness import REPOSITORY, Gateway
from tests.e2e.panel import let_in
from tests.e2e.surroundings import Fakes, Stores
from tests.fakes import ClaudeServer, OpenAIServer

IMAGES = REPOSITORY / "docs" / "images"
OWNER = "anna.bianchi@example.it"
PROJECTS: dict[str, tuple[float, float | None, tuple[Permission, ...]]] = {
    "gazzetta": (1.0, 12.0, (Permission.DOCUMENTS, Permission.DEFERRED, Permission.INTERNET)),
    "comune": (0.55, 5.0, (Permission.DOCUMENTS, Permission.IMAGES, Permission.KNOWLEDGE)),
    "scuola": (0.3, 2.0, (Permission.KNOWLEDGE,)),
    "museo": (0.12, None, (Permission.IMAGES,)),
}
"""How busy each is, its cap, what it may do."""
RECIPES = ("riassumi", "libero", "correggi", "classifica", "estrai")
MODELS = ("claude-opus-5", "claude-haiku-4-5")
SHOWN = {
    "overview": ("/panel", DESK_LIGHT),
    "overview-dark": ("/panel", DESK_DARK),
    "project": ("/panel/projects/comune", DESK_LIGHT),
    "recipe": ("/panel/recipes/riassumi?project=gazzetta#difference", DESK_LIGHT),
    "ledger": ("/panel/ledger", DESK_LIGHT),
    "phone": ("/panel", PHONE),
}
VARIANT = "Scrivi per i lettori di un quotidiano: frasi brevi, il fatto nella prima riga.\n\n"
COLOURS = 128
SETTLE_MS = 300
"""In which charts are drawn."""


@click.command()
@click.option(
    "--all", "folder", type=click.Path(path_type=Path), help="Every page in every look, into this folder."
)
def screenshots(*, folder: Path | None) -> None:
    """Take the pictures."""
    (folder or IMAGES).mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="pepper-pictures-"))
    try:
        with ClaudeServer() as claude, OpenAIServer() as openai:
            gateway = Gateway(Stores("embedded"), Fakes(claude, openai), folder=data)
            with gateway:
                gateway.start()
                asyncio.run(_take(gateway, folder))
    finally:
        shutil.rmtree(data, ignore_errors=True)


async def _take(gateway: Gateway, folder: Path | None) -> None:
    async with gateway.connected(), browsing() as browser:
        request = await _furnish(gateway)
        if folder is None:
            for name, (path, look) in SHOWN.items():
                await _picture(gateway, browser, path, look, IMAGES / f"{name}.png", whole=False)
            return
        for name, path in _pages(request).items():
            for look in (DESK_LIGHT, DESK_DARK, PHONE):
                await _picture(gateway, browser, path, look, folder / f"{name}-{look.name}.png", whole=True)


def _pages(request: str) -> dict[str, str]:
    return {
        "overview": "/panel",
        "projects": "/panel/projects",
        "project": "/panel/projects/comune",
        "remove": "/panel/projects/museo/remove",
        "try": "/panel/projects/comune/try",
        "recipes": "/panel/recipes",
        "recipe": "/panel/recipes/riassumi?project=gazzetta",
        "models": "/panel/models",
        "model": "/panel/models?edit=Pepper+6",
        "knowledge": "/panel/knowledge",
        "shelf": "/panel/knowledge/comune",
        "ledger": "/panel/ledger",
        "call": f"/panel/ledger/{request}",
        "batches": "/panel/batches",
        "settings": "/panel/settings",
        "people": "/panel/people",
        "audit": "/panel/audit",
        "account": "/panel/account",
        "missing": "/panel/nessuna",
    }


async def _picture(
    gateway: Gateway, browser: Browser, path: str, look: Look, file: Path, *, whole: bool
) -> None:
    async with visitor(browser, gateway, look) as owner:
        await owner.login(OWNER)
        await owner.go(path)
        await owner.page.wait_for_timeout(SETTLE_MS)
        taken = await owner.page.screenshot(full_page=whole)
    await asyncio.to_thread(_keep, taken, file)


def _keep(taken: bytes, file: Path) -> None:
    """A palette makes it small."""
    image = Image.open(io.BytesIO(taken)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    click.echo(f"{file} {file.stat().st_size // 1000} kB")


async def _furnish(gateway: Gateway) -> str:
    """Make a month of an installation's life; gives the id of a call."""
    chance = random.Random(6)
    now = datetime.now(UTC)
    await let_in(gateway, OWNER)
    operators = Operators(gateway.desk.database)
    by = Operator(OWNER)
    await operators.add("marco.verdi@example.it", Role.EDITOR, by, now)
    await operators.add("sara.neri@example.it", Role.VIEWER, by, now)
    for name, (_, cap, permissions) in PROJECTS.items():
        await gateway.desk.project(name, cap=cap, per_hour=500, allow=permissions)
    await gateway.desk.key("comune")
    original = (REPOSITORY / "recipes" / "pepper" / "riassumi.md").read_text().rpartition("---\n")[2]
    text = VARIANT + original.replace("sobrie, in terza persona", "semplici, in terza persona")
    await gateway.desk.catalog.add_recipe_version("riassumi", text, by, now, project="gazzetta")
    rows = [row for name in PROJECTS for row in _calls(name, now, chance)]
    spending = [
        {
            "project": name,
            "day": (now - timedelta(days=back)).date(),
            "settled": round(
                chance.uniform(0.5, 1.1) * busy * 4_000_000 * (0.4 if back % 7 in {1, 2} else 1)
            ),
            "reserved": 0,
            "batches": 120_000 if name == "gazzetta" and not back else 0,
        }
        for name, (busy, _, _) in PROJECTS.items()
        for back in range(30)
    ]
    async with gateway.desk.database.begin() as connection:
        await connection.execute(insert(schema.calls), [ledger_row(row) for row in rows])
        await connection.execute(insert(schema.spending), spending)
    return next(row.request_id for row in reversed(rows) if row.fallback)


def _calls(project: str, now: datetime, chance: random.Random) -> list[CallRecord]:
    busy = PROJECTS[project][0]
    found = []
    for number in range(round(busy * 400)):
        hours = chance.triangular(0, 24, 4)
        at = now - timedelta(hours=hours, seconds=chance.uniform(0, 60))
        found.append(_call(project, number, at, chance))
    return found


def _call(project: str, number: int, at: datetime, chance: random.Random) -> CallRecord:
    luck, model = chance.random(), chance.choice(MODELS)
    outcome = Outcome.OK if luck > 0.09 else Outcome.CACHE if luck > 0.025 else Outcome.FAILED
    fallback = luck > 0.985
    usage = Usage(input_tokens=chance.randint(200, 6_000), output_tokens=chance.randint(80, 900))
    dear = model == MODELS[0]
    prices: dict[str, Any] = {"input": 5, "output": 25} if dear else {"input": 1, "output": 5}
    cost = usage.input_tokens * prices["input"] + usage.output_tokens * prices["output"]
    unit = UnitPrice(**prices, cache_read=prices["input"], cache_write=prices["input"])
    milliseconds = round(chance.lognormvariate(7.4, 0.5))
    answered = Attempt(
        provider="claude",
        model=model,
        outcome="ok",
        usage=usage,
        cost=cost,
        prices=unit,
        duration_ms=milliseconds,
    )
    failed = Attempt(provider="claude", model=MODELS[0], outcome="sovraccarico", duration_ms=420)
    asked = outcome is Outcome.OK
    return CallRecord(
        request_id=f"req_{int(at.timestamp() * 1000):011x}{number:08x}{chance.getrandbits(32):08x}",
        project=project,
        day=at.date(),
        started_at=at,
        recipe=chance.choice(RECIPES),
        recipe_version=1,
        outcome=outcome,
        key_id=1,
        brain="Pepper 6",
        provider="claude" if outcome is not Outcome.CACHE else "",
        model=model if outcome is not Outcome.CACHE else "",
        fault="provider_non_disponibile" if outcome is Outcome.FAILED else None,
        usage=usage if asked else Usage(),
        cost=cost if asked else 0,
        attempts=(*((failed,) if fallback else ()), answered) if asked else (),
        fallback=f"model:{MODELS[1]}" if fallback else None,
        duration_ms=milliseconds + 9 if outcome is not Outcome.CACHE else 6,
        provider_ms=milliseconds if asked else 0,
    )


if __name__ == "__main__":
    screenshots()
