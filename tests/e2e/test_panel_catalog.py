"""Recipes, Pepper models and prices in the panel, and the calls that they make different."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gateway.domain.catalog import BrainFallback, Level, ModelFallback, NoFallback, Reasoning
from gateway.storage.audit import read_audit
from gateway.storage.configuration import read_configuration
from tests.e2e.desk import Tenant
from tests.e2e.harness import CHANGE_SECONDS, REPOSITORY, Gateway
from tests.e2e.panel import HOSTILE, Visit, inert, logged_in, shown, text_of
from tests.e2e.waiting import eventually

RECIPE = "/panel/recipes/correggi"
FILE = REPOSITORY / "recipes" / "pepper" / "correggi.md"
TEXTS = "/panel/recipe-texts"
MODELS = "/panel/models"


@pytest.fixture
async def editor(gateway: Gateway) -> AsyncIterator[Visit]:
    async with logged_in(gateway, "redattrice@example.it", "editor") as visit:
        yield visit


async def _changes(gateway: Gateway) -> int:
    newest = await read_audit(gateway.desk.database, 1)
    return newest[0].id if newest else 0


async def _sends(gateway: Gateway, tenant: Tenant, words: str, version: int) -> None:
    """Return once a call sends these instructions and the ledger names this version."""

    async def sent() -> bool:
        answer = await gateway.ask(tenant, f"Un testo {datetime.now(UTC).timestamp()}", encode="correggi")
        assert answer.status_code == 200
        rows = await gateway.desk.rows(tenant)
        return (
            words in str(gateway.fakes.claude.seen[-1].body["system"]) and rows[-1].recipe_version == version
        )

    await eventually(sent, CHANGE_SECONDS)


async def _version(gateway: Gateway, project: str | None = None) -> int:
    history = await gateway.desk.catalog.recipe_history("correggi", project=project)
    return history[0].version


async def test_a_recipe_from_its_file_to_versions_and_back(gateway: Gateway, editor: Visit) -> None:
    tenant, _ = await gateway.tenant_of_its_own()
    page = inert(await editor.get(RECIPE))
    original = _text(page)
    assert "Nessuna versione scritta qui" in text_of(page)
    before = await _changes(gateway)

    fields = {"recipe": "correggi", "project": ""}
    typed = {**fields, "text": f"Correggi con PRIMA cura.\n{original}"}
    preview = inert(await editor.post(TEXTS, {**typed, "action": "preview"}, page=RECIPE))
    assert "Che cosa viene inviato" in preview
    assert 'class="ins"' in preview
    assert await _changes(gateway) == before, "a preview changes nothing"

    done = await editor.post(TEXTS, {**typed, "action": "save"}, page=RECIPE)
    assert done.status_code == 303
    first = await _version(gateway)
    await _sends(gateway, tenant, "PRIMA cura", first)
    heading = FILE.read_text().rpartition("---\n")[0].replace("livello: economico", "livello: principale")
    second_text = {**fields, "text": f"{heading}---\nCorreggi con SECONDA cura."}
    assert (await editor.post(TEXTS, second_text, page=RECIPE)).status_code == 303
    second = await _version(gateway)
    await _sends(gateway, tenant, "SECONDA cura", second)
    assert "Livello principale" in text_of(inert(await editor.get(RECIPE)))

    back = {**fields, "action": "rollback", "version": str(first)}
    assert (await editor.post(TEXTS, back, page=RECIPE)).status_code == 303
    third = await _version(gateway)
    assert len({first, second, third}) == 3, "the history only grows"
    await _sends(gateway, tenant, "PRIMA cura", third)
    [entry] = await read_audit(gateway.desk.database, 1)
    assert (entry.operator, entry.action, entry.subject) == (
        "redattrice@example.it",
        "recipe.version",
        "correggi",
    )

    out = {**fields, "action": "withdraw"}
    assert (await editor.post(TEXTS, out, page=RECIPE)).status_code == 303
    await _sends(gateway, tenant, original.strip().splitlines()[0], 1)
    history = await gateway.desk.catalog.recipe_history("correggi")
    assert [one.live for one in history] == [False] * 3


async def test_a_variant_is_one_projects_alone(gateway: Gateway, editor: Visit) -> None:
    mine, _ = await gateway.tenant_of_its_own()
    other, _ = await gateway.tenant_of_its_own()
    path = f"{RECIPE}?project={mine.name}"
    typed = {"recipe": "correggi", "project": mine.name, "text": "Correggi come vuole ANNA."}
    done = await editor.post(TEXTS, typed, page=path)
    assert done.headers["location"] == f"{RECIPE}?project={mine.name}&done=saved"
    await _sends(gateway, mine, "ANNA", await _version(gateway, mine.name))
    await gateway.ask(other, "Altro testo", encode="correggi")
    assert "ANNA" not in str(gateway.fakes.claude.seen[-1].body["system"])
    page = inert(await editor.get(path))
    assert f"variante di {mine.name}" in page
    assert 'class="del"' in page, "compared with the original"
    assert (await editor.get(f"{RECIPE}?project=nessuno")).status_code == 404
    assert (await editor.get("/panel/recipes/nessuna")).status_code == 404


async def test_wrong_texts_change_nothing(gateway: Gateway, editor: Visit) -> None:
    before = await _changes(gateway)
    wrong: list[tuple[dict[str, str], int]] = [
        ({"text": ""}, 400),
        ({"text": "---\nlivello: enorme\n---\nTesto"}, 400),
        ({"text": "---\nnome: altra\n---\nTesto"}, 400),
        ({"text": "---\nmax_tokens: [1\n---\nTesto"}, 400),
        ({"text": "x" * 300_000}, 400),
        ({"text": "---\nboh: 1\n---\n<script>alert(1)</script>"}, 400),
        ({"text": "Testo", "recipe": "nessuna"}, 404),
        ({"text": "Testo", "project": "nessuno"}, 404),
        ({"text": "Testo", "project": "a\r\nset-cookie: x=1"}, 404),
        ({"action": "rollback", "version": "99"}, 404),
        ({"action": "rollback", "version": "<script>"}, 404),
    ]
    for fields, expected in wrong:
        answer = await editor.post(TEXTS, {"recipe": "correggi", "project": "", **fields}, page=RECIPE)
        assert answer.status_code == expected, fields
        inert(answer)
    nothing = {"recipe": "correggi", "project": "a\r\nset-cookie: x=1", "action": "withdraw"}
    answer = await editor.post(TEXTS, nothing, page=RECIPE)
    assert "set-cookie" not in answer.headers
    assert await gateway.desk.catalog.recipe_history("correggi", project="nessuno") == ()
    assert all(entry.action != "recipe.version" for entry in await read_audit(gateway.desk.database, 3)) or (
        await _changes(gateway) == before
    )


async def test_switches_are_the_operators(gateway: Gateway, editor: Visit) -> None:
    fields = {"recipe": "estrai", "internet": "on", "knowledge": "off", "level": "economico"}
    done = await editor.post("/panel/recipe-switches", fields, page="/panel/recipes/estrai")
    assert done.status_code == 303
    kept = (await read_configuration(gateway.desk.database)).switches["estrai"]
    assert (kept.internet, kept.knowledge, kept.level) == (True, False, Level.ECONOMY)
    back = {"recipe": "estrai", "internet": "file", "knowledge": "file", "level": "file"}
    assert (await editor.post("/panel/recipe-switches", back, page="/panel/recipes")).status_code == 303
    kept = (await read_configuration(gateway.desk.database)).switches["estrai"]
    assert (kept.internet, kept.knowledge, kept.level) == (None, None, None)
    odd = {"recipe": "nessuna", "internet": "on"}
    assert (await editor.post("/panel/recipe-switches", odd, page="/panel/recipes")).status_code == 404


BRAIN = {
    "provider": "claude",
    "principal": "claude-opus-5",
    "economy": "claude-haiku-4-5",
    "reasoning": "medium",
    "fallback": "pepper:Pepper 6",
    "description": "Descrizione",
    "news": "Novità",
    "voice": "on",
}


async def test_a_pepper_model_is_made_changed_and_made_the_default(gateway: Gateway, editor: Visit) -> None:
    made = await editor.post(MODELS, {"name": "Pepper 8", **BRAIN}, page=MODELS)
    assert made.status_code == 303
    brains = {one.name: one for one in await gateway.desk.catalog.list_brains()}
    assert brains["Pepper 8"].fallback == BrainFallback("Pepper 6")
    assert brains["Pepper 8"].reasoning is Reasoning.MEDIUM
    assert brains["Pepper 8"].voice
    assert (await editor.post(MODELS, {"name": "Pepper 8", **BRAIN}, page=MODELS)).status_code == 409

    page = inert(await editor.get(f"{MODELS}?edit=Pepper+8"))
    assert 'value="claude-opus-5"' in page
    change = {
        "name": "Pepper 8",
        **BRAIN,
        "fallback": "model:claude-haiku-4-5",
        "voice": "",
        "reasoning": "off",
    }
    assert (await editor.post(f"{MODELS}/change", change, page=MODELS)).status_code == 303
    brains = {one.name: one for one in await gateway.desk.catalog.list_brains()}
    assert brains["Pepper 8"].fallback == ModelFallback("claude-haiku-4-5")
    assert not brains["Pepper 8"].voice
    [entry] = await read_audit(gateway.desk.database, 1)
    assert entry.before is not None
    assert msgspec.json.decode(entry.before)["reasoning"] == "medium"

    await editor.post(f"{MODELS}/change", {"name": "Pepper 8", "action": "default"}, page=MODELS)
    assert [one.name for one in await gateway.desk.catalog.list_brains() if one.default] == ["Pepper 8"]
    await editor.post(f"{MODELS}/change", {"name": "Pepper 6", "action": "default"}, page=MODELS)


WRONG_BRAINS: list[tuple[str, list[str]]] = [
    ("name", ["", "x" * 129, "due\nrighe"]),
    ("provider", ["", "prova", "<script>"]),
    ("principal", ["", "x" * 129]),
    ("economy", ["", "a\tb"]),
    ("reasoning", ["", "enorme"]),
    ("fallback", ["boh", "model:", "pepper:", "pepper:Pepper 99", "x" * 300]),
    ("description", ["x" * 2_001]),
]


@pytest.mark.parametrize(("field", "values"), WRONG_BRAINS, ids=[field for field, _ in WRONG_BRAINS])
async def test_a_wrong_field_of_a_model_changes_nothing(
    gateway: Gateway, editor: Visit, field: str, values: list[str]
) -> None:
    before = await _changes(gateway)
    for value in values:
        fields: dict[str, Any] = {"name": "Sbagliato", **BRAIN, field: value}
        answers = [await editor.post(MODELS, fields, page=MODELS)]
        if field != "name":
            change = {**fields, "name": "Pepper 7"}
            answers.append(await editor.post(f"{MODELS}/change", change, page=MODELS))
        for answer in answers:
            assert answer.status_code == 400, value
            page = inert(answer)
            assert 'role="alert"' in page
            if field in {"name", "principal", "economy", "fallback"} and "Pepper 99" not in value:
                assert re.search(rf'<input id="f-{field}"[^>]*aria-invalid="true"', page), value
    assert await _changes(gateway) == before
    assert (await editor.post(f"{MODELS}/change", {**BRAIN, "name": "Chi"}, page=MODELS)).status_code == 404


async def test_a_fallback_in_a_circle_is_refused(gateway: Gateway, editor: Visit) -> None:
    circle = {**BRAIN, "name": "Pepper 6", "fallback": "pepper:Pepper 7"}  # which falls back to 6
    answer = await editor.post(f"{MODELS}/change", circle, page=MODELS)
    assert answer.status_code == 400
    six = next(one for one in await gateway.desk.catalog.list_brains() if one.name == "Pepper 6")
    assert six.fallback != BrainFallback("Pepper 7")


async def test_prices_have_their_day_and_a_model_without_one_is_named(
    gateway: Gateway, editor: Visit
) -> None:
    fields = {"name": "Senza prezzo", **BRAIN, "principal": "claude-ignoto", "fallback": "none"}
    assert (await editor.post(MODELS, fields, page=MODELS)).status_code == 303
    told = text_of(inert(await editor.get(MODELS)))
    assert "Senza prezzo, quindi inutilizzabili: claude-ignoto." in told
    price = {
        "model": "claude-ignoto",
        "input": "2,5",
        "output": "10",
        "cache_read": "0.25",
        "cache_write": "",
    }
    assert (await editor.post(f"{MODELS}/price", price, page=MODELS)).status_code == 303
    [kept] = [one for one in await gateway.desk.catalog.list_prices() if one.model == "claude-ignoto"]
    [unit] = kept.tiers
    assert [float(one) for one in (unit.input, unit.output, unit.cache_read, unit.cache_write)] == [
        2.5,
        10,
        0.25,
        2.5,
    ]
    told = text_of(inert(await editor.get(MODELS)))
    assert "inutilizzabili" not in told
    assert f"operatore {kept.day}" in told
    before = await _changes(gateway)
    for field, value in (
        ("model", ""),
        ("input", ""),
        ("input", "-1"),
        ("output", "tanto"),
        ("output", "1e3"),
        ("cache_read", "1.0000001"),
        ("cache_write", "2000000"),
    ):
        answer = await editor.post(f"{MODELS}/price", {**price, field: value}, page=MODELS)
        assert answer.status_code == 400, (field, value)
        page = inert(answer)
        assert re.search(rf'<input id="f-{field}"[^>]*aria-invalid="true"', page), (field, value)
        assert 'value="claude-ignoto"' in page or field == "model", "what was typed is kept"
    assert await _changes(gateway) == before
    done = await editor.post(f"{MODELS}/change", {**fields, "principal": "claude-opus-5"}, page=MODELS)
    assert done.status_code == 303
    brain = next(one for one in await gateway.desk.catalog.list_brains() if one.name == "Senza prezzo")
    assert brain.fallback == NoFallback()


async def test_hostile_texts_are_inert(gateway: Gateway, editor: Visit) -> None:
    tenant = await gateway.desk.project()
    for number, text in enumerate(HOSTILE):
        variant = {"recipe": "libero", "project": tenant.name, "text": f"{text}\n{number}"}
        assert (await editor.post(TEXTS, variant, page=RECIPE)).status_code == 303
        preview = await editor.post(TEXTS, {**variant, "action": "preview"}, page=RECIPE)
        assert shown(text) in inert(preview)
        brain = {**BRAIN, "name": text, "principal": text, "economy": text, "fallback": f"model:{text}"}
        brain |= {"description": text, "news": text}
        assert (await editor.post(MODELS, brain, page=MODELS)).status_code == 303
        price = {"model": text, "input": "1", "output": "1"}
        assert (await editor.post(f"{MODELS}/price", price, page=MODELS)).status_code == 303
    recipe = inert(await editor.get(f"/panel/recipes/libero?project={tenant.name}"))
    models = inert(await editor.get(MODELS))
    for text in HOSTILE:
        assert shown(text) in recipe
        assert shown(text) in models
        inert(await editor.client.get(MODELS, params={"edit": text}))
    assert "{{7*7}}" in models
    inert(await editor.get("/panel/audit"))
    inert(await editor.get(f"/panel/projects/{tenant.name}"))


def _text(page: str) -> str:
    found = re.search(r'<textarea id="f-text"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return found[1].replace("&#39;", "'").replace("&#34;", '"').replace("&amp;", "&")
