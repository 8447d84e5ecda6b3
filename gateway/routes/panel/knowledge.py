"""The knowledge: a project's documents, their passages, and what a question would find in them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from litestar import Request, Response, get, post
from litestar.datastructures import UploadFile
from litestar.params import FromPath

from gateway.attachments.pdf_text import UnreadableError
from gateway.chain.looking import MAX_QUESTION_CHARACTERS
from gateway.core import Office
from gateway.domain.errors import UNAUTHORIZED, Failure
from gateway.domain.inputs import read_document_name
from gateway.domain.knowledge import MAX_DOCUMENT_CHARACTERS, MAX_DOCUMENT_NAME, blank
from gateway.domain.limits import BYTES_PER_MB, MAX_DOCUMENT_MB
from gateway.domain.operators import Role
from gateway.domain.tenants import Caller, Project, Scope
from gateway.routes.exchange import new_request_id
from gateway.routes.panel.forms import Form, read_form
from gateway.routes.panel.pages import Pages, go
from gateway.routes.panel.visitors import visitor_of

KNOWLEDGE = "/panel/knowledge"
PASSAGES_A_PAGE = 50
PDF_HEAD = b"%PDF-"
HEAD_BYTES = 1_024

AnyRequest = Request[Any, Any, Any]


class UploadError(Exception):
    """A document can't be taken in; `str()` is the key of the sentence that says why."""


def knowledge_routes(office: Office, pages: Pages) -> list[Any]:
    """The routes."""
    shown = _Shown(office, pages)
    return [*_lists(office, pages, shown), *_changes(office, pages, shown)]


class _Shown:
    """A project's page, as it is shown after whatever was done."""

    def __init__(self, office: Office, pages: Pages) -> None:
        self._office = office
        self._pages = pages

    async def shelf(
        self, request: AnyRequest, project: Project, *, status: int = 200, **more: object
    ) -> Response[bytes]:
        """A project's documents; `more` is an error, what was typed or what was found."""
        scope = scope_of(request, project)
        shelf = await self._office.library.shelf(scope)
        context = {
            "project": project,
            "tab": "knowledge",
            "documents": shelf.documents,
            "state": await self._office.library.state(scope),
            "outdated": {one.id for one in await self._office.library.outdated(scope, shelf)},
            "most_characters": MAX_DOCUMENT_CHARACTERS,
            "most_question": MAX_QUESTION_CHARACTERS,
            "most_name": MAX_DOCUMENT_NAME,
            "name": "",
            "text": "",
            "question": "",
            "finding": None,
            **more,
        }
        return self._pages.page(request, "shelf.html", context, status=status)

    async def failed(
        self, request: AnyRequest, project: Project, failure: Failure, **more: object
    ) -> Response[bytes]:
        """The same after a refusal of the chain, in its words."""
        fault = failure.fault
        if fault is UNAUTHORIZED:  # what a partner is told of a project that is switched off
            error = self._pages.words(request)("knowledge.disabled")
            return await self.shelf(request, project, error=error, status=409, **more)
        reason = f" ({failure.reason})" if failure.reason else ""
        error = f"{fault.status} {fault.code}: {failure.message}{reason}"
        return await self.shelf(request, project, error=error, status=fault.status, **more)


