"""What all commands do alike: run on the stores, print tables and JSON, say in one line what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from gateway.settings import SettingError, Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from gateway.bootstrap.stores import Stores

Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., None])

MAX_LINE = 500
"""Characters of an error, whatever was typed into it."""


def with_stores(work: Callable[[Stores], Coroutine[Any, Any, Result]]) -> Result:
    """Open the stores, do the work and close them; what an operator can mend becomes a `ClickException`."""
    # Help and wrong usage must not wait for the database's library.
    from gateway.bootstrap.stores import open_stores  # noqa: PLC0415

    async def opened(settings: Settings) -> Result:
        async with open_stores(settings, notice) as stores:
            return await work(stores)

    with mendable():
        return asyncio.run(opened(read_settings()))


@contextmanager
def mendable() -> Iterator[None]:
    """Turn what an operator can mend into one line and exit status 1."""
    from gateway.bootstrap.data_folder import StartError  # noqa: PLC0415 - as above
    from gateway.domain.errors import StoreAwayError  # noqa: PLC0415
    from gateway.recipe_files import RecipeFileError  # noqa: PLC0415
    from gateway.storage.migrate import NewerSchemaError  # noqa: PLC0415
    from gateway.storage.outages import MissingSchemaError  # noqa: PLC0415
    from gateway.storage.refusals import RefusalError  # noqa: PLC0415

    try:
        yield
    except (
        SettingError,
        StartError,
        RefusalError,
        RecipeFileError,
        MissingSchemaError,
        NewerSchemaError,
    ) as error:
        raise click.ClickException(str(error)) from None
    except StoreAwayError as error:
        raise click.ClickException(f"a store does not answer: {error} (pepper doctor)") from None


# --- printing ---------------------------------------------------------------------------------------------


def json_option(command: Command) -> Command:
    """Give a command `--json`, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(
        command
    )


def print_json(document: object) -> None:
    """Print a document, in UTF-8 whatever the terminal speaks."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def print_done(sentence: str, *, as_json: bool) -> None:
    """Say that a change is made."""
    if as_json:
        print_json({"ok": True})
    else:
        click.echo(sentence)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings, in columns as wide as they must be."""
    lines = [list(headings), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
        case list() | tuple():
            return one_line(", ".join(map(str, value))) or "-"
        case None:
            return "-"
    return one_line(str(value)) or "-"


def notice(text: str) -> None:
    """Tell the operator something beside the command's result."""
    click.echo(text, err=True)


def complain(text: str) -> None:
    """Print an error: one line, whatever somebody put into it."""
    click.echo(f"pepper: {one_line(text)}", err=True)


def one_line(text: str) -> str:
    """Keep a text to one printable line of bounded length."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))[:MAX_LINE]


def local_time(instant: datetime | None, zone: ZoneInfo) -> str | None:
    """Write an instant as the contract does, in the operator's time zone."""
    return None if instant is None else instant.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
