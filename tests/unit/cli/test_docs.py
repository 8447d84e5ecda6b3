"""docs/command-line.md says what the program says: every command and every option, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gateway.cli import COMMANDS, pepper

PAGE = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text()


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None, name
        yield from _commands(found, f"{path} {name}")


ALL = dict(_commands(pepper, "pepper"))
OPTIONS = {
    (path, name)
    for path, command in ALL.items()
    for parameter in command.params
    if isinstance(parameter, click.Option)
    for name in (*parameter.opts, *parameter.secondary_opts)
}


def _section(path: str) -> str:
    """The chapter of a command's noun."""
    _, noun, *_ = path.split()
    found = re.search(rf"^## `pepper {noun}`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, noun
    return found[1]


def test_the_commands_are_the_promised_ones() -> None:
    assert set(ALL) == {
        "pepper serve",
        *(
            f"pepper project {verb}"
            for verb in ("add", "set", "list", "notices", "disable", "enable", "remove")
        ),
        *(f"pepper key {verb}" for verb in ("add", "revoke", "list")),
        *(f"pepper recipe {verb}" for verb in ("list", "check", "set", "variant")),
        *(f"pepper knowledge {verb}" for verb in ("list", "add", "remove", "reindex")),
        *(f"pepper model {verb}" for verb in ("list", "add", "set", "default")),
        *(f"pepper price {verb}" for verb in ("set", "list")),
        *(f"pepper admin {verb}" for verb in ("add", "list", "remove")),
        "pepper dilem reports",
        "pepper migrate",
        "pepper doctor",
    }


@pytest.mark.parametrize("path", ALL)
def test_a_command_is_documented(path: str) -> None:
    assert re.search(rf"^{path}\b", _section(path), re.MULTILINE)


@pytest.mark.parametrize(("path", "option"), sorted(OPTIONS))
def test_an_option_is_documented(path: str, option: str) -> None:
    assert re.search(rf"{option}(?![\w-])", _section(path))


def test_no_option_is_invented() -> None:
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) == {name for _, name in OPTIONS} | {"--help"}


@pytest.mark.parametrize("path", ALL)
def test_every_command_but_serve_has_json(path: str) -> None:
    assert ((path, "--json") in OPTIONS) == (path != "pepper serve")


@pytest.mark.parametrize("path", ALL)
def test_a_command_explains_itself_in_one_sentence(path: str) -> None:
    sentence = ALL[path].help or ""
    assert re.fullmatch(r"[A-Z][^.\n]+\.", sentence), sentence
    assert len(sentence) <= 90
    assert all(parameter.help for parameter in ALL[path].params if isinstance(parameter, click.Option))


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    for name, sentence in COMMANDS.items():
        command = pepper.get_command(click.Context(pepper), name)
        assert command is not None
        assert command.help == sentence
