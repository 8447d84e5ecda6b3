"""`pepper recipe`, `pepper model` and `pepper price`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.test_cli import ROOT, Pepper

CONTRACT = ["riassumi", "correggi", "estrai", "classifica", "libero"]
TARGETS = ["claude-opus-5", "claude-haiku-4-5", "gpt-5.5", "gpt-5.4-mini", "claude-opus-5-5"]
WHOLE = "---\nnome: riassumi\ndescrizione: Altro.\nlivello: economico\nmax_tokens: 10\nbase: 10\n---\nFai altro.\n"


@pytest.fixture
def pepper(tmp_path: Path) -> Pepper:
    pepper = Pepper(tmp_path)
    pepper.done("migrate")
    return pepper


@pytest.fixture
def recipes(pepper: Pepper) -> Path:
    """A folder of recipes to change."""
    folder = pepper.folder / "recipes"
    shutil.copytree(ROOT / "recipes", folder)
    pepper.environment["PEPPER_RECIPES"] = str(folder)
    return folder


# --- recipes ------------------------------------------------------------------------------------------------------


def test_recipes_are_listed(pepper: Pepper) -> None:
    told = pepper.told("recipe", "list")
    assert [one["nome"] for one in told if "interno" not in one] == CONTRACT
    assert list(told[0]) == ["nome", "descrizione", "livello", "internet", "conoscenza", "extra"]
    assert told[0]["extra"] == ["lingua", "lunghezza", "formato", "parole"]
    assert [one["livello"] for one in told[:5]] == [
        "principale",
        "economico",
        "principale",
        "economico",
        "principale",
    ]


def test_recipes_of_the_gateways_own_door_are_marked(pepper: Pepper, recipes: Path) -> None:
    (recipes / "porta").mkdir()
    (recipes / "porta" / "saluta.md").write_text(WHOLE.replace("riassumi", "saluta"))
    told = {one["nome"]: one.get("interno") for one in pepper.told("recipe", "list")}
    assert told["saluta"] is True
    assert told["libero"] is None


def test_switches_replace_what_is_named(pepper: Pepper) -> None:
    def state() -> tuple[str, bool, bool]:
        one = pepper.told("recipe", "list")[0]
        return one["livello"], one["internet"], one["conoscenza"]

    assert pepper.told("recipe", "set", "riassumi", "--internet", "on") == {"ok": True}
    assert state() == ("principale", True, False)
    pepper.done("recipe", "set", "riassumi", "--knowledge", "on", "--level", "economico")
    assert state() == ("economico", True, True)
    pepper.done("recipe", "set", "riassumi", "--internet", "off", "--level", "file")
    assert state() == ("principale", False, True)
    pepper.done("recipe", "set", "riassumi", "--internet", "file", "--knowledge", "file")
    assert state() == ("principale", False, False)


def test_an_unknown_recipe_is_refused(pepper: Pepper) -> None:
    assert "riassumi" in pepper.refused("recipe", "set", "nessuna", "--internet", "on")
    pepper.folder.joinpath("text").write_text("Fai.")
    assert "no recipe" in pepper.refused(
        "recipe", "variant", "nessuna", "--project", "demo", "--file", "text"
    )


def test_a_variant_comes_and_goes(pepper: Pepper) -> None:
    text = pepper.folder / "variant.md"
    text.write_text("Riassumi in rima.")
    assert pepper.told("recipe", "variant", "riassumi", "--project", "demo", "--file", str(text)) == {
        "ok": True
    }
    pepper.done("recipe", "variant", "riassumi", "--project", "demo", "--file", "-", given=WHOLE.encode())
    assert pepper.told("recipe", "list")[0]["livello"] == "principale"
    assert pepper.told("recipe", "variant", "riassumi", "--project", "demo", "--remove") == {"ok": True}
    assert "no variant" in pepper.refused("recipe", "variant", "riassumi", "--project", "demo", "--remove")
    assert "no project" in pepper.refused("recipe", "variant", "riassumi", "--project", "altro", "--remove")
    assert "no project" in pepper.refused(
        "recipe", "variant", "riassumi", "--project", "altro", "--file", str(text)
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"   \n",
        b"\xff\xfe",
        b"\xef\xbb\xbfFai.",
        b"a\x00b",
        b"x" * 20_001,
        b"x" * 600_000,
        b"---\nnome: riassumi\n---\nFai.",
        WHOLE.replace("riassumi", "libero").encode(),
        b"---\nnome: !!python/object/apply:os.system ['true']\n---\nFai.",
        b"---\n" + b"[" * 10_000 + b"\n---\nFai.",
    ],
)
def test_a_variant_that_is_none_is_refused(pepper: Pepper, text: bytes) -> None:
    ran = pepper.run("recipe", "variant", "riassumi", "--project", "demo", "--file", "-", given=text)
    assert ran.status == 1
    assert ran.complaint
    assert "no variant" in pepper.refused("recipe", "variant", "riassumi", "--project", "demo", "--remove")


def test_a_file_that_cannot_be_read_is_refused(pepper: Pepper) -> None:
    for file in ("/nowhere", "/", "a" * 300):
        complaint = pepper.refused("recipe", "variant", "riassumi", "--project", "demo", "--file", file)
        assert "can't be read" in complaint


def test_the_check_tells_every_problem(pepper: Pepper, recipes: Path) -> None:
    assert pepper.told("recipe", "check") == {"ok": True, "problemi": []}
    assert "6 recipes" in pepper.done("recipe", "check")
    (recipes / "pepper" / "rotta.md").write_text("---\nnome: rotta\nlivello: alto\n---\n")
    (recipes / "pepper" / "altra.md").write_bytes(b"\xff")
    ran = pepper.run("recipe", "check")
    assert (ran.status, ran.out) == (1, "")
    assert len(ran.err.splitlines()) > 4
    assert all(line.startswith("pepper: ") for line in ran.err.splitlines())
    ran = pepper.run("recipe", "check", "--json")
    assert (ran.status, ran.err, ran.json["ok"]) == (1, "", False)
    assert all(list(problem) == ["file", "problema"] for problem in ran.json["problemi"])
    assert {Path(problem["file"]).name for problem in ran.json["problemi"]} == {"rotta.md", "altra.md"}
    assert "pepper recipe check" in pepper.refused("project", "list")


# --- models -------------------------------------------------------------------------------------------------------


def test_models_are_listed(pepper: Pepper) -> None:
    keys = ["nome", "predefinito", "provider", "principale", "economico", "ragionamento", "ripiego"]
    assert [list(one) for one in pepper.told("model", "list")] == [keys] * 3
    assert pepper.told("model", "list") == [
        _model(
            "Pepper 6",
            "claude",
            "claude-opus-5",
            "claude-haiku-4-5",
            "off",
            "model:claude-haiku-4-5",
            default=True,
        ),
        _model("Pepper 6 · OpenAI", "openai", "gpt-5.5", "gpt-5.4-mini", "off", "none"),
        _model("Pepper 7", "claude", "claude-opus-5-5", "claude-haiku-4-5", "medium", "pepper:Pepper 6"),
    ]


def _model(*told: str, default: bool = False) -> dict[str, object]:
    keys = ("nome", "provider", "principale", "economico", "ragionamento", "ripiego")
    return dict(zip(keys, told, strict=True)) | {"predefinito": default}


def test_the_life_of_a_model(pepper: Pepper) -> None:
    added = ["--provider", "openai", "--main", "gpt-5.5", "--economy", "gpt-5.4-mini"]
    assert pepper.told("model", "add", "Pepper 8", *added) == {"ok": True}
    assert pepper.told("model", "list")[3] == _model(
        "Pepper 8", "openai", "gpt-5.5", "gpt-5.4-mini", "off", "none"
    )
    changes = [
        "--reasoning",
        "high",
        "--fallback",
        "pepper:Pepper 6 · OpenAI",
        "--voice",
        "on",
        "--news",
        "Nuovo.",
    ]
    assert pepper.told("model", "set", "Pepper 8", *changes, "--description", "Il nuovo.") == {"ok": True}
    expected = _model("Pepper 8", "openai", "gpt-5.5", "gpt-5.4-mini", "high", "pepper:Pepper 6 · OpenAI")
    assert pepper.told("model", "list")[3] == expected
    assert pepper.told("model", "default", "Pepper 8") == {"ok": True}
    assert [one["predefinito"] for one in pepper.told("model", "list")] == [False, False, False, True]
    assert pepper.project("demo")["modello"] == "Pepper 8"


def test_a_model_that_cannot_be_is_refused(pepper: Pepper) -> None:
    parts = ["--provider", "claude", "--main", "claude-opus-5", "--economy", "claude-haiku-4-5"]
    assert "exists already" in pepper.refused("model", "add", "Pepper 6", *parts)
    assert "reserved" in pepper.refused("model", "add", "default", *parts)
    assert "no such model" in pepper.refused(
        "model", "add", "Pepper 8", *parts, "--fallback", "pepper:Pepper 99"
    )
    assert "circle" in pepper.refused("model", "set", "Pepper 6", "--fallback", "pepper:Pepper 7")
    assert "no model" in pepper.refused("model", "set", "Pepper 99", "--voice", "on")
    assert "no model" in pepper.refused("model", "default", "Pepper 99")
    assert len(pepper.told("model", "list")) == 3


def test_a_model_without_a_price_is_warned_of(pepper: Pepper) -> None:
    ran = pepper.run(
        *("model", "add", "Pepper 8", "--provider", "claude", "--main", "claude-mistero", "--economy"),
        *("claude-haiku-4-5", "--fallback", "model:claude-enigma", "--json"),
    )
    assert (ran.status, ran.json) == (0, {"ok": True})
    warnings = ran.err.splitlines()
    assert len(warnings) == 2
    assert "pepper price set claude-mistero" in warnings[0]
    assert "pepper price set claude-enigma" in warnings[1]
    for model in ("claude-mistero", "claude-enigma"):
        pepper.done("price", "set", model, "--input", "1", "--output", "2")
    assert pepper.run("model", "set", "Pepper 8", "--voice", "on").err == ""


# --- prices -------------------------------------------------------------------------------------------------------


def test_prices_are_listed(pepper: Pepper) -> None:
    told = pepper.told("price", "list")
    assert [one["modello"] for one in told] == TARGETS
    keys = ["modello", "input_usd", "output_usd", "cache_read_usd", "cache_write_usd", "origine", "data"]
    for one in told:
        assert list(one) == keys
        assert one["origine"] == "genai-prices"
        assert 0 < one["input_usd"] < one["output_usd"]


def test_an_operators_price_goes_before_the_bundled_one(pepper: Pepper) -> None:
    clock = pepper.folder / "clock"
    clock.write_text("2026-12-31T23:30:00Z")
    pepper.environment["PEPPER_CLOCK_FILE"] = str(clock)
    assert pepper.told("price", "set", "claude-opus-5", "--input", "4", "--output", "20.5") == {"ok": True}
    full = ["--input", "1", "--output", "2", "--cache-read", "0", "--cache-write", "1.25"]
    pepper.done("price", "set", "un modello", *full)
    told = {one["modello"]: tuple(one.values())[1:] for one in pepper.told("price", "list")}
    assert told["claude-opus-5"] == (4, 20.5, 4, 4, "operatore", "2027-01-01")
    assert told["un modello"] == (1, 2, 0, 1.25, "operatore", "2027-01-01")
    assert list(told) == [*TARGETS, "un modello"]


def test_a_model_nobody_knows_the_price_of_is_listed(pepper: Pepper) -> None:
    pepper.done("model", "set", "Pepper 7", "--main", "claude-mistero")
    told = {one["modello"]: set(list(one.values())[1:]) for one in pepper.told("price", "list")}
    assert told["claude-mistero"] == {None}