def _lists(office: Office, pages: Pages, shown: _Shown) -> list[Any]:
    @get("/knowledge", opt={"role": Role.VIEWER})
    async def show_projects(request: AnyRequest) -> Response[bytes]:
        projects = await office.tenants.list_projects()
        lines = {line.project: line for line in await office.reports.shelves()}
        context = {"projects": [(one, lines.get(one.name)) for one in projects if not one.internal]}
        return pages.page(request, "knowledge.html", context)

    @get("/knowledge/{name:str}", opt={"role": Role.VIEWER})
    async def show_shelf(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        return await shown.shelf(request, await office.tenants.get_project(name))

    @get("/knowledge/{name:str}/{document:int}", opt={"role": Role.VIEWER})
    async def show_document(
        request: AnyRequest, name: FromPath[str], document: FromPath[int]
    ) -> Response[bytes]:
        project = await office.tenants.get_project(name)
        try:
            one, passages = await office.looking.passages(scope_of(request, project), document)
        except Failure:
            return pages.page(
                request,
                "trouble.html",
                {"status": 404, "what": pages.words(request)("trouble.missing")},
                status=404,
            )
        first = _first(request.query_params.get("from", ""), len(passages))
        context = {
            "project": project,
            "tab": "knowledge",
            "document": one,
            "passages": list(enumerate(passages, start=1))[first : first + PASSAGES_A_PAGE],
            "lost": one.passages - len(passages),
            "total": len(passages),
            "before": max(0, first - PASSAGES_A_PAGE) + 1 if first else None,
            "after": first + PASSAGES_A_PAGE + 1 if first + PASSAGES_A_PAGE < len(passages) else None,
        }
        return pages.page(request, "document.html", context)

    return [show_projects, show_shelf, show_document]


def _changes(office: Office, pages: Pages, shown: _Shown) -> list[Any]:
    @post("/knowledge/{name:str}/add", opt={"role": Role.EDITOR})
    async def add_document(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        project = await office.tenants.get_project(name)
        typed = {"name": form.text("name"), "text": form.whole("text")}
        try:
            title, text = await read_document(form, office)
        except UploadError as error:
            return await shown.shelf(request, project, error=words(str(error)), status=400, **typed)
        by = visitor_of(request).operator
        try:
            uploaded = await office.library.add(scope_of(request, project), title, text, by=by)
        except Failure as failure:
            return await shown.failed(request, project, failure, **typed)
        return go(
            f"{KNOWLEDGE}/{name}/{uploaded.document.id}", done="replaced" if uploaded.replaced else "added"
        )

    @post("/knowledge/{name:str}/{document:int}/remove", opt={"role": Role.EDITOR})
    async def remove_document(
        request: AnyRequest, name: FromPath[str], document: FromPath[int]
    ) -> Response[bytes]:
        project = await office.tenants.get_project(name)
        by = visitor_of(request).operator
        try:
            await office.library.remove(scope_of(request, project), document, by=by)
        except Failure as failure:
            return await shown.failed(request, project, failure)
        return go(f"{KNOWLEDGE}/{name}", done="taken_out")

    @post("/knowledge/{name:str}/reindex", opt={"role": Role.EDITOR})
    async def reindex(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        project, words = await office.tenants.get_project(name), pages.words(request)
        try:
            done = await office.library.reindex(scope_of(request, project), by=visitor_of(request).operator)
        except Failure as failure:
            return await shown.failed(request, project, failure)
        return await shown.shelf(request, project, done=words("knowledge.reindexed", count=len(done)))

    @post("/knowledge/{name:str}/search", opt={"role": Role.EDITOR})
    async def search(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        form, words = await read_form(request), pages.words(request)
        project, question = await office.tenants.get_project(name), form.text("question")
        if not 1 <= len(question) <= MAX_QUESTION_CHARACTERS:
            error = words("knowledge.question_wrong", most=MAX_QUESTION_CHARACTERS)
            return await shown.shelf(request, project, error=error, question=question, status=400)
        try:
            finding = await office.looking.search(scope_of(request, project), question)
        except Failure as failure:
            return await shown.failed(request, project, failure, question=question)
        return await shown.shelf(request, project, question=question, finding=finding)

    return [add_document, remove_document, reindex, search]


def scope_of(request: AnyRequest, project: Project) -> Scope:
    """On the project's behalf, by whoever is logged in."""
    return Scope(Caller(project, by=visitor_of(request).operator.name), new_request_id())


async def read_document(form: Form, office: Office) -> tuple[str, str]:
    """Read name and text of a document: typed, or a file's.

    Raises:
        UploadError: There is none, or it can't be taken.

    """
    file = form.file("file")
    text = form.whole("text") if file is None else await _text_of(file, office)
    if blank(text):
        raise UploadError("knowledge.empty")
    if len(text) > MAX_DOCUMENT_CHARACTERS:
        raise UploadError("knowledge.too_long")
    try:
        name = read_document_name(form.text("name") or (_base_name(file) if file else ""))
    except ValueError:
        raise UploadError("knowledge.name_wrong") from None
    return name, text


async def _text_of(file: UploadFile, office: Office) -> str:
    data = await file.read()
    if PDF_HEAD in data[:HEAD_BYTES]:
        if len(data) > MAX_DOCUMENT_MB * BYTES_PER_MB:
            raise UploadError("knowledge.pdf_large")
        try:
            return await office.pdf_texts.read(data, MAX_DOCUMENT_CHARACTERS)
        except UnreadableError as error:
            raise UploadError(f"knowledge.pdf_{error.reading.name.lower()}") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UploadError("knowledge.not_text") from None


def _base_name(file: UploadFile) -> str:
    """A file's name without the folders that some browsers send along."""
    return PurePosixPath(file.filename.replace("\\", "/")).name


def _first(text: str, total: int) -> int:
    """The first passage of a page, counted from 0."""
    number = int(text) if text.isdecimal() and len(text) < 9 else 1
    return min(max(number - 1, 0), max(total - 1, 0))
