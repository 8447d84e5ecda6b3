"""Recipe files: Markdown instructions under a YAML front matter, read into `Recipe` and into nothing else.

It promises that a file is either understood whole or refused with one line that names the file and the place,
whatever it holds. `docs/recipes.md` tells operators the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gateway.domain.catalog import Recipe
from gateway.recipe_files.front_matter import FrontMatter, decode, read_declared
from gateway.recipe_files.problems import RecipeFileError
from gateway.recipe_files.yaml_text import load

FENCE: Final = "---"
PARTNER_FOLDER: Final = "pepper"
CONTRACT_ORDER: Final = ("riassumi", "correggi", "estrai", "classifica", "libero")

MAX_INSTRUCTIONS_CHARACTERS: Final = 20_000
MAX_FILE_BYTES: Final = 512_000


def parse_recipe(text: str, *, partner: bool, source: str) -> Recipe:
    """Read the text of a recipe file.

    Args:
        text: Front matter and instructions.
        partner: Whether partner projects may see it.
        source: What the error calls it.

    Raises:
        RecipeFileError: It is no recipe; the first of its problems.

    """
    problems: list[str] = []
    recipe = _understand(text, partner=partner, problems=problems)
    if recipe is None:
        raise RecipeFileError(source, problems[0])
    return recipe


def parse_variant(
    base: Recipe, text: str, project: str, version: int, *, source: str | None = None
) -> Recipe:
    """Read a project's own variant of a recipe.

    A text that begins with a front matter is a whole recipe and counts as it stands; any other text is
    instructions, which take the place of the base's.

    Raises:
        RecipeFileError: It is neither, or it is a recipe of another name.

    """
    source = source or f"variant of {base.name} for {project}"
    problems: list[str] = []
    plain = _normalised(text, problems)
    if _opens_with_fence(plain):
        recipe = parse_recipe(text, partner=base.partner, source=source)
        if recipe.name != base.name:
            raise RecipeFileError(source, f"nome: is {recipe.name}, but this is a variant of {base.name}")
    else:
        recipe = msgspec.structs.replace(base, instructions=_instructions(plain, problems))
        if problems:
            raise RecipeFileError(source, problems[0])
    return msgspec.structs.replace(recipe, variant_of=project, version=version)


def _understand(text: str, *, partner: bool, problems: list[str]) -> Recipe | None:
    """Read a whole recipe file; None if anything is wrong with it, and `problems` then tells everything."""
    before = len(problems)
    lines = _normalised(text, problems).split("\n")
    closing = next((number for number, line in enumerate(lines) if number and line.rstrip() == FENCE), None)
    if not _opens_with_fence(lines[0]) or closing is None:
        problems.append(f"must begin with a front matter between two lines {FENCE}")
        return None
    instructions = _instructions("\n".join(lines[closing + 1 :]), problems)
    try:
        found = load("\n".join(lines[1:closing]))
    except ValueError as error:
        problems.append(str(error))
        return None
    front = decode(found, FrontMatter, "", problems)
    extras = read_declared(found.get("extra"), problems) if isinstance(found, dict) else ()
    if front is None or len(problems) > before:
        return None
    return Recipe(
        name=front.name,
        description=" ".join(front.description.split()),
        level=front.level,
        instructions=instructions,
        extras=extras,
        max_tokens=front.max_tokens,
        base_tokens=front.base_tokens,
        tokens_per_input=front.tokens_per_input,
        cache_hours=front.cache_hours,
        internet=front.internet,
        knowledge=front.knowledge,
        partner=partner,
    )


def _normalised(text: str, problems: list[str]) -> str:
    """Give the text with plain line ends, telling what no recipe may hold."""
    if text.startswith("\ufeff"):
        problems.append("begins with a byte order mark: save it as UTF-8 without BOM")
    if "\0" in text:
        problems.append("holds a NUL character")
    if re.search("[\ud800-\udfff]", text):
        problems.append("is not valid Unicode")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _opens_with_fence(text: str) -> bool:
    return text.partition("\n")[0].rstrip() == FENCE


def _instructions(text: str, problems: list[str]) -> str:
    text = text.strip()
    if not text:
        problems.append("has no instructions")
    if len(text) > MAX_INSTRUCTIONS_CHARACTERS:
        problems.append(f"the instructions have more than {MAX_INSTRUCTIONS_CHARACTERS} characters")
    return text


def default_folder() -> Path:
    """Give the folder of the gateway's own recipes: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parent / "recipes"


def read_recipes(folder: Path) -> dict[str, Recipe]:
    """Read every recipe of a folder by its name, those of the contract first.

    Raises:
        RecipeFileError: The folder or one of its files can't be used; the first of the problems.

    """
    recipes, errors = _read_folder(folder)
    if errors:
        raise errors[0]
    return recipes


def check_recipes(folder: Path) -> list[RecipeFileError]:
    """Tell everything that `read_recipes` would refuse, file by file; nothing when all is well."""
    return _read_folder(folder)[1]


def _read_folder(folder: Path) -> tuple[dict[str, Recipe], list[RecipeFileError]]:
    try:
        places = list(_places(folder))
    except OSError as error:
        return {}, [RecipeFileError(str(folder), f"can't be read: {error.strerror}")]
    errors: list[RecipeFileError] = []
    found: dict[str, tuple[Recipe, Path]] = {}
    for file, partner in places:
        problems: list[str] = []
        recipe = _read_file(file, partner=partner, problems=problems)
        if recipe is not None and recipe.name in found:
            problems.append(f"nome: {recipe.name} is already the recipe of {found[recipe.name][1]}")
        elif recipe is not None:
            found[recipe.name] = recipe, file
        errors.extend(RecipeFileError(str(file), problem) for problem in problems)
    if not any(partner for _, partner in places):
        errors.append(RecipeFileError(str(folder), "holds no recipe for partners (*.md, here or in pepper/)"))
    first = [name for name in CONTRACT_ORDER if name in found]
    return {name: found[name][0] for name in (*first, *sorted(found.keys() - set(first)))}, errors


def _places(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Find the files, and whether partners see them: those of `pepper/`, or else of the folder itself."""
    within = folder / PARTNER_FOLDER
    partners = within if within.is_dir() else folder
    others = sorted(path for path in folder.iterdir() if path.is_dir() and path != partners)
    for inner in (partners, *others):
        if inner == partners or not inner.name.startswith("."):
            for file in sorted(inner.iterdir()):
                if file.suffix == ".md" and not file.name.startswith("."):
                    yield file, inner == partners


def _read_file(file: Path, *, partner: bool, problems: list[str]) -> Recipe | None:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        problems.append(f"can't be read: {error.strerror}")
        return None
    if len(data) > MAX_FILE_BYTES:
        problems.append(f"is larger than {MAX_FILE_BYTES} bytes")
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        problems.append(f"is not UTF-8 (at byte {error.start})")
        return None
    recipe = _understand(text, partner=partner, problems=problems)
    if recipe is not None and file.name != f"{recipe.name}.md":
        problems.append(f"nome: is {recipe.name}, so the file must be called {recipe.name}.md")
    return recipe
