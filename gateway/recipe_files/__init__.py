"""Recipe files read into recipes (`files.py`), and a request's extras checked by them (`extras.py`)."""

from gateway.recipe_files.extras import (
    LIST_LIMITS,
    MAX_INTEGER,
    NO_CACHE,
    PARAMETERS_HEADING,
    PLACEHOLDER,
    TEXT_CHARACTERS,
    ExtraError,
    ExtraValue,
    instructions_for,
    read_extras,
)
from gateway.recipe_files.files import (
    MAX_FILE_BYTES,
    check_recipes,
    default_folder,
    parse_recipe,
    parse_variant,
    read_recipes,
)
from gateway.recipe_files.problems import RecipeFileError

__all__ = [
    "LIST_LIMITS",
    "MAX_FILE_BYTES",
    "MAX_INTEGER",
    "NO_CACHE",
    "PARAMETERS_HEADING",
    "PLACEHOLDER",
    "TEXT_CHARACTERS",
    "ExtraError",
    "ExtraValue",
    "RecipeFileError",
    "check_recipes",
    "default_folder",
    "instructions_for",
    "parse_recipe",
    "parse_variant",
    "read_extras",
    "read_recipes",
]
