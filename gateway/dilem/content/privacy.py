"""The page on privacy, in one language."""

from __future__ import annotations

from gateway.dilem.content.blocks import Links, Page, Prose, Section
from gateway.dilem.content.docs import Docs
from gateway.dilem.content.site import Site
from gateway.dilem.content.words import words_in
from gateway.dilem.contract import Language


def privacy(language: Language, site: Site) -> Page:
    """Say what is kept, for how long, and who processes the texts."""
    said = words_in(language).privacy
    sections = tuple(
        Section(title=each.title, level=2, blocks=tuple(map(Prose, each.text))) for each in said.sections
    )
    return Page(
        title=said.title,
        description=said.description,
        kicker=said.kicker,
        lead=said.lead,
        blocks=(*sections, Links((Docs(language, site).contact(),))),
    )
