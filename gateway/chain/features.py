"""What a call may use beyond its text: attachments, citations, the web. Each by the project's leave, the recipe's and the brain's."""

from __future__ import annotations

import msgspec

from gateway.attachments.read import Attachments, is_photo
from gateway.domain.calls import Search
from gateway.domain.catalog import Brain, Level, Recipe
from gateway.domain.completion import CompletionRequest, Part, Pdf, Shape
from gateway.domain.errors import DOCUMENTS_NOT_ENABLED, IMAGES_NOT_ENABLED, Failure
from gateway.domain.limits import MAX_DOCUMENT_PAGES, MAX_DOCUMENT_PAGES_ECONOMY
from gateway.domain.sandbox import SANDBOX_PROVIDER
from gateway.domain.tenants import Permission, Project

ATTACHMENT_PROVIDERS = frozenset({"claude", SANDBOX_PROVIDER})
"""Who reads attachments and searches the web."""
MOST_SEARCHES = 3
SEARCH_INPUT_TOKENS = 60_000
"""What the pages found in one call may weigh."""
CITATIONS_OFF_BY_SHAPE = "schema_json"


class Features(msgspec.Struct, frozen=True):
    """What a call uses.

    Attributes:
        cited: PDFs are there and the answer has no forced shape.
        citations_off: Why there will be no citations although PDFs are there.

    """

    attachments: tuple[Part, ...] = ()
    cited: bool = False
    citations_off: str | None = None
    search: Search | None = None

    @property
    def pages(self) -> int | None:
        """Pages of the PDFs that came in the request; None when there were none."""
        counted = [
            part.pages for part in self.attachments if isinstance(part, Pdf) and part.pages is not None
        ]
        return sum(counted) if counted else None


def most_pages(level: Level) -> int:
    """Pages of all PDFs of a call together."""
    return MAX_DOCUMENT_PAGES_ECONOMY if level is Level.ECONOMY else MAX_DOCUMENT_PAGES


async def read_features(
    attachments: Attachments,
    project: Project,
    request: CompletionRequest,
    *,
    recipe: Recipe,
    brain: Brain,
    shape: Shape | None,
) -> Features:
    """Judge what a request asks for and what it gets.

    Raises:
        Failure: 403 without leave (or with a brain that can't), 400 and 413 for the attachments themselves.

    """
    provider = SANDBOX_PROVIDER if project.sandbox else brain.provider
    able = provider in ATTACHMENT_PROVIDERS
    if request.attachments and not able:
        fault = IMAGES_NOT_ENABLED if is_photo(request.attachments[0]) else DOCUMENTS_NOT_ENABLED
        raise Failure(
            fault, f"Il modello «{brain.name}» non legge allegati: serve un modello che usa Claude."
        )
    parts: tuple[Part, ...] = ()
    if request.attachments:
        parts = await attachments.read(project, request.attachments, most_pages=most_pages(recipe.level))
    permitted = able and recipe.internet and project.may(Permission.INTERNET)
    searches = permitted and not request.deferred and shape is None  # a forced shape leaves no room to cite
    search = (
        Search(most=MOST_SEARCHES, domains=project.domains, most_input_tokens=SEARCH_INPUT_TOKENS)
        if searches
        else None
    )
    pdfs = any(isinstance(part, Pdf) for part in parts)
    return Features(
        attachments=parts,
        cited=pdfs and shape is None,
        citations_off=CITATIONS_OFF_BY_SHAPE if pdfs and shape is not None else None,
        search=search,
    )
