"""What can be wrong with a recipe file, in one line."""

from __future__ import annotations


class RecipeFileError(ValueError):
    """A recipe file, or the folder of them, can't be used.

    Args:
        file: Path of the file, or the name of what was read.
        problem: What is wrong, in one line.

    """

    def __init__(self, file: str, problem: str) -> None:
        self.file = one_line(file)
        self.problem = one_line(problem)
        super().__init__(f"{self.file}: {self.problem}")


def one_line(text: str) -> str:
    """Keep a message to one line of bounded length, whatever a file put into it."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))[:500]
