"""`pepper knowledge`: a project's own documents, from the operator's side and through the same chain as the partner's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.cli.shared import json_option, local_time, print_done, print_json, print_table, with_stores
from gateway.cli.values import Parsed
from gateway.domain.errors import Failure
from gateway.domain.inputs import read_document_id, read_document_name, read_project
from gateway.domain.knowledge import MAX_DOCUMENT_CHARACTERS, blank
from gateway.domain.tenants import COMMAND_LINE, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gateway.bootstrap.stores import Stores
    from gateway.chain.library import Library
    from gateway.domain.knowledge import Uploaded

Result = TypeVar("Result")

MOST_BYTES = 4 * MAX_DOCUMENT_CHARACTERS

project_option = click.option(
    "--project",
    metavar="P",
    required=True,
    type=Parsed("project", read_project),
    help="The project whose documents they are.",
)


@click.group()
def knowledge() -> None:
    """A project's own documents, which its answers are given on."""


def with_library(
    project: str, work: Callable[[Library, Scope, Stores], Coroutine[Any, Any, Result]]
) -> Result:
    """Open a project's library, do the work and close it; a refusal becomes a `ClickException`."""

    async def opened(stores: Stores) -> Result:
        from gateway.bootstrap.knowledge import open_library  # noqa: PLC0415 - help must not wait for it
        from gateway.routes.exchange import new_request_id  # noqa: PLC0415

        if (await stores.tenants.get_project(project)).internal:
            raise click.ClickException(f"project {project} is the gateway's own and has no documents")
        async with open_library(stores) as (library, authenticator):
            caller = authenticator.on_behalf(project, COMMAND_LINE.name)
            return await work(library, Scope(caller, new_request_id()), stores)

    try:
        return with_stores(opened)
    except Failure as failure:
        reason = failure.reason or failure.fault.english
        raise click.ClickException(f"{failure.fault.code}: {reason}") from None


@knowledge.command("list")
@project_option
@json_option
def list_(*, project: str, as_json: bool) -> None:
    """List a project's documents, and which of them have to be made anew."""

    async def work(library: Library, scope: Scope, stores: Stores) -> list[dict[str, object]]:
        zone = stores.settings.timezone
        shelf = await library.shelf(scope)
        outdated = {document.id for document in await library.outdated(scope, shelf)}
        return [
            {
                "id": one.id,
                "nome": one.name,
                "pezzi": one.passages,
                "caratteri": one.characters,
                "caricato_il": local_time(one.uploaded_at, zone),
                "indice": one.embedder,
                "da_rifare": one.id in outdated,
            }
            for one in shelf.documents
        ]

    documents = with_library(project, work)
    if as_json:
        print_json(documents)
        return
    headings = ("ID", "NAME", "PASSAGES", "CHARACTERS", "UPLOADED", "INDEX", "TO MAKE ANEW")
    print_table(headings, (tuple(one.values()) for one in documents))


@knowledge.command()
@project_option
@click.option(
    "--name",
    metavar="N",
    required=True,
    type=Parsed("name", read_document_name),
    help="Its name; a document of the same name is replaced.",
)
@click.option("--file", metavar="F", required=True, help="The text, in UTF-8; - is standard input.")
@json_option
def add(*, project: str, name: str, file: str, as_json: bool) -> None:
    """Take a document into a project's knowledge."""
    text = _read(file)

    async def work(library: Library, scope: Scope, _: Stores) -> Uploaded:
        return await library.add(scope, name, text, by=COMMAND_LINE)

    uploaded = with_library(project, work)
    one = uploaded.document
    if as_json:
        print_json({"id": one.id, "nome": one.name, "pezzi": one.passages, "sostituito": uploaded.replaced})
    else:
        told = "replaced" if uploaded.replaced else "added"
        click.echo(f"document {one.id} of project {project} {told}: {_counted(one.passages, 'passage')}")


@knowledge.command()
@project_option
@click.argument("document", metavar="ID", type=Parsed("id", read_document_id))
@json_option
def remove(*, project: str, document: int, as_json: bool) -> None:
    """Take a document out of a project's knowledge, with its passages."""

    async def work(library: Library, scope: Scope, _: Stores) -> None:
        await library.remove(scope, document, by=COMMAND_LINE)

    with_library(project, work)
    print_done(f"document {document} of project {project} removed", as_json=as_json)


@knowledge.command()
@project_option
@json_option
def reindex(*, project: str, as_json: bool) -> None:
    """Make passages anew that were made for another index, or that the index has lost."""

    async def work(library: Library, scope: Scope, _: Stores) -> list[str]:
        return list(await library.reindex(scope, by=COMMAND_LINE))

    names = with_library(project, work)
    if as_json:
        print_json({"rifatti": names})
    else:
        click.echo(f"{_counted(len(names), 'document')} of project {project} made anew")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read(file: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
        text = data.decode() if len(data) <= MOST_BYTES else None
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: is not UTF-8 (at byte {error.start})") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise click.ClickException(f"{file}: can't be read: {getattr(error, 'strerror', error)}") from None
    if text is None or len(text) > MAX_DOCUMENT_CHARACTERS:
        raise click.ClickException(f"{file}: has more than {MAX_DOCUMENT_CHARACTERS} characters")
    if blank(text):
        raise click.ClickException(f"{file}: is empty")
    return text
